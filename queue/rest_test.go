package queue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// busy is how many items come before the queue rests fully: the first taker has a look
// of its own.
const busy = 11

// lookSlowly makes a consumer wait behind others, whom a slow look at the store brings
// so many items, and the consumer none. The longest rest begins now, if they were many.
func (f *fixture) lookSlowly(t *testing.T, brought int, p queue.LeaseParams) <-chan answer[queue.LeaseReply] {
	t.Helper()
	open := f.store.Block(storagetest.Lease)
	var others []<-chan answer[queue.LeaseReply]
	for range brought {
		others = append(others, f.startLease(t.Context(), waitFor(1, time.Minute)))
	}
	waiting := f.startLease(t.Context(), p)
	if brought > 0 {
		f.produce(t, "orders", items(brought)...)
	}
	<-time.After(time.Second) // The bubble's time.
	open()
	for _, other := range others {
		<-other
	}
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
		waiting := f.lookSlowly(t, busy, waitFor(10, time.Minute))
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
		waiting := f.lookSlowly(t, busy, waitFor(10, time.Minute))
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
			f.lookSlowly(t, busy, waitFor(10, time.Minute))
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
		waiting := f.lookSlowly(t, busy, waitFor(1, time.Minute))
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

// Items that come one by one are not held up for each other.
func TestLease_DoesNotRestWhereLittleComes(t *testing.T) {
	t.Parallel()
	for _, brought := range []int{0, 1} {
		bubble(t, func(t *testing.T, f *fixture) {
			waiting := f.lookSlowly(t, brought, waitFor(10, time.Minute))
			began := time.Now()
			f.produce(t, "orders", items(1)...)
			if a := <-waiting; len(a.value.Items) != 1 || time.Since(began) != 0 {
				t.Errorf("after a look that brought %d: got %+v after %s, want the item at once", brought, a, time.Since(began))
			}
		})
	}
}
