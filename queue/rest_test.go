package queue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// lookSlowly makes a consumer wait whose first look at the store takes so long that
// the longest rest follows, and finds nothing. The rest begins now.
func (f *fixture) lookSlowly(t *testing.T, p queue.LeaseParams) <-chan answer[queue.LeaseReply] {
	t.Helper()
	open := f.store.Block(storagetest.Lease)
	waiting := f.startLease(t.Context(), p)
	<-time.After(time.Second) // The bubble's time.
	open()
	synctest.Wait()
	if !isPending(waiting) {
		t.Fatal("lease of an empty queue did not wait")
	}
	return waiting
}

// longestRest is what a slow look is followed by.
const longestRest = 20 * time.Millisecond

func TestLease_GathersWhatComesWhileADryQueueRests(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		waiting := f.lookSlowly(t, waitFor(10, time.Minute))
		began, before := time.Now(), f.store.Calls(storagetest.Lease)
		for range 10 {
			f.produce(t, "orders", items(1)...)
		}
		a := <-waiting
		if a.err != nil || len(a.value.Items) != 10 {
			t.Errorf("got %d items, %v, want all ten", len(a.value.Items), a.err)
		}
		if took, calls := time.Since(began), f.store.Calls(storagetest.Lease)-before; took != longestRest || calls != 1 {
			t.Errorf("took %s and %d calls of the store, want one after %s", took, calls, longestRest)
		}
	})
}

func TestLease_IsServedAtOnceAfterAQuietTime(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		waiting := f.lookSlowly(t, waitFor(10, time.Minute))
		<-time.After(longestRest)
		began := time.Now()
		f.produce(t, "orders", items(1)...)
		if a := <-waiting; len(a.value.Items) != 1 || time.Since(began) != 0 {
			t.Errorf("got %+v after %s, want the item at once", a, time.Since(began))
		}
	})
}

func TestLease_IsNotHeldUpByTheRestWhereItsTimeIsUp(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, longestRest / 2} {
		bubble(t, func(t *testing.T, f *fixture) {
			f.lookSlowly(t, waitFor(10, time.Minute))
			began := time.Now()
			f.produce(t, "orders", items(11)...)
			reply, err := f.Lease(t.Context(), waitFor(1, wait))
			if err != nil || len(reply.Items) != 1 || time.Since(began) != wait {
				t.Errorf("wait %s: got %+v, %v after %s, want an item then", wait, reply, err, time.Since(began))
			}
		})
	}
}

func TestLease_DoesNotRestWhileThereIsMore(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		waiting := f.lookSlowly(t, waitFor(1, time.Minute))
		f.produce(t, "orders", items(3)...)
		<-waiting
		began := time.Now()
		for range 2 {
			if reply, err := f.Lease(t.Context(), waitFor(1, time.Minute)); err != nil || len(reply.Items) != 1 {
				t.Fatalf("got %+v, %v, want an item", reply, err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %s, want no time: the queue had enough for everybody", took)
		}
	})
}
