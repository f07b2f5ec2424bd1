package queue_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/queue"
)

func TestI07_Names(t *testing.T) {
	t.Parallel()
	const neither, reference, both = 0, 1, 2
	for name, want := range map[string]int{
		"orders": both, "A": both, "0": both, "a.b_c-d": both, strings.Repeat("x", queue.MaxName): both,
		"orders~dead": reference, "events~billing": reference,
		"": neither, strings.Repeat("x", queue.MaxName+1): neither, "a..b": neither, ".a": neither, "-a": neither, "_a": neither,
		"a b": neither, "a/b": neither, "a\x00": neither, "ä": neither, "а": neither, "a\n": neither,
		"~dead": neither, "orders~": neither, "a~b~c": neither, "a~.b": neither,
	} {
		if err := queue.CheckName("f", name); (err == nil) != (want == both) {
			t.Errorf("name %q: got %v", name, err)
		} else if err != nil {
			wantInvalid(t, err, "f")
		}
		if err := queue.CheckReference("f", name); (err == nil) != (want != neither) {
			t.Errorf("reference %q: got %v", name, err)
		}
	}
}

func TestID_IsReadOnlyAsItIsWritten(t *testing.T) {
	t.Parallel()
	id := queue.NewID()
	if got, err := queue.ParseID(id.String()); err != nil || got != id || got.IsZero() {
		t.Errorf("got %v, %v, want %v", got, err, id)
	}
	for _, text := range []string{"", strings.ToUpper("0190163d-8694-739b-aea5-966c26f8ad91"), "0190163d8694739baea5966c26f8ad91", "{0190163d-8694-739b-aea5-966c26f8ad91}", "x"} {
		if got, err := queue.ParseID(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestID_RisesInOneProcess(t *testing.T) {
	t.Parallel()
	last := queue.NewID()
	for range 10_000 {
		id := queue.NewID()
		if id.String() <= last.String() {
			t.Fatalf("%s was made after %s", id, last)
		}
		last = id
	}
}

func TestNumber_JoinsNamespaceAndOwn(t *testing.T) {
	t.Parallel()
	n := queue.NewNumber(0xfedcba98, 0x87654321)
	if n.Namespace() != 0xfedcba98 || n.Own() != 0x87654321 {
		t.Errorf("got %x and %x", n.Namespace(), n.Own())
	}
}

func TestErrors_AreToldApart(t *testing.T) {
	t.Parallel()
	stale := &queue.StaleError{Entries: map[int]error{0: queue.ErrStale, 3: queue.ErrAlreadyDead}}
	unsupported := &queue.UnsupportedError{What: "topics"}
	for _, test := range []struct {
		err, target error
		want        bool
	}{
		{stale, queue.ErrStale, true},
		{stale, queue.ErrAlreadyDead, true},
		{stale, queue.ErrNotFound, false},
		{unsupported, queue.ErrNotSupported, true},
		{unsupported, queue.ErrNotFound, false},
		{&queue.MismatchError{Index: 1}, queue.ErrMismatch, true},
	} {
		if got := errors.Is(test.err, test.target); got != test.want {
			t.Errorf("%v is %v: got %v, want %v", test.err, test.target, got, test.want)
		}
	}
	for err, want := range map[error]string{
		queue.Invalid("items[3].delay", "is %d", 4):                   "items[3].delay: is 4",
		queue.Invalid("", "is cut"):                                   "is cut",
		&queue.TooLargeError{Field: "items", Limit: 9, Unit: "bytes"}: "items: over the limit of 9 bytes",
	} {
		if got := err.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
