package dispatcher

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

func TestC05_SlotsKeepAQuarterForLanesThatHaveFew(t *testing.T) {
	t.Parallel()
	s := newSlots(100, 1<<20)
	var hog, other holder
	for s.take(&hog, 1) {
	}
	if hog.held != 75 {
		t.Errorf("one lane took %d of 100, want 75", hog.held)
	}
	for s.take(&other, 1) {
	}
	if other.held != 10 {
		t.Errorf("the next took %d, want a tenth", other.held)
	}
}

func TestC05_SlotsServeWhoWaitsInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(10, DefaultMaxBytes)
		lanes := make([]holder, 12)
		for i := range 10 {
			s.take(&lanes[i], 0)
		}
		served := make(chan int, 3) // one for each that waits
		for _, i := range []int{0, 10, 11} {
			go func() {
				if s.wait(t.Context(), &lanes[i], 5).n > 0 {
					served <- i
				}
			}()
			synctest.Wait()
		}
		// Lane 0 came first, but has its share; it does not hold the others up.
		s.put(&lanes[1], 1, 0)
		if i := <-served; i != 10 {
			t.Errorf("served %d first, want 10", i)
		}
		s.put(&lanes[2], 1, 0)
		if i := <-served; i != 11 {
			t.Errorf("served %d second, want 11", i)
		}
		s.put(&lanes[0], 1, 0)
		if i := <-served; i != 0 {
			t.Errorf("served %d third, want 0", i)
		}
	})
}

func TestSlots_WaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := newSlots(1, 1<<20)
	var a, b holder
	s.take(&a, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if g := s.wait(ctx, &b, 1); g.n != 0 || len(s.waiting) != 0 {
		t.Errorf("granted %v, %d still wait", g, len(s.waiting))
	}
	s.put(&a, 1, 0)
	if s.used != 0 || b.held != 0 {
		t.Errorf("%d used, %d held", s.used, b.held)
	}
}

func TestLane_GivesTheSlotBackIfTheGateClosed(t *testing.T) {
	t.Parallel()
	settled := make(settles, 1)
	d := New(Options{Broker: settled})
	l := newLane(d, &subscriptions.Subscription{Paused: true, MaxInFlight: 1}, nil, nil)
	it := &queue.Item{Content: queue.Content{Payload: make([]byte, 10)}}
	d.slots.take(&l.holder, it.Size())
	l.admit(t.Context(), []leased{{item: it}})
	if d.slots.used != 0 || d.slots.bytes != 0 || l.holder.held != 0 || l.running != 0 {
		t.Errorf("%d slots and %d bytes are used, %d in flight", d.slots.used, d.slots.bytes, l.running)
	}
	if entry := (<-settled)[0]; entry.Outcome != queue.Release || entry.Receipt != it.Receipt() {
		t.Errorf("settled by %+v, want the item released", entry)
	}
	d.pushes.Wait()
}

// settles is a broker that only settles.
type settles chan []queue.SettleEntry

func (s settles) Settle(_ context.Context, call queue.SettleCall) ([]queue.Settled, error) {
	s <- call.Entries
	return make([]queue.Settled, len(call.Entries)), nil
}

func (s settles) Lease(context.Context, queue.LeaseParams) (queue.LeaseReply, error) {
	return queue.LeaseReply{}, queue.ErrShuttingDown
}

func (s settles) Extend(context.Context, queue.Namespace, string, []queue.ExtendEntry) ([]queue.Extended, error) {
	return nil, queue.ErrShuttingDown
}

func (s settles) Stats(context.Context, queue.Namespace, string) (queue.QueueStats, error) {
	return queue.QueueStats{}, queue.ErrShuttingDown
}

func TestC16_SlotsBoundBytes(t *testing.T) {
	t.Parallel()
	s := newSlots(100, 1000)
	var h holder
	for s.take(&h, 300) {
	}
	if h.held != 4 {
		t.Errorf("%d items of 300 bytes under a bound of 1000, want 4: the last may pass it", h.held)
	}
	if g := s.room(&h, 1); g.n != 0 {
		t.Errorf("room %v when the bytes are used up", g)
	}
	s.put(&h, 1, 300)
	if g := s.room(&h, 1); g != (grant{n: 1, bytes: 100}) {
		t.Errorf("room %v, want one item and what is left", g)
	}
}
