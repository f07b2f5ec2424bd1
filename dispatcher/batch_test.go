package dispatcher_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

func batches(b subscriptions.Batch) subscriptions.Change {
	if b.MaxBytes == 0 {
		b.MaxBytes = subscriptions.DefaultBatchBytes
	}
	return subscriptions.Change{Batch: &b}
}

func itemsOf(t *testing.T, req webhooks.Request) []webhooks.BatchItem {
	t.Helper()
	items, err := webhooks.DecodeBatch(req.ContentType, req.Body)
	if err != nil {
		t.Fatal(err)
	}
	return items
}

func TestBatch_SeveralItemsInOneRequest(t *testing.T) {
	t.Parallel()
	for _, encoding := range []subscriptions.BatchEncoding{subscriptions.BatchJSON, subscriptions.BatchMultipart} {
		t.Run(string(encoding), func(t *testing.T) {
			t.Parallel()
			inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
				r.subscribe(batches(subscriptions.Batch{MaxItems: 10, MaxWait: time.Second, Encoding: encoding}))
				items := make([]queue.ProduceItem, 25)
				for i := range items {
					items[i].Payload = []byte{0xff, byte(i)}
					items[i].Kind = fmt.Sprintf("kind %d €", i)
					items[i].Headers = map[string]string{"X-Item": fmt.Sprint(i), "ce-id": "1"}
				}
				ids := r.produceTo("orders", items...)
				pass(5 * time.Second)
				requests := r.sender.seen()
				if len(requests) != 3 {
					t.Fatalf("%d requests, want 3", len(requests))
				}
				var all []webhooks.BatchItem
				for _, req := range requests {
					all = append(all, itemsOf(t, req.Request)...)
				}
				// The requests run side by side.
				slices.SortFunc(all, func(a, b webhooks.BatchItem) int { return strings.Compare(a.ID, b.ID) })
				if len(all) != len(ids) || r.held() != 0 || r.item(ids[0]) != nil {
					t.Fatalf("%d items, %d held, want all done", len(all), r.held())
				}
				for k, got := range all {
					if got.ID != ids[k].String() || string(got.Payload) != string(items[k].Payload) ||
						got.Kind != items[k].Kind || got.Attempt != 1 || got.MaxAttempts != 12 ||
						got.EnqueuedAt.IsZero() || got.Headers["X-Item"] != fmt.Sprint(k) || len(got.Headers) != 1 {
						t.Errorf("item %d: %+v", k, got)
					}
				}
			})
		})
	}
}

func TestBatch_AnswerNamesWhatFailed(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(batches(subscriptions.Batch{MaxItems: 10}))
		r.sender.script(func(_ context.Context, req webhooks.Request) webhooks.Result {
			items := itemsOf(t, req)
			res := status(200)
			if len(items) == 4 {
				res.Body = webhooks.EncodeFailed(webhooks.FailedItem{ID: items[1].ID, RetryAfter: time.Hour}, webhooks.FailedItem{ID: items[3].ID})
			}
			return res
		})
		ids := r.produce(4)
		for i, id := range ids {
			it := r.item(id)
			switch {
			case i%2 == 0 && it != nil:
				t.Errorf("item %d: %+v, want it done", i, it)
			case i%2 == 1 && (it == nil || it.Attempts != 1 || !strings.HasPrefix(it.Last.Error, "item_failed: ")):
				t.Errorf("item %d: %+v, want it to be tried again", i, it)
			}
		}
		if it := r.item(ids[1]); time.Until(it.AvailableAt) < time.Hour {
			t.Errorf("due in %s, want an hour at least", time.Until(it.AvailableAt))
		}
		if got := r.records(ids[0]); len(got) != 1 || got[0].Verdict != "delivered" {
			t.Errorf("records %+v", got)
		}
		if got := r.records(ids[3]); len(got) != 1 || got[0].Verdict != "retryable" || got[0].Status != 200 {
			t.Errorf("records %+v", got)
		}
		pass(2 * time.Hour)
		if r.item(ids[1]) != nil || r.item(ids[3]) != nil {
			t.Error("not done in the end")
		}
	})
}

