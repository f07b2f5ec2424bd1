package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func waitFor(limit int, wait time.Duration) queue.LeaseParams {
	p := params(limit)
	p.Wait = wait
	return p
}

func TestLease_WaitsForAnItem(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		p := waitFor(10, time.Minute)
		p.Client = "worker-1"
		waiting := f.startLease(t.Context(), p)
		if !isPending(waiting) {
			t.Fatal("lease of an empty queue did not wait")
		}
		produced := f.produce(t, "orders", queue.ProduceItem{Content: queue.Content{Kind: "k", Payload: []byte("x")}})
		a := <-waiting
		if a.err != nil || len(a.value.Items) != 1 {
			t.Fatalf("got %+v, want one item", a)
		}
		it := a.value.Items[0]
		if it.ID != produced[0].ID || it.Kind != "k" || string(it.Payload) != "x" || it.Owner != "worker-1" || !it.LapseCounts {
			t.Errorf("got %+v, want the item that was produced, owned by worker-1, whose lapse counts", it)
		}
		if want := a.value.Now.Add(queue.DefaultLeaseTTL); !it.AvailableAt.Equal(want) {
			t.Errorf("deadline: got %v, want %v, the queue's lease after the store's now", it.AvailableAt, want)
		}
	})
}

func TestLease_AnswersWithNothingAtTheEndOfItsWait(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		for _, wait := range []time.Duration{0, time.Minute} {
			began := time.Now()
			reply, err := f.Lease(t.Context(), waitFor(1, wait))
			if err != nil || len(reply.Items) != 0 || reply.Now.IsZero() {
				t.Errorf("wait %s: got %+v, %v, want no items and the store's now", wait, reply, err)
			}
			if took := time.Since(began); took != wait {
				t.Errorf("wait %s: took %s", wait, took)
			}
		}
	})
}

// What is in the store is found by whoever asks afterwards, though nobody woke the
// queue: another node may have put it there.
func TestINV11_EmptyAnswerHadALookAfterTheCall(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		number := f.settings(t, "orders").Number
		open := f.store.Block(storagetest.Lease)
		before := f.startLease(t.Context(), params(1))
		// These arrive while the store is looking: that look is not theirs.
		atOnce := f.startLease(t.Context(), params(1))
		soon := f.startLease(t.Context(), waitFor(1, time.Second))
		<-time.After(2 * time.Second) // The bubble's time.
		if !isPending(atOnce) || !isPending(soon) {
			t.Fatal("a call was answered before the store was asked for it")
		}
		produced := []queue.NewItem{{ID: queue.NewID(), Queue: number}, {ID: queue.NewID(), Queue: number}, {ID: queue.NewID(), Queue: number}}
		if _, err := f.model.Produce(t.Context(), []queue.ProduceGroup{{Items: produced}}); err != nil {
			t.Fatal(err)
		}
		open()
		for i, c := range []<-chan answer[queue.LeaseReply]{before, atOnce, soon} {
			if a := <-c; a.err != nil || len(a.value.Items) != 1 {
				t.Errorf("lease %d: got %+v, want an item", i, a)
			}
		}
	})
}

func TestLease_DealsRoundRobin(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		var takers []<-chan answer[queue.LeaseReply]
		for _, limit := range []int{20, 6, 1} {
			takers = append(takers, f.startLease(t.Context(), waitFor(limit, time.Minute)))
		}
		f.produce(t, "orders", items(23)...)
		for i, want := range []int{16, 6, 1} {
			if a := <-takers[i]; len(a.value.Items) != want {
				t.Errorf("taker %d: got %d items, %v, want %d", i, len(a.value.Items), a.err, want)
			}
		}
	})
}

func TestLease_ServesMoreWaitersThanOneLookTakes(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		const waiters = 200
		var waiting []<-chan answer[queue.LeaseReply]
		for range waiters {
			waiting = append(waiting, f.startLease(t.Context(), waitFor(1, time.Minute)))
		}
		before := f.store.Calls(storagetest.Lease)
		f.produce(t, "orders", items(waiters/2)...)
		// Those who came first are served; the others wait to the end.
		for i, c := range waiting {
			a := <-c
			if want := map[bool]int{true: 1}[i < waiters/2]; a.err != nil || len(a.value.Items) != want {
				t.Fatalf("waiter %d: got %d items, %v, want %d", i, len(a.value.Items), a.err, want)
			}
		}
		if got := f.store.Calls(storagetest.Lease) - before; got > 3 {
			t.Errorf("got %d calls of the store, want 3 at most", got)
		}
	})
}

