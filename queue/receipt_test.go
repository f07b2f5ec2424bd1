package queue_test

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/queue"
)

func someReceipt() queue.Receipt {
	return queue.Receipt{
		Key: queue.Key{
			ID: queue.NewID(), Queue: queue.NewNumber(queue.Namespace(rand.Uint32()), rand.Uint32()),
			Home: queue.Number(rand.Uint64()),
		},
		Partition: rand.Int32(),
		Token:     queue.Token{Counter: rand.Uint64(), Random: rand.Uint64()},
		Notify:    rand.N(2) == 0,
		Pushed:    rand.N(2) == 0,
	}
}

func TestReceipt_ReadsWhatItWrote(t *testing.T) {
	t.Parallel()
	for range 1000 {
		want := someReceipt()
		text := want.String()
		if len(text) > queue.MaxReceiptLength {
			t.Fatalf("%s: %d characters, at most %d", text, len(text), queue.MaxReceiptLength)
		}
		if got, err := queue.ParseReceipt(text); err != nil || got != want {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

// Receipts outlive a release, so their bytes may not change under their format.
func TestReceipt_LayoutIsAsItWas(t *testing.T) {
	t.Parallel()
	r := queue.Receipt{
		Key: queue.Key{
			ID:    queue.ID{0x01, 0x90, 0x16, 0x3d, 0x86, 0x94, 0x73, 0x9b, 0xae, 0xa5, 0x96, 0x6c, 0x26, 0xf8, 0xad, 0x91},
			Queue: queue.NewNumber(1, 2), Home: queue.NewNumber(1, 3),
		},
		Partition: 4, Token: queue.Token{Counter: 5, Random: 6},
	}
	const want = "AQAAAAEAAAACAAAAAQAAAAMAAAAEAZAWPYaUc5uupZZsJvitkQAAAAAAAAAFAAAAAAAAAAY"
	if got := r.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.Notify = true
	const notify = "AgAAAAEAAAACAAAAAQAAAAMAAAAEAZAWPYaUc5uupZZsJvitkQAAAAAAAAAFAAAAAAAAAAY"
	if got := r.String(); got != notify {
		t.Errorf("with somebody to be told: got %s, want %s", got, notify)
	}
	r.Pushed = true
	const all = "BAAAAAEAAAACAAAAAQAAAAMAAAAEAZAWPYaUc5uupZZsJvitkQAAAAAAAAAFAAAAAAAAAAY"
	if got := r.String(); got != all {
		t.Errorf("of a push: got %s, want %s", got, all)
	}
}

func TestReceipt_RefusesWhatItDidNotWrite(t *testing.T) {
	t.Parallel()
	good := someReceipt().String()
	raw, err := base64.RawURLEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	another := append([]byte{5}, raw[1:]...)
	for name, text := range map[string]string{
		"nothing":         "",
		"another version": base64.RawURLEncoding.EncodeToString(another),
		"cut":             good[:len(good)-4],
		"longer":          base64.RawURLEncoding.EncodeToString(append(raw, 0)),
		"far too long":    strings.Repeat("A", queue.MaxReceiptLength+1),
		"padded":          good + "=",
		"a line break":    good[:10] + "\n" + good[10:],
		"not base64url":   strings.Repeat("+", len(good)),
		// 53 bytes leave two bits in the last character that say nothing.
		"another spelling": good[:len(good)-1] + next(good[len(good)-1:]),
	} {
		if r, err := queue.ParseReceipt(text); err == nil {
			t.Errorf("%s: got %+v", name, r)
		}
	}
}

// next is the character that stands behind c in the alphabet.
func next(c string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	i := strings.Index(alphabet, c)
	return alphabet[i+1 : i+2]
}

func FuzzParseReceipt(f *testing.F) {
	f.Add("")
	f.Add(someReceipt().String())
	f.Fuzz(func(t *testing.T, text string) {
		r, err := queue.ParseReceipt(text)
		if err == nil && r.String() != text {
			t.Errorf("%q was read as %+v, which is written %s", text, r, r)
		}
	})
}
