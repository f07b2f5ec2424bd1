package queue_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func TestProduce_KeepsWhatItWasGiven(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "hasty", ExpireTTL: time.Hour})
		given := queue.ProduceItem{
			Content: queue.Content{
				Kind: "order.paid", Encoding: "text/plain", Reference: "№ 7", Trace: "00-1-2-03", Hop: 4,
				Headers: map[string]string{"X-A": "b"}, Payload: []byte{0, 0xff, 0xfe},
			},
			MaxAttempts: 3, Delay: time.Minute,
		}
		own := given
		own.ExpireTTL = 2 * time.Hour
		produced := f.produce(t, "hasty", given, own)
		it := f.find(t, produced[0].ID)
		if it.Kind != given.Kind || it.Encoding != given.Encoding || it.Reference != given.Reference || it.Trace != given.Trace ||
			it.Hop != 4 || it.Headers["X-A"] != "b" || string(it.Payload) != string(given.Payload) || it.MaxAttempts != 3 {
			t.Errorf("got %+v, want %+v", it, given)
		}
		if want := time.Now().Add(time.Minute); !it.AvailableAt.Equal(want) || !produced[0].DueAt.Equal(want) {
			t.Errorf("due: got %v and %v, want %v", it.AvailableAt, produced[0].DueAt, want)
		}
		for i, ttl := range []time.Duration{time.Hour, 2 * time.Hour} {
			if it := f.find(t, produced[i].ID); !it.ExpiresAt.Equal(it.DueAt.Add(ttl)) {
				t.Errorf("item %d expires at %v, want %s after %v", i, it.ExpiresAt, ttl, it.DueAt)
			}
		}
	})
}

func TestProduce_ChecksEveryField(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	for name, test := range map[string]struct {
		item  queue.ProduceItem
		field string
	}{
		"long kind":              {queue.ProduceItem{Content: queue.Content{Kind: long}}, "items[1].kind"},
		"kind with a line break": {queue.ProduceItem{Content: queue.Content{Kind: "a\r\nb"}}, "items[1].kind"},
		"encoding not UTF-8":     {queue.ProduceItem{Content: queue.Content{Encoding: "\xff"}}, "items[1].encoding"},
		"reference with NUL":     {queue.ProduceItem{Content: queue.Content{Reference: "a\x00"}}, "items[1].reference"},
		"key with a space":       {queue.ProduceItem{IdempotencyKey: "a b"}, "items[1].idempotency_key"},
		"key not ASCII":          {queue.ProduceItem{IdempotencyKey: "é"}, "items[1].idempotency_key"},
		"long key":               {queue.ProduceItem{IdempotencyKey: long}, "items[1].idempotency_key"},
		"hop of a loop":          {queue.ProduceItem{Content: queue.Content{Hop: queue.MaxHop}}, "items[1].hop"},
		"header not UTF-8":       {queue.ProduceItem{Content: queue.Content{Headers: map[string]string{"a": "\xff"}}}, "items[1].headers"},
		"large headers":          {queue.ProduceItem{Content: queue.Content{Headers: map[string]string{"a": strings.Repeat("x", queue.MaxHeaderBytes)}}}, "items[1].headers"},
		"delay beside a time":    {queue.ProduceItem{Delay: 1, DueAt: time.Now()}, "items[1].delay"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse(t, test.item, func(err error) { wantInvalid(t, err, test.field) })
		})
	}
}

func TestI09_NumbersOutOfRangeAreRefused(t *testing.T) {
	t.Parallel()
	for field, item := range map[string]queue.ProduceItem{
		"items[1].delay":          {Delay: -1},
		"items[1].max_attempts":   {MaxAttempts: -2},
		"items[1].expire_timeout": {ExpireTTL: -1},
		"items[1].hop":            {Content: queue.Content{Hop: -1}},
	} {
		refuse(t, item, func(err error) { wantInvalid(t, err, field) })
	}
	refuse(t, queue.ProduceItem{Delay: math.MaxInt64}, func(err error) { wantInvalid(t, err, "items[1].delay") })
	refuse(t, queue.ProduceItem{ExpireTTL: math.MaxInt64}, func(err error) { wantInvalid(t, err, "items[1].expire_timeout") })
}

