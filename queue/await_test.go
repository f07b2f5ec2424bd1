package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func (f *fixture) startAwait(ctx context.Context, b *queue.Broker, id queue.ID, name string, wait time.Duration) <-chan answer[[]queue.ItemState] {
	return start(func() ([]queue.ItemState, error) { return b.Await(ctx, ns, id, name, wait) })
}

func TestAwait_AnswersWhenTheItemEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end func(t *testing.T, f *fixture, it queue.Item)
		// want is the step of the ending, or 0 for one that is buried.
		want queue.Step
	}{
		"completed": {func(t *testing.T, f *fixture, it queue.Item) { f.settle(t, done(it, "fine")) }, queue.StepComplete},
		"buried":    {func(t *testing.T, f *fixture, it queue.Item) { f.settle(t, entry(it, queue.Bury)) }, 0},
		"at its limit": {func(t *testing.T, f *fixture, it queue.Item) {
			e := entry(it, queue.Retry)
			e.MaxAttempts = 1
			f.settle(t, e)
		}, 0},
		"expired": {func(t *testing.T, f *fixture, it queue.Item) {
			f.settle(t, entry(it, queue.Release))
			<-time.After(time.Minute)
			f.lease(t, "orders", 1)
		}, 0},
		"cancelled": {func(t *testing.T, f *fixture, it queue.Item) {
			if _, err := f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, IDs: []queue.ID{it.ID}}); err != nil {
				t.Fatal(err)
			}
		}, queue.StepCancel},
		"cleared": {func(t *testing.T, f *fixture, _ queue.Item) {
			if _, err := f.Clear(t.Context(), queue.ClearCall{Namespace: ns, Queue: "orders", Leased: true}); err != nil {
				t.Fatal(err)
			}
		}, queue.StepCancel},
	} {
		for where, queueName := range map[string]string{"anywhere": "", "in its queue": "orders"} {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				bubble(t, func(t *testing.T, f *fixture) {
					f.keep(t, "orders", time.Hour)
					f.produce(t, "orders", queue.ProduceItem{ExpireTTL: time.Minute})
					it := f.leaseOne(t, "orders")
					waiting := f.startAwait(t.Context(), f.Broker, it.ID, queueName, queue.MaxWait)
					<-time.After(time.Second)
					if !isPending(waiting) {
						t.Fatal("an item that lives did not make it wait")
					}
					test.end(t, f, it)
					ended := time.Now()
					a := <-waiting
					if !time.Now().Equal(ended) {
						t.Errorf("took %v, want it told at once", time.Since(ended))
					}
					if a.err != nil || len(a.value) != 1 {
						t.Fatalf("got %+v, want one state", a)
					}
					st := a.value[0]
					if buried := st.Item.Dead != nil && st.Ending == nil; test.want == 0 && !buried {
						t.Errorf("got %+v, want it buried", st)
					}
					if test.want != 0 && (st.Ending == nil || st.Ending.Next != test.want) {
						t.Errorf("got %+v, want %s", st.Ending, test.want)
					}
				})
			})
		}
	}
}

func TestAwait_FindsWhatAnotherNodeEnded(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.keep(t, "orders", time.Hour)
		f.produce(t, "orders", items(1)...)
		it := f.leaseOne(t, "orders")
		other := newBroker(f.store, queue.Options{})
		waiting := f.startAwait(t.Context(), other, it.ID, "", queue.MaxWait)
		<-time.After(time.Minute)
		looks := f.store.Calls(storagetest.Find)
		<-time.After(time.Minute)
		if n := f.store.Calls(storagetest.Find) - looks; n != 30 {
			t.Errorf("looked %d times in a minute, want each 2 s", n)
		}
		f.settle(t, entry(it, queue.Complete))
		ended := time.Now()
		if a := <-waiting; a.err != nil || time.Since(ended) > 2*time.Second {
			t.Errorf("got %+v after %v, want the ending in 2 s", a, time.Since(ended))
		}
	})
}

