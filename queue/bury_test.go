package queue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// lapse leases everything that is due n times and lets the leases lapse.
func lapse(t *testing.T, f *fixture, name string, n int, push bool) {
	t.Helper()
	for range n {
		reply, err := f.Lease(t.Context(), queue.LeaseParams{Namespace: ns, Queue: name, Limit: 1000, TTL: time.Second, Push: push})
		if err != nil || len(reply.Items) == 0 {
			t.Fatalf("lease that is to lapse: got %d items, %v", len(reply.Items), err)
		}
		<-time.After(time.Second)
	}
}

// ending returns the verdict of the record that tells of an item's end.
func ending(t *testing.T, f *fixture, id queue.ID) string {
	t.Helper()
	page, err := f.model.Records(t.Context(), storage.RecordQuery{Namespace: ns, Item: id, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Records {
		if r.Type == queue.EndingRecord {
			return r.Verdict
		}
	}
	return ""
}

// doom makes the first item of the queue "orders" one that is to be buried.
var doom = map[string]struct {
	settings queue.Settings
	item     queue.ProduceItem
	happens  func(t *testing.T, f *fixture)
}{
	queue.ReasonPoison: {
		queue.Settings{},
		queue.ProduceItem{},
		func(t *testing.T, f *fixture) { lapse(t, f, "orders", queue.DefaultMaxRecoveries, true) },
	},
	queue.ReasonMaxAttempts: {
		queue.Settings{MaxAttempts: 2},
		queue.ProduceItem{},
		func(t *testing.T, f *fixture) { lapse(t, f, "orders", 2, false) },
	},
	queue.ReasonExpired: {
		queue.Settings{},
		queue.ProduceItem{ExpireTTL: time.Minute},
		func(*testing.T, *fixture) { <-time.After(time.Minute) },
	},
}

func testDoomed(t *testing.T, test func(t *testing.T, f *fixture, reason string, id queue.ID)) {
	for reason, d := range doom {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fixture) {
				if n := d.settings.MaxAttempts; n != 0 {
					if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", MaxAttempts: &n}); err != nil {
						t.Fatal(err)
					}
				}
				id := f.produce(t, "orders", d.item)[0].ID
				d.happens(t, f)
				test(t, f, reason, id)
			})
		})
	}
}

func checkBuried(t *testing.T, f *fixture, reason string, id queue.ID) {
	t.Helper()
	it := f.find(t, id)
	if it.Queue != f.settings(t, "orders~dead").Number || it.Dead == nil || it.Dead.Reason != reason {
		t.Errorf("got %+v in %d, want it in orders~dead with the reason %s", it.Dead, it.Queue, reason)
	}
	if got := ending(t, f, id); got != reason {
		t.Errorf("ending record: got %q, want %q", got, reason)
	}
}

func TestD07_LeaseBuriesWhatIsOverItsLimitsBeforeAnybodySeesIt(t *testing.T) {
	t.Parallel()
	testDoomed(t, func(t *testing.T, f *fixture, reason string, id queue.ID) {
		// A call that does not wait gets what stands behind.
		good := f.produce(t, "orders", items(1)...)[0].ID
		if it := f.leaseOne(t, "orders"); it.ID != good {
			t.Errorf("got %v, want the item behind the one that is over its limits", it.ID)
		}
		checkBuried(t, f, reason, id)
	})
}

func TestD07_WaiterThatWasGivenOnlyWhatIsBuriedWaitsOn(t *testing.T) {
	t.Parallel()
	testDoomed(t, func(t *testing.T, f *fixture, reason string, id queue.ID) {
		waiting := f.startLease(t.Context(), waitFor(1, time.Minute))
		if !isPending(waiting) {
			t.Fatal("the waiter was answered")
		}
		checkBuried(t, f, reason, id)
		good := f.produce(t, "orders", items(1)...)[0].ID
		if a := <-waiting; len(a.value.Items) != 1 || a.value.Items[0].ID != good {
			t.Errorf("got %+v, want the item that came later", a)
		}
		if got := f.lease(t, "orders", 1); len(got) != 0 {
			t.Errorf("got %d items, want none", len(got))
		}
	})
}

func TestD07_SweepBuriesWhatNobodyAsksFor(t *testing.T) {
	t.Parallel()
	testDoomed(t, func(t *testing.T, f *fixture, reason string, id queue.ID) {
		if _, err := f.EnsureQueue(t.Context(), ns, "orders~dead"); err != nil {
			t.Fatal(err)
		}
		p := waitFor(1, time.Minute)
		p.Queue = "orders~dead"
		waiting := f.startLease(t.Context(), p)
		n, err := f.Sweep(t.Context())
		if err != nil || n != 1 {
			t.Fatalf("got %d buried, %v, want 1", n, err)
		}
		checkBuried(t, f, reason, id)
		if a := <-waiting; len(a.value.Items) != 1 {
			t.Errorf("who waits on the dead-letter queue got %+v, want the item", a)
		}
		if n, err := f.Sweep(t.Context()); err != nil || n != 0 {
			t.Errorf("second sweep: got %d buried, %v, want none", n, err)
		}
	})
}

func TestSweep_LeavesAloneWhatIsWithinItsLimits(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(2)...)
		it := f.leaseOne(t, "orders")
		<-time.After(2 * queue.DefaultLeaseTTL)
		if n, err := f.Sweep(t.Context()); err != nil || n != 0 {
			t.Errorf("got %d buried, %v, want none", n, err)
		}
		f.settle(t, entry(it, queue.Complete)) // The receipt stays good.
	})
}

