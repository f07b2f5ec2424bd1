package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// told is an item that tells its queue "done" of its end.
func told(payload string) queue.ProduceItem {
	return queue.ProduceItem{Content: queue.Content{
		Kind: "order", Reference: "r-7", Encoding: "text/plain", Hop: 1,
		Trace:  "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		OnDone: "done", Payload: []byte(payload),
	}}
}

// telling runs a test with the queue "done" beside the queue "orders".
func telling(t *testing.T, o queue.Options, test func(t *testing.T, f *fixture)) {
	t.Helper()
	bubbleWith(t, o, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "done"})
		test(t, f)
	})
}

// leaseTold leases an item that tells of its end.
func (f *fixture) leaseTold(t *testing.T) queue.Item {
	t.Helper()
	f.produce(t, "orders", told("a"))
	it := f.leaseOne(t, "orders")
	if !it.Receipt().Notify {
		t.Error("the receipt does not say that somebody is told")
	}
	return it
}

// ends takes what the queue "done" was told.
func (f *fixture) ends(t *testing.T) []queue.Done { return f.endsOf(t, "done") }

// endsOf takes what a queue was told.
func (f *fixture) endsOf(t *testing.T, name string) (ends []queue.Done) {
	t.Helper()
	for _, it := range f.lease(t, name, 1000) {
		if it.Kind != queue.DoneKind || it.Encoding != "application/json" {
			t.Errorf("got kind %q and encoding %q", it.Kind, it.Encoding)
		}
		var d queue.Done
		if err := json.Unmarshal(it.Payload, &d); err != nil {
			t.Fatalf("%s: %v", it.Payload, err)
		}
		ends = append(ends, d)
		f.settle(t, entry(it, queue.Complete))
	}
	return ends
}

func (f *fixture) wantEnds(t *testing.T, what string, want ...queue.Done) {
	t.Helper()
	got, err := json.Marshal(f.ends(t))
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(wanted) {
		t.Errorf("%s:\n got %s\nwant %s", what, got, wanted)
	}
}

// endOf is what is told of an item of told after its first delivery.
func endOf(it queue.Item, outcome, reason string) queue.Done {
	d := queue.Done{
		ItemID: it.ID.String(), QueueName: "orders", Kind: "order", Reference: "r-7", Encoding: "text/plain",
		Outcome: outcome, Reason: reason, Deliveries: 1,
	}
	if outcome == queue.DoneBuried {
		d.DeadQueue = "orders~dead"
	}
	return d
}

func answered(status int32, response string) *queue.Record {
	return &queue.Record{
		Type: queue.AttemptRecord, Subscription: "billing", Verdict: "delivered", Status: status,
		Error: "as it came", Response: []byte(response), StartedAt: time.Now(),
	}
}

func TestDone_TellsOfEveryEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		settle func(it queue.Item) queue.SettleEntry
		// want is nil where the item goes on.
		want func(it queue.Item) *queue.Done
	}{
		"completed": {
			func(it queue.Item) queue.SettleEntry { return entry(it, queue.Complete) },
			func(it queue.Item) *queue.Done { d := endOf(it, queue.DoneCompleted, ""); return &d },
		},
		"completed by a push": {
			func(it queue.Item) queue.SettleEntry {
				e := entry(it, queue.Complete)
				e.Item, e.Record = &it, answered(200, "\x00fine")
				return e
			},
			func(it queue.Item) *queue.Done {
				d := endOf(it, queue.DoneCompleted, "")
				d.Subscription, d.Status, d.Error, d.Response = "billing", 200, "as it came", []byte("\x00fine")
				return &d
			},
		},
		"buried": {
			func(it queue.Item) queue.SettleEntry {
				e := entry(it, queue.Bury)
				e.Reason, e.Last = "no such customer", queue.Last{Status: 404, Error: "not found"}
				return e
			},
			func(it queue.Item) *queue.Done {
				d := endOf(it, queue.DoneBuried, "no such customer")
				d.Status, d.Error = 404, "not found"
				return &d
			},
		},
		"retried at the limit": {
			func(it queue.Item) queue.SettleEntry {
				e := entry(it, queue.Retry)
				e.MaxAttempts, e.Item, e.Record = 1, &it, answered(500, "<b>é</b>")
				return e
			},
			func(it queue.Item) *queue.Done {
				d := endOf(it, queue.DoneBuried, queue.ReasonMaxAttempts)
				d.Subscription, d.Status, d.Error, d.ResponseText = "billing", 500, "as it came", "<b>é</b>"
				d.Attempts = 1
				return &d
			},
		},
		"retried at the limit by receipt": {
			func(it queue.Item) queue.SettleEntry {
				e := entry(it, queue.Retry)
				e.MaxAttempts = 1
				return e
			},
			func(it queue.Item) *queue.Done {
				d := endOf(it, queue.DoneBuried, queue.ReasonMaxAttempts)
				d.Attempts = 1
				return &d
			},
		},
		"retried": {
			func(it queue.Item) queue.SettleEntry { return entry(it, queue.Retry) },
			func(queue.Item) *queue.Done { return nil },
		},
		"released": {
			func(it queue.Item) queue.SettleEntry { return entry(it, queue.Release) },
			func(queue.Item) *queue.Done { return nil },
		},
	} {
		// The dead-letter queue may be known, or not.
		for _, known := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				telling(t, queue.Options{}, func(t *testing.T, f *fixture) {
					if known {
						f.bury(t, "orders", "other", items(1)...)
					}
					it := f.leaseTold(t)
					waiting := waitFor(1, time.Minute)
					waiting.Queue = "done"
					listening := f.startLease(t.Context(), waiting)
					f.settle(t, test.settle(it))
					want := test.want(it)
					if want == nil {
						if !isPending(listening) {
							t.Error("something was told")
						}
						return
					}
					// Whoever waits is woken, and what came has what the item had.
					a := <-listening
					if a.err != nil || len(a.value.Items) != 1 {
						t.Fatalf("got %+v, want what was told", a)
					}
					tells := a.value.Items[0]
					if tells.Reference != "r-7" || tells.Trace != it.Trace || tells.Hop != 2 || tells.ID == it.ID {
						t.Errorf("got %+v, want the reference and the trace of the item, one hop on", tells)
					}
					f.settle(t, entry(tells, queue.Release))
					f.wantEnds(t, name, *want)
				})
			})
		}
	}
}