func TestC14_DueTimesAtTheExtremes(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]time.Time{
		"before 1970": time.Unix(-1, 0),
		"year 9999":   time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
		"11 years":    time.Now().AddDate(11, 0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse(t, queue.ProduceItem{DueAt: at}, func(err error) {
				wantInvalid(t, err, "items[1].enqueue_at")
				if tooFar := strings.HasSuffix(err.Error(), ": is more than 10 years ahead"); tooFar != at.After(time.Now()) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
	bubble(t, func(t *testing.T, f *fixture) {
		past := f.produce(t, "orders", queue.ProduceItem{DueAt: time.Unix(1, 0)})
		if it := f.leaseOne(t, "orders"); it.ID != past[0].ID || !it.DueAt.Equal(time.Now()) {
			t.Errorf("past time: got %v, want the item, due now", it.DueAt)
		}
	})
}

// refuse produces an item behind a good one, which must not be kept either.
func refuse(t *testing.T, item queue.ProduceItem, check func(err error)) {
	t.Helper()
	f := newFixture(queue.Options{})
	f.create(t, queue.Settings{Name: "orders"})
	_, err := f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: []queue.ProduceItem{{}, item}})
	if err == nil {
		t.Fatalf("%+v was taken", item)
	}
	check(err)
	if got := f.total(t, "orders"); got != 0 {
		t.Errorf("got %d items, want none", got)
	}
}

func TestProduce_RefusesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	payload := func(n int) queue.ProduceItem {
		return queue.ProduceItem{Content: queue.Content{Payload: make([]byte, n)}}
	}
	for field, given := range map[string][]queue.ProduceItem{
		"items":          items(queue.DefaultMaxItems + 1),
		"items[1].bytes": {payload(1), payload(queue.DefaultMaxPayload + 1)},
	} {
		f := newFixture(queue.Options{})
		f.create(t, queue.Settings{Name: "orders"})
		_, err := f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: given})
		if tooLarge, ok := errors.AsType[*queue.TooLargeError](err); !ok || tooLarge.Field != field {
			t.Errorf("got %v, want a TooLargeError for %s", err, field)
		}
	}
	f := newFixture(queue.Options{})
	f.create(t, queue.Settings{Name: "orders"})
	f.produce(t, "orders", payload(queue.DefaultMaxPayload), payload(0))
	full := make([]queue.ProduceItem, 6)
	for i := range full {
		full[i] = payload(900_000)
	}
	_, err := f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: full})
	if tooLarge, ok := errors.AsType[*queue.TooLargeError](err); !ok || tooLarge.Limit != queue.DefaultMaxCallBytes {
		t.Errorf("got %v, want a TooLargeError for %d bytes", err, queue.DefaultMaxCallBytes)
	}
}

func TestD15_KeyAndItemAreKeptTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		call := queue.ProduceCall{Namespace: ns, Queue: "orders", Items: []queue.ProduceItem{{IdempotencyKey: "k"}}}
		f.store.FailBefore(storagetest.Produce, 1, queue.ErrUnavailable)
		if _, err := f.Produce(t.Context(), call); !errors.Is(err, queue.ErrUnavailable) {
			t.Fatalf("got %v, want ErrUnavailable", err)
		}
		if got := f.total(t, "orders"); got != 0 {
			t.Fatalf("%d items are there, want none", got)
		}
		f.store.FailAfter(storagetest.Produce, 1, queue.ErrUnknownOutcome)
		if _, err := f.Produce(t.Context(), call); !errors.Is(err, queue.ErrUnknownOutcome) {
			t.Fatalf("got %v, want ErrUnknownOutcome", err)
		}
		it := f.leaseOne(t, "orders")
		again, err := f.Produce(t.Context(), call)
		if err != nil || !again[0].Duplicate || again[0].ID != it.ID {
			t.Errorf("repeat: got %+v, %v, want the first one's id", again, err)
		}
		if got := f.total(t, "orders"); got != 1 {
			t.Errorf("%d items are there, want 1", got)
		}
	})
}