// The first page holds nothing that is to be buried.
func TestD09_SweepLooksAtEveryPage(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		const many = 1500
		for range many / 500 {
			f.produce(t, "orders", items(500)...)
		}
		last := f.produce(t, "orders", queue.ProduceItem{MaxAttempts: 1})[0].ID
		for range 2 {
			if _, err := f.Lease(t.Context(), queue.LeaseParams{Namespace: ns, Queue: "orders", Limit: 1000, TTL: time.Second}); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Second)
		if n, err := f.Sweep(t.Context()); err != nil || n != 1 {
			t.Fatalf("got %d buried, %v, want 1", n, err)
		}
		checkBuried(t, f, queue.ReasonMaxAttempts, last)
	})
}

func TestSweep_AsksForTheSubscriptionsLimit(t *testing.T) {
	t.Parallel()
	limit := int32(1)
	var limitErr error
	o := queue.Options{Limit: func(_ context.Context, in queue.Namespace, name string) (int32, error) {
		if in == ns && name == "orders" {
			return limit, limitErr
		}
		return 0, nil
	}}
	bubbleWith(t, o, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "pulled"})
		f.produce(t, "orders", items(1)...)
		f.produce(t, "pulled", items(1)...)
		lapse(t, f, "orders", 1, false)
		lapse(t, f, "pulled", 1, false)
		limitErr = errTest
		if n, err := f.Sweep(t.Context()); !errors.Is(err, errTest) || n != 0 {
			t.Errorf("got %d buried, %v, want none and what the subscription's look-up answered", n, err)
		}
		limitErr = nil
		if n, err := f.Sweep(t.Context()); err != nil || n != 1 {
			t.Errorf("got %d buried, %v, want the one of the queue with a subscription", n, err)
		}
	})
}

// One queue that cannot be swept must not keep the others full.
func TestD09_SweepGoesOnWithOtherQueuesAfterAnError(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(f *fixture, first *error){
		"dead-letter queue": func(f *fixture, _ *error) { f.store.FailBefore(storagetest.PutDocument, 1, errTest) },
		"limit":             func(_ *fixture, first *error) { *first = errTest },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var limitErr error
			o := queue.Options{Limit: func(_ context.Context, _ queue.Namespace, name string) (int32, error) {
				if name == "orders" {
					return 0, limitErr
				}
				return 0, nil
			}}
			bubbleWith(t, o, func(t *testing.T, f *fixture) {
				f.create(t, queue.Settings{Name: "other"})
				for _, name := range []string{"orders", "other"} {
					f.produce(t, name, queue.ProduceItem{ExpireTTL: time.Second}, queue.ProduceItem{ExpireTTL: time.Second})
				}
				<-time.After(time.Second)
				fail(f, &limitErr)
				if n, err := f.Sweep(t.Context()); !errors.Is(err, errTest) || n != 2 || strings.Count(err.Error(), "orders") != 1 {
					t.Errorf("got %d buried, %v, want the two of the other queue, and why not those of orders", n, err)
				}
				limitErr = nil
				if n, err := f.Sweep(t.Context()); err != nil || n != 2 {
					t.Errorf("second sweep: got %d buried, %v, want the two of orders", n, err)
				}
			})
		})
	}
}

func TestLease_LimitOfTheCallWinsOverTheQueues(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(1)...)
		lapse(t, f, "orders", 2, false)
		p := params(1)
		p.MaxAttempts = 3
		p.Push = true
		reply, err := f.Lease(t.Context(), p)
		if err != nil || len(reply.Items) != 1 || reply.Items[0].Attempts != 2 {
			t.Fatalf("got %+v, %v, want the item with two attempts", reply.Items, err)
		}
		f.settle(t, entry(reply.Items[0], queue.Release))
		p.MaxAttempts = 2
		if reply, err = f.Lease(t.Context(), p); err != nil || len(reply.Items) != 0 {
			t.Errorf("got %d items, %v, want none: the limit is reached", len(reply.Items), err)
		}
	})
}

func TestLease_NothingIsBuriedInADeadLetterQueue(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(1)...)
		f.settle(t, entry(f.leaseOne(t, "orders"), queue.Bury))
		lapse(t, f, "orders~dead", 5, true)
		lapse(t, f, "orders~dead", 5, false)
		if n, err := f.Sweep(t.Context()); err != nil || n != 0 {
			t.Errorf("got %d buried, %v, want none", n, err)
		}
		f.leaseOne(t, "orders~dead")
	})
}

// What cannot be buried is not shown either, and comes again once its lease lapses.
func TestLease_StoreThatDoesNotBuryHidesNothingForEver(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		id := f.produce(t, "orders", queue.ProduceItem{ExpireTTL: time.Second})[0].ID
		<-time.After(time.Second)
		f.store.FailBefore(storagetest.Settle, 1, queue.ErrUnavailable)
		if got := f.lease(t, "orders", 1); len(got) != 0 {
			t.Fatalf("got %d items, want none", len(got))
		}
		<-time.After(queue.DefaultLeaseTTL)
		if n, err := f.Sweep(t.Context()); err != nil || n != 1 {
			t.Fatalf("got %d buried, %v, want 1", n, err)
		}
		checkBuried(t, f, queue.ReasonExpired, id)
	})
}