func TestDone_TheSubscriptionsIsForItemsThatNameNone(t *testing.T) {
	t.Parallel()
	telling(t, queue.Options{}, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "other"})
		f.produce(t, "orders", told("own"), queue.ProduceItem{Content: queue.Content{Payload: []byte("none")}})
		for _, it := range f.lease(t, "orders", 2) {
			e := entry(it, queue.Complete)
			e.Item, e.OnDone = &it, "other"
			f.settle(t, e)
		}
		for _, name := range []string{"done", "other"} {
			if got := f.total(t, name); got != 1 {
				t.Errorf("%s was told of %d ends, want 1", name, got)
			}
		}
	})
}

func TestDone_AReceiptThatSaysSoIsAskedTheSubscriptionFor(t *testing.T) {
	t.Parallel()
	o := queue.Options{OnDone: func(_ context.Context, _ queue.Namespace, name string) (string, error) {
		return map[string]string{"orders": "done"}[name], nil
	}}
	telling(t, o, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(2)...)
		leased := f.lease(t, "orders", 2)
		finds := f.store.Calls(storagetest.Find)
		f.settle(t, entry(leased[0], queue.Complete))
		if got := f.store.Calls(storagetest.Find) - finds; got != 0 {
			t.Errorf("a plain receipt cost %d look-ups, want none", got)
		}
		f.wantEnds(t, "plain receipt")
		e := entry(leased[1], queue.Complete)
		e.Receipt.Notify = true
		f.settle(t, e)
		if got := f.store.Calls(storagetest.Find) - finds; got != 1 {
			t.Errorf("it cost %d look-ups, want 1", got)
		}
		want := endOf(leased[1], queue.DoneCompleted, "")
		want.Kind, want.Reference, want.Encoding = "", "", ""
		f.wantEnds(t, "receipt", want)
	})
}

func TestDone_ReceiptsThatDifferInTheFlagAreOneLease(t *testing.T) {
	t.Parallel()
	telling(t, queue.Options{}, func(t *testing.T, f *fixture) {
		it := f.leaseTold(t)
		plain := entry(it, queue.Complete)
		plain.Receipt.Notify = false
		_, err := f.Settle(t.Context(), settleCall(entry(it, queue.Complete), plain))
		wantInvalid(t, err, "receipts[1]")
	})
}

func TestDone_ARetryOnItsWayCostsNoLookUp(t *testing.T) {
	t.Parallel()
	telling(t, queue.Options{}, func(t *testing.T, f *fixture) {
		it := f.leaseTold(t)
		finds := f.store.Calls(storagetest.Find)
		f.settle(t, entry(it, queue.Retry))
		if got := f.store.Calls(storagetest.Find) - finds; got != 0 {
			t.Errorf("it cost %d look-ups, want none", got)
		}
	})
}

func TestD13_TheEndAndWhatTellsOfItAreOneTransaction(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]queue.Outcome{"complete": queue.Complete, "bury": queue.Bury, "retry": queue.Retry} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			telling(t, queue.Options{}, func(t *testing.T, f *fixture) {
				f.bury(t, "orders", "so that the dead-letter queue is there", items(1)...)
				e := entry(f.leaseTold(t), outcome)
				e.MaxAttempts = 1
				call := 1
				if outcome == queue.Retry {
					call = 2 // the first one finds out that it ends
				}
				f.store.FailBefore(storagetest.Settle, call, queue.ErrUnavailable)
				if _, err := f.Settle(t.Context(), settleCall(e)); !errors.Is(err, queue.ErrUnavailable) {
					t.Fatalf("got %v, want ErrUnavailable", err)
				}
				if got := f.total(t, "done"); got != 0 {
					t.Fatalf("%d ends were told before there was one", got)
				}
				f.store.FailAfter(storagetest.Settle, call, queue.ErrUnknownOutcome)
				if _, err := f.Settle(t.Context(), settleCall(e)); !errors.Is(err, queue.ErrUnknownOutcome) {
					t.Fatalf("got %v, want ErrUnknownOutcome", err)
				}
				// Who does not know repeats it.
				if _, err := f.Settle(t.Context(), settleCall(e)); !errors.Is(err, queue.ErrNotFound) {
					t.Fatalf("repeat: got %v, want ErrNotFound", err)
				}
				if got := f.ends(t); len(got) != 1 {
					t.Errorf("%d ends were told, want 1", len(got))
				}
			})
		})
	}
}

func TestDone_ARefusedCallTellsNothing(t *testing.T) {
	t.Parallel()
	telling(t, queue.Options{}, func(t *testing.T, f *fixture) {
		it := f.leaseTold(t)
		f.produce(t, "orders", items(1)...)
		stale := f.leaseOne(t, "orders")
		f.settle(t, entry(stale, queue.Release))
		if _, err := f.Settle(t.Context(), settleCall(entry(it, queue.Complete), entry(stale, queue.Complete))); !errors.Is(err, queue.ErrStale) {
			t.Errorf("got %v, want ErrStale", err)
		}
		f.wantEnds(t, "refused")
	})
}