func TestLease_OneCallOfTheStoreLooksAtAllQueues(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		names := []string{"a", "b", "c", "d"}
		for _, name := range names {
			f.create(t, queue.Settings{Name: name})
			f.produce(t, name, items(1)...)
		}
		open := f.store.Block(storagetest.Lease)
		first := f.startLease(t.Context(), params(1))
		var others []<-chan answer[queue.LeaseReply]
		for _, name := range names {
			p := params(1)
			p.Queue = name
			others = append(others, f.startLease(t.Context(), p))
		}
		open()
		<-first
		for i, c := range others {
			if a := <-c; a.err != nil || len(a.value.Items) != 1 {
				t.Errorf("queue %s: got %+v, want its item", names[i], a)
			}
		}
		if got := f.store.Calls(storagetest.Lease); got != 2 {
			t.Errorf("got %d calls of the store, want 2", got)
		}
	})
}

func TestLease_BoundsWhatItHolds(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		large := queue.ProduceItem{Content: queue.Content{Payload: make([]byte, 1000)}}
		f.produce(t, "orders", large, large, large)
		p := params(10)
		p.MaxBytes = 2500
		reply, err := f.Lease(t.Context(), p)
		if err != nil || len(reply.Items) != 2 {
			t.Errorf("got %d items, %v, want the two that fit", len(reply.Items), err)
		}
	})
}

func TestLease_OneWaitOfAClientAtATime(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "other"})
		p := waitFor(1, time.Minute)
		p.Client = "worker-1"
		first := f.startLease(t.Context(), p)
		if _, err := f.Lease(t.Context(), p); !errors.Is(err, queue.ErrClientWaiting) {
			t.Errorf("second wait: got %v, want ErrClientWaiting", err)
		}
		elsewhere := p
		elsewhere.Queue = "other"
		if _, err := f.Lease(t.Context(), elsewhere); err != nil {
			t.Errorf("wait on another queue: %v", err)
		}
		if a := <-first; a.err != nil {
			t.Errorf("first wait: %v", a.err)
		}
		// Somebody else keeps the line.
		f.startLease(t.Context(), waitFor(1, 10*time.Minute))
		for range 2 {
			if _, err := f.Lease(t.Context(), p); err != nil {
				t.Errorf("wait after the one before has ended: %v", err)
			}
		}
		f.Drain()
	})
}

func TestLease_ShedsOverload(t *testing.T) {
	t.Parallel()
	bubbleWith(t, queue.Options{MaxLeasesWaiting: 2}, func(t *testing.T, f *fixture) {
		for range 2 {
			f.startLease(t.Context(), waitFor(1, time.Second))
		}
		_, err := f.Lease(t.Context(), waitFor(1, time.Second))
		if overloaded, ok := errors.AsType[*queue.OverloadedError](err); !ok || overloaded.RetryAfter <= 0 {
			t.Errorf("got %v, want an OverloadedError that says when to come back", err)
		}
		<-time.After(time.Second)
		synctest.Wait()
		f.lease(t, "orders", 1)
	})
}

func TestLease_CallThatLeavesTakesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		ctx, cancel := context.WithCancel(t.Context())
		waiting := f.startLease(ctx, waitFor(1, time.Minute))
		cancel()
		if a := <-waiting; !errors.Is(a.err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", a.err)
		}
		f.produce(t, "orders", items(1)...)
		f.leaseOne(t, "orders")
	})
}

func TestLease_ItemsOfACallThatLeftAreGivenBackAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		id := f.produce(t, "orders", items(1)...)[0].ID
		open := f.store.Block(storagetest.Lease)
		ctx, cancel := context.WithCancel(t.Context())
		leaving := f.startLease(ctx, waitFor(1, time.Minute))
		cancel()
		if a := <-leaving; !errors.Is(a.err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", a.err)
		}
		other := f.startLease(t.Context(), waitFor(1, time.Minute))
		began := time.Now()
		open()
		a := <-other
		if a.err != nil || len(a.value.Items) != 1 || a.value.Items[0].ID != id {
			t.Fatalf("the next in line: got %+v, want the item", a)
		}
		if it := a.value.Items[0]; it.Attempts != 0 || it.Recoveries != 0 || time.Since(began) != 0 {
			t.Errorf("got %d attempts, %d recoveries after %s, want none and at once", it.Attempts, it.Recoveries, time.Since(began))
		}
	})
}