func TestAwait_AnswersAtOnceWhatHasEnded(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.keep(t, "orders", time.Hour)
		f.produce(t, "orders", items(2)...)
		leased := f.lease(t, "orders", 2)
		f.settle(t, entry(leased[0], queue.Complete), entry(leased[1], queue.Bury))
		began := time.Now()
		for _, it := range leased {
			if states, err := f.Await(t.Context(), ns, it.ID, "", time.Minute); err != nil || len(states) != 1 {
				t.Errorf("got %+v, %v, want its state", states, err)
			}
		}
		_, err := f.Await(t.Context(), ns, queue.NewID(), "", time.Minute)
		if !errors.Is(err, queue.ErrNotFound) || !time.Now().Equal(began) {
			t.Errorf("unknown item: got %v after %v, want ErrNotFound at once", err, time.Since(began))
		}
	})
}

func TestAwait_AnswersWhereItIsWhenTheWaitIsOver(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		id := f.produce(t, "orders", items(1)...)[0].ID
		for _, wait := range []time.Duration{0, 10 * time.Second} {
			began := time.Now()
			states, err := f.Await(t.Context(), ns, id, "orders", wait)
			if err != nil || len(states) != 1 || states[0].Ending != nil || time.Since(began) != wait {
				t.Errorf("wait %v: got %+v, %v after %v, want the living item", wait, states, err, time.Since(began))
			}
		}
		for _, wait := range []time.Duration{-1, queue.MaxWait + 1} {
			_, err := f.Await(t.Context(), ns, id, "", wait)
			wantInvalid(t, err, "request_timeout")
		}
	})
}

func TestAwait_SaysThatNothingWasKept(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(1)...)
		it := f.leaseOne(t, "orders")
		waiting := f.startAwait(t.Context(), f.Broker, it.ID, "", time.Minute)
		f.settle(t, entry(it, queue.Complete))
		a := <-waiting
		if _, unknown := f.Look(t.Context(), ns, it.ID, ""); !errors.Is(a.err, queue.ErrNotFound) || a.err.Error() == unknown.Error() {
			t.Errorf("got %v, want ErrNotFound that says more than %q", a.err, unknown)
		}
	})
}

func TestAwait_EndsWithItsCallerAndWithTheBroker(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		id := f.produce(t, "orders", items(1)...)[0].ID
		ctx, cancel := context.WithCancel(t.Context())
		leaving := f.startAwait(ctx, f.Broker, id, "", time.Minute)
		staying := f.startAwait(t.Context(), f.Broker, id, "", time.Minute)
		cancel()
		if a := <-leaving; !errors.Is(a.err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", a.err)
		}
		if !isPending(staying) {
			t.Fatal("one that left took the other along")
		}
		f.Drain()
		if a := <-staying; !errors.Is(a.err, queue.ErrShuttingDown) {
			t.Errorf("got %v, want ErrShuttingDown", a.err)
		}
		if _, err := f.Await(t.Context(), ns, id, "", time.Minute); !errors.Is(err, queue.ErrShuttingDown) {
			t.Errorf("afterwards: got %v, want ErrShuttingDown", err)
		}
	})
}

func TestAwait_BoundsThoseThatWait(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		id := f.produce(t, "orders", items(1)...)[0].ID
		var waiting []<-chan answer[[]queue.ItemState]
		for range 1000 {
			waiting = append(waiting, f.startAwait(t.Context(), f.Broker, id, "", time.Second))
		}
		_, err := f.Await(t.Context(), ns, id, "", time.Second)
		if _, ok := errors.AsType[*queue.OverloadedError](err); !ok {
			t.Errorf("got %v, want an OverloadedError", err)
		}
		for _, w := range waiting {
			if a := <-w; a.err != nil {
				t.Fatal(a.err)
			}
		}
		if _, err := f.Await(t.Context(), ns, id, "", 0); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}
