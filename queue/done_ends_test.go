package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func TestDone_BrokersOwnEndsAreTold(t *testing.T) {
	t.Parallel()
	sweep := func(t *testing.T, f *fixture) {
		if n, err := f.Sweep(t.Context()); n != 1 || err != nil {
			t.Fatalf("sweep: buried %d, %v, want 1", n, err)
		}
	}
	lease := func(t *testing.T, f *fixture) {
		if got := f.lease(t, "orders", 1); len(got) != 0 {
			t.Fatalf("leased %d items, want none", len(got))
		}
	}
	ofSubscription := queue.Options{OnDone: func(context.Context, queue.Namespace, string) (string, error) { return "done", nil }}
	for name, bury := range map[string]func(*testing.T, *fixture){"sweep": sweep, "lease": lease} {
		for whose, o := range map[string]queue.Options{"item": {}, "subscription": ofSubscription} {
			for reason, d := range doom {
				t.Run(name+", "+whose+", "+reason, func(t *testing.T) {
					t.Parallel()
					telling(t, o, func(t *testing.T, f *fixture) {
						if n := d.settings.MaxAttempts; n != 0 {
							if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", MaxAttempts: &n}); err != nil {
								t.Fatal(err)
							}
						}
						item := told("a")
						if whose == "subscription" {
							item.OnDone = ""
						}
						item.ExpireTTL = d.item.ExpireTTL
						id := f.produce(t, "orders", item)[0].ID
						d.happens(t, f)
						bury(t, f)
						checkBuried(t, f, reason, id)
						ends := f.ends(t)
						if len(ends) != 1 {
							t.Fatalf("%d ends were told, want 1", len(ends))
						}
						got, dead := ends[0], f.find(t, id).Dead
						if got.ItemID != id.String() || got.Reason != reason || got.Outcome != queue.DoneBuried || got.Reference != "r-7" ||
							got.QueueName != "orders" || got.DeadQueue != "orders~dead" || got.Attempts != dead.Attempts {
							t.Errorf("got %+v, want the end of the item with %d attempts", got, dead.Attempts)
						}
					})
				})
			}
		}
	}
}

func TestDone_ASubscriptionThatCannotBeReadKeepsItsItems(t *testing.T) {
	t.Parallel()
	o := queue.Options{OnDone: func(context.Context, queue.Namespace, string) (string, error) { return "", errTest }}
	telling(t, o, func(t *testing.T, f *fixture) {
		id := f.produce(t, "orders", queue.ProduceItem{ExpireTTL: time.Minute})[0].ID
		<-time.After(time.Minute)
		if n, err := f.Sweep(t.Context()); n != 0 || !errors.Is(err, errTest) {
			t.Errorf("sweep: buried %d, %v, want none and the error", n, err)
		}
		f.wantIDs(t, "orders", id)
	})
}

func TestDone_ItemsStayWhileTheirQueueCannotBeAskedFor(t *testing.T) {
	t.Parallel()
	telling(t, queue.Options{}, func(t *testing.T, f *fixture) {
		item := told("a")
		item.ExpireTTL = time.Minute
		f.bury(t, "orders", "so that the dead-letter queue is there", items(1)...)
		f.produce(t, "orders", item, item)
		<-time.After(time.Minute)
		for _, name := range []string{"orders", "orders~dead"} { // what is known of the third is old
			if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: name, Reference: ptr("x")}); err != nil {
				t.Fatal(err)
			}
		}
		f.store.FailBefore(storagetest.GetDocument, 1, queue.ErrUnavailable)
		if n, err := f.Sweep(t.Context()); n != 0 || !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("sweep: buried %d, %v, want none and one error", n, err)
		}
		if n, err := f.Sweep(t.Context()); n != 2 || err != nil {
			t.Errorf("sweep again: buried %d, %v, want 2", n, err)
		}
		if got := len(f.ends(t)); got != 2 {
			t.Errorf("%d ends were told, want 2", got)
		}
	})
}

func TestDone_AQueueThatIsGoneDoesNotKeepAnItemFromEnding(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	o := queue.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	telling(t, o, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", told("a"), told("b"), told("c"))
		leased := f.lease(t, "orders", 3)
		if err := f.DeleteQueue(t.Context(), ns, "done", false); err != nil {
			t.Fatal(err)
		}
		f.settle(t, entry(leased[0], queue.Complete))
		f.settle(t, entry(leased[1], queue.Bury))
		if got := strings.Count(log.String(), "ends of items are not told"); got != 1 {
			t.Errorf("it was logged %d times, want once:\n%s", got, log.String())
		}
		<-time.After(2 * time.Hour)
		f.settle(t, entry(leased[2], queue.Complete))
		if got := strings.Count(log.String(), "ends of items are not told"); got != 2 {
			t.Errorf("it was logged %d times, want once more", got)
		}
		if got := f.total(t, "orders"); got != 0 {
			t.Errorf("%d items are left, want none", got)
		}
	})
}