// The next in line was looked for at the same time and found nothing.
func TestLease_WhatIsGivenBackWakesWhoWaits(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "other"})
		f.produce(t, "orders", items(1)...)
		openFirst := f.store.Block(storagetest.Lease)
		busy := params(1)
		busy.Queue = "other"
		f.startLease(t.Context(), busy)
		ctx, cancel := context.WithCancel(t.Context())
		f.startLease(ctx, waitFor(1, time.Minute))
		next := f.startLease(t.Context(), waitFor(1, time.Minute))
		openSecond := f.store.Block(storagetest.Lease)
		openFirst()
		synctest.Wait() // Both are in the second look.
		cancel()
		synctest.Wait()
		openSecond()
		began := time.Now()
		if a := <-next; a.err != nil || len(a.value.Items) != 1 || time.Since(began) != 0 {
			t.Errorf("got %+v after %s, want the item at once", a, time.Since(began))
		}
	})
}

func TestLease_EndedContextIsNotServed(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(1)...)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.Lease(ctx, params(1)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		synctest.Wait()
		f.leaseOne(t, "orders")
	})
}

func TestLease_TellsDeadlinesAndDueTimes(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		number := f.settings(t, "orders").Number
		f.produce(t, "orders", queue.ProduceItem{}, queue.ProduceItem{Delay: time.Hour})
		it := f.leaseOne(t, "orders")
		retry := entry(it, queue.Retry)
		retry.Delay = 2 * time.Hour
		f.settle(t, retry)
		now := time.Now()
		want := []time.Time{now.Add(time.Hour), now.Add(queue.DefaultLeaseTTL), now.Add(2 * time.Hour)}
		got := f.due[number]
		if len(got) != len(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		for i := range want {
			if !got[i].Equal(want[i]) {
				t.Errorf("due time %d: got %v, want %v", i, got[i], want[i])
			}
		}
	})
}

func TestLease_WakeMakesWaitersLook(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", queue.ProduceItem{Delay: time.Minute})
		waiting := f.startLease(t.Context(), waitFor(1, 10*time.Minute))
		<-time.After(time.Minute)
		if !isPending(waiting) {
			t.Fatal("nobody woke the queue, and it was looked at")
		}
		f.Wake(f.settings(t, "orders").Number)
		if a := <-waiting; a.err != nil || len(a.value.Items) != 1 {
			t.Errorf("got %+v, want the item that fell due", a)
		}
	})
}

func TestLease_ChecksItsParameters(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		for _, test := range []struct {
			change func(p *queue.LeaseParams)
			field  string
		}{
			{func(p *queue.LeaseParams) { p.Limit = 0 }, "batch_size"},
			{func(p *queue.LeaseParams) { p.Limit = 1001 }, "batch_size"},
			{func(p *queue.LeaseParams) { p.MaxBytes = -1 }, "max_bytes"},
			{func(p *queue.LeaseParams) { p.Wait = -1 }, "request_timeout"},
			{func(p *queue.LeaseParams) { p.Wait = queue.MaxWait + 1 }, "request_timeout"},
			{func(p *queue.LeaseParams) { p.TTL = -1 }, "lease_timeout"},
			{func(p *queue.LeaseParams) { p.TTL = queue.MaxLeaseTTL + 1 }, "lease_timeout"},
			{func(p *queue.LeaseParams) { p.Client = "a\nb" }, "client_id"},
			{func(p *queue.LeaseParams) { p.MaxAttempts = -2 }, "max_attempts"},
		} {
			p := params(1)
			test.change(&p)
			_, err := f.Lease(t.Context(), p)
			wantInvalid(t, err, test.field)
		}
		p := params(1)
		p.Queue = "nowhere"
		if _, err := f.Lease(t.Context(), p); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("unknown queue: got %v, want ErrNotFound", err)
		}
	})
}