func TestProduce_NeedsItemsAndAQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(queue.Options{})
	_, err := f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders"})
	wantInvalid(t, err, "items")
	_, err = f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: items(1)})
	if !errors.Is(err, queue.ErrNotFound) || !strings.Contains(err.Error(), "orders") {
		t.Errorf("unknown queue: got %v, want ErrNotFound with its name", err)
	}
	f.create(t, queue.Settings{Name: "orders"})
	_, err = f.Produce(t.Context(), queue.ProduceCall{Namespace: ns + 1, Queue: "orders", Items: items(1)})
	if !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("queue of another namespace: got %v, want ErrNotFound", err)
	}
}

func TestI06_FiftyConcurrentProducesUnderOneKeyMakeOneItem(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		const callers = 50
		answered := make(chan answer[[]queue.Produced], callers) // One for each call.
		for range callers {
			go func() {
				produced, err := f.Produce(context.Background(), queue.ProduceCall{
					Namespace: ns, Queue: "orders",
					Items: []queue.ProduceItem{{IdempotencyKey: "once", Content: queue.Content{Payload: []byte("x")}}},
				})
				answered <- answer[[]queue.Produced]{produced, err}
			}()
		}
		synctest.Wait()
		fresh := 0
		ids := map[queue.ID]bool{}
		for range callers {
			a := <-answered
			if a.err != nil {
				t.Fatal(a.err)
			}
			ids[a.value[0].ID] = true
			if !a.value[0].Duplicate {
				fresh++
			}
		}
		if got := f.total(t, "orders"); got != 1 || fresh != 1 || len(ids) != 1 {
			t.Errorf("got %d items, %d new ones, %d ids, want one of each", got, fresh, len(ids))
		}
	})
}

func TestI06_KeyWithAnotherBodyIsRefused(t *testing.T) {
	t.Parallel()
	base := queue.ProduceItem{
		IdempotencyKey: "once",
		Content: queue.Content{
			Kind: "a", Encoding: "b", Reference: "c", Payload: []byte("d"),
			Headers: map[string]string{"x": "yz", "v": "w"},
		},
	}
	for name, change := range map[string]func(it *queue.ProduceItem){
		"payload":               func(it *queue.ProduceItem) { it.Payload = []byte("e") },
		"kind":                  func(it *queue.ProduceItem) { it.Kind = "" },
		"encoding":              func(it *queue.ProduceItem) { it.Encoding = "" },
		"reference":             func(it *queue.ProduceItem) { it.Reference = "" },
		"text that moved over":  func(it *queue.ProduceItem) { it.Kind, it.Encoding = "ab", "" },
		"header":                func(it *queue.ProduceItem) { it.Headers = map[string]string{"x": "yz"} },
		"header that is longer": func(it *queue.ProduceItem) { it.Headers = map[string]string{"xy": "z", "v": "w"} },
		"delay":                 func(it *queue.ProduceItem) { it.Delay = time.Second },
		"time":                  func(it *queue.ProduceItem) { it.DueAt = time.Unix(1, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(queue.Options{})
			f.create(t, queue.Settings{Name: "orders"})
			f.create(t, queue.Settings{Name: "other"})
			first := f.produce(t, "orders", base)
			if again := f.produce(t, "orders", base); !again[0].Duplicate || again[0].ID != first[0].ID {
				t.Errorf("repeat: got %+v, want the duplicate of %s", again[0], first[0].ID)
			}
			changed := base
			change(&changed)
			_, err := f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: []queue.ProduceItem{{}, changed}})
			if mismatch, ok := errors.AsType[*queue.MismatchError](err); !ok || mismatch.Index != 1 || !errors.Is(err, queue.ErrMismatch) {
				t.Errorf("got %v, want a MismatchError for item 1", err)
			}
			if got := f.total(t, "orders"); got != 1 {
				t.Errorf("got %d items, want 1", got)
			}
			if elsewhere := f.produce(t, "other", changed); elsewhere[0].Duplicate {
				t.Error("a key of one queue counts on another")
			}
		})
	}
}

func TestProduce_DueNowWhereTheTimeIsPast(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		waiting := f.startLease(t.Context(), waitFor(1, time.Minute))
		f.produce(t, "orders", queue.ProduceItem{Delay: queue.Soon - 1})
		if a := <-waiting; len(a.value.Items) != 1 {
			t.Errorf("got %+v, want the item that is due at once", a)
		}
	})
}