func TestBatch_WithoutABodyThatNamesItemsTheStatusCounts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		res  webhooks.Result
		body string
		cut  bool
		done bool
	}{
		"bare 200":          {res: status(200), done: true},
		"other text":        {res: status(200), body: "ok", done: true},
		"other JSON":        {res: status(200), body: `{"ok":true}`, done: true},
		"500":               {res: status(500), body: `{"failed":[]}`},
		"JSON that broke":   {res: status(200), body: `{"failed":[{"id":"`, cut: true},
		"JSON that is none": {res: status(200), body: `{"failed":3}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
				r.subscribe(batches(subscriptions.Batch{MaxItems: 10}))
				res := tt.res
				res.Body, res.BodyCut = []byte(tt.body), tt.cut
				r.sender.script(always(res))
				for _, id := range r.produce(3) {
					if it := r.item(id); (it == nil) != tt.done || it != nil && it.Attempts != 1 {
						t.Errorf("item %+v, want done %v", it, tt.done)
					}
				}
			})
		})
	}
}

func TestBatch_OneItemThatIsSomebodyElsesDoesNotUndoTheOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(batches(subscriptions.Batch{MaxItems: 10}))
		r.sender.script(func(_ context.Context, req webhooks.Request) webhooks.Result {
			id, err := queue.ParseID(itemsOf(t, req)[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.broker.Cancel(t.Context(), queue.CancelCall{Namespace: ns, IDs: []queue.ID{id}}); err != nil {
				t.Error(err)
			}
			return status(200)
		})
		ids := r.produce(5)
		for i, id := range ids {
			if it := r.item(id); it != nil {
				t.Errorf("item %d: %+v", i, it)
			}
		}
		if _, stale := r.Running(); stale != 1 {
			t.Errorf("%d outcomes too late, want 1", stale)
		}
	})
}

func TestBatch_LeasesOfAllItemsAreRenewed(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		change := batches(subscriptions.Batch{MaxItems: 10})
		change.Timeout = new(5 * time.Minute)
		r.subscribe(change)
		r.sender.script(slow(4*time.Minute, status(200)))
		ids := r.produce(5)
		pass(3 * time.Minute)
		for _, id := range ids {
			if it := r.item(id); it == nil || it.State(time.Now()) != queue.Leased {
				t.Errorf("item %+v, want it leased", it)
			}
		}
		pass(2 * time.Minute)
		if n := len(r.sender.seen()); n != 1 || r.held() != 0 {
			t.Errorf("%d requests, %d held", n, r.held())
		}
	})
}

func TestBatch_BytesBoundARequest(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(batches(subscriptions.Batch{MaxItems: 100, MaxBytes: 1024, MaxWait: time.Second}))
		items := make([]queue.ProduceItem, 10)
		for i := range items {
			items[i].Payload = make([]byte, 400)
		}
		items[0].Payload = make([]byte, 5000)
		r.produceTo("orders", items...)
		pass(30 * time.Second)
		n := 0
		for _, req := range r.sender.seen() {
			size := 0
			got := itemsOf(t, req.Request)
			for _, it := range got {
				size += len(it.Payload)
			}
			if size > 1024 && len(got) > 1 {
				t.Errorf("%d items with %d bytes", len(got), size)
			}
			n += len(got)
		}
		if n != 10 || r.held() != 0 {
			t.Errorf("%d items sent, %d held", n, r.held())
		}
	})
}

// What waits for others and then for a slot is leased all the while.
func TestD01_BatchThatWaitedLongIsSentOnce(t *testing.T) {
	t.Parallel()
	for offset := range 10 {
		t.Run(fmt.Sprint(offset), func(t *testing.T) {
			t.Parallel()
			inBubble(t, dispatcher.Options{MaxPushes: 1}, func(t *testing.T, r *rig) {
				r.subscribeTo("other", "other", subscriptions.Change{})
				r.subscribe(batches(subscriptions.Batch{MaxItems: 10, MaxWait: 10 * time.Second}))
				r.sender.script(func(ctx context.Context, req webhooks.Request) webhooks.Result {
					if req.Info.Queue == "other" {
						return slow(22*time.Second, status(200))(ctx, req)
					}
					return slow(8*time.Second, status(200))(ctx, req)
				})
				pass(time.Duration(offset) * time.Second)
				r.produceTo("other", queue.ProduceItem{})
				r.produce(1)
				pass(5 * time.Minute)
				n := 0
				for _, req := range r.sender.seen() {
					if req.Info.Queue == "orders" {
						n++
					}
				}
				if n != 1 || r.held() != 0 {
					t.Errorf("%d requests, %d held, want one", n, r.held())
				}
			})
		})
	}
}

func TestBatch_ItemThatIsNeverToComeAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(batches(subscriptions.Batch{MaxItems: 10}))
		r.sender.script(func(_ context.Context, req webhooks.Request) webhooks.Result {
			res := status(200)
			res.Body = webhooks.EncodeFailed(webhooks.FailedItem{ID: itemsOf(t, req)[0].ID, Never: true})
			return res
		})
		ids := r.produce(2)
		if it := r.item(ids[0]); it == nil || it.Dead == nil || it.Dead.Reason != dispatcher.ReasonRejected {
			t.Errorf("item %+v, want it buried", it)
		}
		if it := r.item(ids[1]); it != nil {
			t.Errorf("item %+v, want it done", it)
		}
	})
}

// A batch whose ends are more copies for a topic than one call takes is settled in parts.
func TestBatch_TellsATopicInParts(t *testing.T) {
	t.Parallel()
	const subscribers, many = 150, 100 // 15,000 copies
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		if _, err := r.broker.CreateTopic(t.Context(), ns, "ends", ""); err != nil {
			t.Fatal(err)
		}
		for i := range subscribers {
			if _, err := r.broker.Subscribe(t.Context(), ns, "ends", fmt.Sprint("s", i), nil); err != nil {
				t.Fatal(err)
			}
		}
		r.subscribe(batches(subscriptions.Batch{MaxItems: many, MaxWait: time.Second}))
		r.widen("orders")
		r.sender.forget()
		items := make([]queue.ProduceItem, many)
		for i := range items {
			items[i].OnDone = "ends"
		}
		ids := r.produceTo("orders", items...)
		pass(5 * time.Second)
		for _, id := range ids {
			if r.item(id) != nil {
				t.Fatalf("item %s was not settled", id)
			}
		}
		stats, err := r.broker.Stats(t.Context(), ns, "ends~s7")
		if err != nil || stats.Stats[0].Total != many {
			t.Errorf("s7 was told %+v, %v, want %d ends", stats, err, many)
		}
		if got := len(r.sender.seen()); got != 1 {
			t.Errorf("%d requests, want 1", got)
		}
	})
}

// What the store has no room for is not asked of it for ever: the item comes again.
func TestPush_AnOutcomeThatIsTooLargeEndsThePush(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{})
		large := &queue.TooLargeError{Field: "entries", Limit: 6_225_920, Unit: "bytes"}
		r.broker.refuse(&r.broker.refuseSettle, large)
		id := r.produce(1)[0]
		pass(40 * time.Second) // longer than a lease, which nobody renews
		if got := len(r.sender.seen()); got != 2 {
			t.Errorf("%d requests, want 2", got)
		}
		r.broker.refuse(&r.broker.refuseSettle, nil)
		pass(time.Hour)
		if it := r.item(id); it != nil {
			t.Errorf("the item is still there: %+v", it)
		}
	})
}