func TestDone_AQueueIsNotDeletedWhileItIsTold(t *testing.T) {
	t.Parallel()
	telling(t, queue.Options{}, func(t *testing.T, f *fixture) {
		it := f.leaseTold(t)
		open := f.store.Block(storagetest.Settle)
		settling := start(func() ([]queue.Settled, error) {
			return f.Settle(t.Context(), settleCall(entry(it, queue.Complete)))
		})
		deleting := start(func() (struct{}, error) { return struct{}{}, f.DeleteQueue(t.Context(), ns, "done", false) })
		if !isPending(deleting) {
			t.Error("the queue was deleted while it was told")
		}
		open()
		if a := <-settling; a.err != nil {
			t.Error(a.err)
		}
		if a := <-deleting; !errors.Is(a.err, queue.ErrNotEmpty) {
			t.Errorf("delete: got %v, want ErrNotEmpty", a.err)
		}
	})
}

// Two pins of one queue in one call would wait for a deletion that waits for the first.
func TestDone_ADeadLetterQueueMayBeTold(t *testing.T) {
	t.Parallel()
	var f *fixture
	deleting := make(chan error, 1)
	// Asked once the dead-letter queue is pinned.
	o := queue.Options{OnDone: func(ctx context.Context, _ queue.Namespace, _ string) (string, error) {
		go func() { deleting <- f.DeleteQueue(context.WithoutCancel(ctx), ns, "orders~dead", false) }()
		synctest.Wait()
		return "orders~dead", nil
	}}
	telling(t, o, func(t *testing.T, running *fixture) {
		f = running
		f.produce(t, "orders", queue.ProduceItem{ExpireTTL: time.Minute})
		<-time.After(time.Minute)
		if n, err := f.Sweep(t.Context()); n != 1 || err != nil {
			t.Errorf("sweep: buried %d, %v, want 1", n, err)
		}
		if err := <-deleting; !errors.Is(err, queue.ErrNotEmpty) {
			t.Errorf("delete: got %v, want ErrNotEmpty", err)
		}
		if got := f.total(t, "orders~dead"); got != 2 {
			t.Errorf("it holds %d items, want what was buried and what tells of it", got)
		}
	})
}

func TestDone_APauseHoldsNothingUp(t *testing.T) {
	t.Parallel()
	telling(t, queue.Options{}, func(t *testing.T, f *fixture) {
		it := f.leaseTold(t)
		f.pause(t, "done", queue.PausedProduce)
		f.settle(t, entry(it, queue.Complete))
		f.wantEnds(t, "paused", endOf(it, queue.DoneCompleted, ""))
	})
}

func TestDone_WhatTellsExpiresAsItsQueueSays(t *testing.T) {
	t.Parallel()
	telling(t, queue.Options{}, func(t *testing.T, f *fixture) {
		ttl := time.Hour
		if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "done", ExpireTTL: &ttl}); err != nil {
			t.Fatal(err)
		}
		f.settle(t, entry(f.leaseTold(t), queue.Complete))
		if got, want := f.leaseOne(t, "done").ExpiresAt, time.Now().Add(ttl); !got.Equal(want) {
			t.Errorf("it expires at %v, want %v", got, want)
		}
	})
}

func TestDone_ALoopEnds(t *testing.T) {
	t.Parallel()
	telling(t, queue.Options{}, func(t *testing.T, f *fixture) {
		last, over := told("a"), told("b")
		last.Hop, over.Hop = queue.MaxHop-2, queue.MaxHop-1
		f.produce(t, "orders", over, last)
		leased := f.lease(t, "orders", 2)
		f.settle(t, entry(leased[0], queue.Complete), entry(leased[1], queue.Complete))
		f.wantEnds(t, "loop", endOf(leased[1], queue.DoneCompleted, ""))
	})
}

func TestDone_WhatIsBuriedHasBeenTold(t *testing.T) {
	t.Parallel()
	telling(t, queue.Options{}, func(t *testing.T, f *fixture) {
		f.settle(t, entry(f.leaseTold(t), queue.Bury))
		if got := len(f.ends(t)); got != 1 {
			t.Fatalf("%d ends were told, want 1", got)
		}
		dead := f.leaseOne(t, "orders~dead")
		if dead.Receipt().Notify {
			t.Error("the receipt in the dead-letter queue says that somebody is told")
		}
		f.settle(t, entry(dead, queue.Release))
		f.wantRedriven(t, redriveCall("orders~dead"), queue.Redriven{Moved: 1})
		again := f.leaseOne(t, "orders")
		f.settle(t, entry(again, queue.Complete))
		want := endOf(again, queue.DoneCompleted, "")
		want.Deliveries = again.Deliveries
		f.wantEnds(t, "after a redrive", want)
	})
}

