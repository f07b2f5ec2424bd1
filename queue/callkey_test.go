package queue_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func keyedCall(key string, items ...queue.ProduceItem) queue.ProduceCall {
	return queue.ProduceCall{Namespace: ns, Queue: "orders", Key: key, Items: items}
}

func TestProduce_RepeatOfACallWithAKeyInsertsNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		call := keyedCall("call", items(3)...)
		call.Items[1].IdempotencyKey = "own"
		first, err := f.Produce(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		again, err := f.Produce(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		for i := range again {
			if !again[i].Duplicate || again[i].ID != first[i].ID {
				t.Errorf("item %d: got %+v, want a duplicate of %s", i, again[i], first[i].ID)
			}
		}
		// The item's own key is known by itself, and that of the call is none of an item.
		own := f.produce(t, "orders", call.Items[1])
		if !own[0].Duplicate || own[0].ID != first[1].ID {
			t.Errorf("own key: got %+v, want a duplicate", own[0])
		}
		item := items(1)[0]
		for _, key := range []string{"call", "call/0"} {
			item.IdempotencyKey = key
			if made := f.produce(t, "orders", item); made[0].Duplicate {
				t.Errorf("an item with the key %q is taken for one of the call", key)
			}
		}
		if got := f.total(t, "orders"); got != 5 {
			t.Errorf("got %d items, want 5", got)
		}
		<-time.After(queue.KeyTTL)
		if made, err := f.Produce(t.Context(), keyedCall("call", items(1)...)); err != nil || made[0].Duplicate {
			t.Errorf("after a day: got %+v, %v, want a new item", made, err)
		}
	})
}

// Items with keys of their own are part of the call, whatever their places.
func TestProduce_ACallWithItsItemsInAnotherOrderIsAnotherCall(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		own, other := items(2)[0], items(2)[1]
		own.IdempotencyKey = "k"
		call := queue.ProduceCall{Namespace: ns, Queue: "orders", Key: "call", Items: []queue.ProduceItem{own, other}}
		if _, err := f.Produce(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		call.Items = []queue.ProduceItem{other, own}
		if _, err := f.Produce(t.Context(), call); !errors.Is(err, queue.ErrMismatch) {
			t.Errorf("got %v, want ErrMismatch", err)
		}
		if n := f.total(t, "orders"); n != 2 {
			t.Errorf("%d items, want 2", n)
		}
	})
}

func TestProduce_AnotherCallWithTheKeyIsRefused(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		if _, err := f.Produce(t.Context(), keyedCall("call", items(2)...)); err != nil {
			t.Fatal(err)
		}
		other := items(2)
		other[1].Payload = bytes.ToUpper(other[1].Payload)
		for name, list := range map[string][]queue.ProduceItem{
			"fewer": items(1), "more": items(3), "another body": other,
		} {
			if _, err := f.Produce(t.Context(), keyedCall("call", list...)); !errors.Is(err, queue.ErrMismatch) {
				t.Errorf("%s: got %v, want ErrMismatch", name, err)
			}
		}
		if got := f.total(t, "orders"); got != 2 {
			t.Errorf("got %d items, want 2", got)
		}
		for _, key := range []string{"a b", string(bytes.Repeat([]byte("k"), queue.MaxIdempotencyKey+1))} {
			_, err := f.Produce(t.Context(), keyedCall(key, items(1)...))
			wantInvalid(t, err, "Idempotency-Key")
		}
		long := string(bytes.Repeat([]byte("k"), queue.MaxIdempotencyKey))
		many := make([]queue.ProduceItem, queue.DefaultMaxItems)
		if _, err := f.Produce(t.Context(), keyedCall(long, many...)); err != nil {
			t.Errorf("the longest key: %v", err)
		}
	})
}