func TestDone_TellsResultsThatNobodyElseKeeps(t *testing.T) {
	t.Parallel()
	telling(t, queue.Options{}, func(t *testing.T, f *fixture) {
		it := f.leaseTold(t)
		f.settle(t, done(it, "\"42\""))
		want := endOf(it, queue.DoneCompleted, "")
		want.ResponseText = "\"42\""
		f.wantEnds(t, "result", want)
		// A receipt that says so, of an item of which nobody is told.
		f.produce(t, "orders", items(1)...)
		e := done(f.leaseOne(t, "orders"), "lost")
		e.Receipt.Notify = true
		_, err := f.Settle(t.Context(), settleCall(e))
		wantInvalid(t, err, "receipts[0].result")
		// One that is over is that first.
		plain := e
		plain.Receipt.Notify, plain.Outcome, plain.Result = false, queue.Release, nil
		f.settle(t, plain)
		if _, err := f.Settle(t.Context(), settleCall(e)); !errors.Is(err, queue.ErrStale) {
			t.Errorf("got %v, want ErrStale", err)
		}
	})
}

// A call writes as much as every store takes as one.
func TestDone_ResponsesOfALargeCallAreCut(t *testing.T) {
	t.Parallel()
	whole := strings.Repeat("x", queue.MaxResponse)
	pushed := func(it queue.Item) queue.SettleEntry {
		e := entry(it, queue.Complete)
		e.Item, e.Record = &it, answered(200, whole)
		return e
	}
	for name, test := range map[string]struct {
		kept                 time.Duration
		settle               func(it queue.Item) queue.SettleEntry
		n                    int
		wantTold, wantLogged int
	}{
		"results":               {0, func(it queue.Item) queue.SettleEntry { return done(it, whole) }, 1000, 2097, 0},
		"results that are kept": {time.Hour, func(it queue.Item) queue.SettleEntry { return done(it, whole) }, 1000, 0, queue.MaxResponse},
		"pushes":                {0, pushed, 1000, 1258, 1258},
		"few":                   {0, pushed, 300, queue.MaxResponse, queue.MaxResponse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			telling(t, queue.Options{}, func(t *testing.T, f *fixture) {
				f.keep(t, "orders", test.kept)
				many := make([]queue.ProduceItem, test.n)
				for i := range many {
					many[i] = told("a")
				}
				f.produce(t, "orders", many...)
				leased := f.lease(t, "orders", test.n)
				entries := make([]queue.SettleEntry, test.n)
				for i, it := range leased {
					entries[i] = test.settle(it)
				}
				f.settle(t, entries...)
				for _, d := range f.ends(t) {
					if len(d.ResponseText) != test.wantTold || d.ResponseCut != (test.wantTold < queue.MaxResponse) {
						t.Fatalf("told %d bytes, cut %v, want %d", len(d.ResponseText), d.ResponseCut, test.wantTold)
					}
				}
				logged := 0
				for _, r := range f.records(t, leased[0].ID) {
					logged += len(r.Response)
				}
				if logged != test.wantLogged {
					t.Errorf("logged %d bytes, want %d", logged, test.wantLogged)
				}
			})
		})
	}
}

func TestSettle_UnloggedLeavesNoRecord(t *testing.T) {
	t.Parallel()
	telling(t, queue.Options{}, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "kept", KeepEnded: time.Hour})
		unlogged := func(it queue.Item, outcome queue.Outcome) queue.SettleEntry {
			e := entry(it, outcome)
			e.Item, e.Record, e.Unlogged = &it, answered(200, "fine"), true
			return e
		}
		it := f.leaseTold(t)
		f.settle(t, unlogged(it, queue.Complete))
		if got := f.records(t, it.ID); len(got) != 0 {
			t.Errorf("got %+v, want no record", got)
		}
		f.wantUnknown(t, "completed, unlogged", it.ID, "")
		want := endOf(it, queue.DoneCompleted, "")
		want.Subscription, want.Status, want.Error, want.ResponseText = "billing", 200, "as it came", "fine"
		f.wantEnds(t, "unlogged", want)

		it = f.leaseTold(t)
		e := unlogged(it, queue.Retry)
		e.Last = queue.Last{Status: 503, Error: "busy"}
		f.settle(t, e)
		if got := f.records(t, it.ID); len(got) != 0 {
			t.Errorf("retry: got %+v, want no record", got)
		}
		if got := f.find(t, it.ID).Last; got != e.Last {
			t.Errorf("last: got %+v, want %+v", got, e.Last)
		}
		// A queue that keeps what has ended does so all the same.
		f.produce(t, "kept", items(1)...)
		it = f.leaseOne(t, "kept")
		f.settle(t, unlogged(it, queue.Complete))
		states := f.look(t, it.ID, "kept")
		if len(states) != 1 || states[0].Ending == nil || string(states[0].Ending.Response) != "fine" || states[0].Ending.Type != queue.EndingRecord {
			t.Errorf("got %+v, want its end with the answer", states)
		}
	})
}
