package dispatcher_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// node is one of several that push from the store of a rig.
type node struct {
	*dispatcher.Dispatcher
	sender *sender
	docs   *peerDocs
	end    context.CancelFunc
	ended  chan struct{}
}

// peerDocs can be cut off from the store, or answer once that nobody knows whether it was
// written, when it was.
type peerDocs struct {
	*storage.Collection[dispatcher.Peer]
	cut, unknown atomic.Bool
}

var errCut = errors.New("cut off")

func (d *peerDocs) Put(ctx context.Context, ns queue.Namespace, name string, value dispatcher.Peer, revision uint64,
	wakeAt time.Time, items ...queue.NewItem,
) (uint64, error) {
	if d.cut.Load() {
		return 0, errCut
	}
	revision, err := d.Collection.Put(ctx, ns, name, value, revision, wakeAt, items...)
	if err == nil && d.unknown.CompareAndSwap(true, false) {
		return 0, queue.ErrUnknownOutcome
	}
	return revision, err
}

func (r *rig) node() *node {
	n := &node{
		sender: &sender{}, ended: make(chan struct{}),
		docs: &peerDocs{Collection: storage.NewCollection[dispatcher.Peer](r.broker.store, "peer")},
	}
	n.Dispatcher = dispatcher.New(dispatcher.Options{
		Broker: r.broker, Subscriptions: r.subs, Sender: n.sender, Peers: n.docs,
		Rand: func() float64 { return 0.5 }, Grace: -1,
	})
	ctx, cancel := context.WithCancel(r.t.Context())
	n.end = cancel
	go func() {
		defer close(n.ended)
		if err := n.Run(ctx); err != nil {
			r.t.Errorf("run: %v", err)
		}
	}()
	synctest.Wait()
	return n
}

func (n *node) stop() {
	n.end()
	<-n.ended
}

func (n *node) window(t *testing.T) int {
	t.Helper()
	state, ok := n.LaneState(ns, "sub")
	if !ok {
		t.Fatal("no lane")
	}
	return state.InFlight
}

// among has f run with a rig whose own dispatcher has ended, for nodes to come.
func among(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.end()
		<-r.ended
		f(t, r)
	})
}

func (r *rig) hanging(nodes ...*node) {
	for _, n := range nodes {
		n.sender.script(slow(time.Hour, status(200)))
	}
}

func TestPeers_ShareWhatASubscriptionMayHave(t *testing.T) {
	t.Parallel()
	among(t, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{MaxInFlight: new(4), Timeout: new(30 * time.Minute)})
		a := r.node()
		defer a.stop()
		b, c := r.node(), r.node()
		defer c.stop()
		pass(10 * time.Second)
		r.hanging(a, b, c)
		r.produce(100)
		pass(time.Second)
		parts := map[int]int{}
		for _, n := range []*node{a, b, c} {
			parts[n.window(t)]++
		}
		if parts[1] != 2 || parts[2] != 1 {
			t.Fatalf("requests by how many nodes have them: %v, want 1, 1 and 2", parts)
		}
		b.stop()
		pass(5 * time.Second)
		if got := a.window(t) + c.window(t); got != 4 {
			t.Errorf("%d requests of the two that are left, want all 4", got)
		}
	})
}

func TestPeers_NodeThatComesTakesNothingBeforeTheOthersSawIt(t *testing.T) {
	t.Parallel()
	among(t, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{MaxInFlight: new(4), Timeout: new(30 * time.Minute)})
		a := r.node()
		defer a.stop()
		r.hanging(a)
		r.produce(100)
		if got := a.window(t); got != 4 {
			t.Fatalf("%d requests of the only node, want 4 at once", got)
		}
		b := r.node()
		defer b.stop()
		r.hanging(b)
		pass(1500 * time.Millisecond)
		if got := b.window(t); got != 0 {
			t.Errorf("%d requests of the new one, want none yet", got)
		}
		pass(3 * time.Second)
		if got := b.window(t); got != 2 {
			t.Errorf("%d requests of the new one, want its half", got)
		}
	})
}

func TestPeers_NodeThatIsSilentHasNothing(t *testing.T) {
	t.Parallel()
	among(t, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{MaxInFlight: new(4), Timeout: new(time.Second)})
		a, b := r.node(), r.node()
		defer a.stop()
		defer b.stop()
		pass(10 * time.Second)
		b.docs.cut.Store(true)
		pass(20 * time.Second)
		b.sender.forget()
		r.produce(100)
		pass(time.Second)
		if n := len(b.sender.seen()); n != 0 {
			t.Errorf("%d requests of a node that others believe to be gone", n)
		}
		if n := len(a.sender.seen()); n != 100 {
			t.Errorf("%d requests of the other, want all", n)
		}
		b.docs.cut.Store(false)
		pass(20 * time.Second)
		r.hanging(a, b)
		r.produce(100)
		if x, y := a.window(t), b.window(t); x != 2 || y != 2 {
			t.Errorf("%d and %d requests when both are there again, want 2 and 2", x, y)
		}
	})
}

func TestPeers_ShareTheRate(t *testing.T) {
	t.Parallel()
	among(t, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{Rate: &subscriptions.Rate{Count: 10, Period: time.Second}})
		nodes := []*node{r.node(), r.node(), r.node()}
		pass(10 * time.Second)
		r.produce(500)
		pass(20 * time.Second)
		total := 0
		for _, n := range nodes {
			total += len(n.sender.seen())
			n.stop()
		}
		if total < 190 || total > 205 {
			t.Errorf("%d requests in 20 s, want about 200", total)
		}
	})
}

func TestPeers_RateIsSharedByThoseThatMayPush(t *testing.T) {
	t.Parallel()
	among(t, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{MaxInFlight: new(1), Rate: &subscriptions.Rate{Count: 10, Period: time.Second}})
		nodes := []*node{r.node(), r.node(), r.node()}
		pass(10 * time.Second)
		r.produce(500)
		pass(20 * time.Second)
		total := 0
		for _, n := range nodes {
			total += len(n.sender.seen())
			n.stop()
		}
		if total < 190 || total > 205 {
			t.Errorf("%d requests in 20 s, want about 200 from the one node that may push", total)
		}
	})
}

func TestPeers_BeatOfUnknownOutcomeStopsNothing(t *testing.T) {
	t.Parallel()
	among(t, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{})
		a := r.node()
		defer a.stop()
		pass(10 * time.Second)
		a.docs.unknown.Store(true)
		pass(10 * time.Second)
		r.produce(1)
		pass(time.Second)
		if n := len(a.sender.seen()); n != 1 {
			t.Errorf("%d requests after a beat of unknown outcome, want 1", n)
		}
	})
}

// A node that dies says nothing, and neither does one that was killed and comes back
// under another name.
func TestPeers_ShareOfADeadNodeIsTaken(t *testing.T) {
	t.Parallel()
	among(t, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{MaxInFlight: new(4), Timeout: new(30 * time.Minute)})
		docs := storage.NewCollection[dispatcher.Peer](r.broker.store, "peer")
		a := r.node()
		defer a.stop()
		r.hanging(a)
		revision := uint64(0)
		for beat := range uint64(10) { // another node, which then dies
			var err error
			if revision, err = docs.Put(t.Context(), ns, "other", dispatcher.Peer{Beat: beat}, revision, time.Time{}); err != nil {
				t.Fatal(err)
			}
			pass(2 * time.Second)
		}
		r.produce(100)
		if got := a.window(t); got != 2 {
			t.Errorf("%d requests while there is another node, want 2", got)
		}
		pass(15 * time.Second)
		if got := a.window(t); got != 4 {
			t.Errorf("%d requests after the other died, want all 4", got)
		}
	})
}

func TestPeers_EndpointKeepsNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 5, 50} {
		t.Run(strconv.Itoa(most), func(t *testing.T) {
			t.Parallel()
			among(t, func(t *testing.T, r *rig) {
				r.subscribe(deferring(subscriptions.Change{Defer: subscriptions.DeferChange{Max: &most}}))
				nodes := []*node{r.node(), r.node(), r.node()}
				for _, n := range nodes {
					defer n.stop()
					n.sender.script(slow(10*time.Millisecond, kept))
				}
				pass(10 * time.Second)
				r.produce(200)
				pass(time.Minute)
				if held := r.held(); held != most {
					t.Errorf("%d kept, want %d", held, most)
				}
			})
		})
	}
}

func TestPeers_WhatANodeLeftBehindIsClearedUp(t *testing.T) {
	t.Parallel()
	among(t, func(t *testing.T, r *rig) {
		docs := storage.NewCollection[dispatcher.Peer](r.broker.store, "peer")
		if _, err := docs.Put(t.Context(), ns, "crashed", dispatcher.Peer{}, 0, time.Time{}); err != nil {
			t.Fatal(err)
		}
		a := r.node()
		pass(20 * time.Second)
		left, err := docs.List(t.Context(), ns, "", 10)
		if err != nil || len(left) != 1 {
			t.Errorf("%d nodes known, want the one that is there: %v", len(left), err)
		}
		a.stop()
		if left, err = docs.List(t.Context(), ns, "", 10); err != nil || len(left) != 0 {
			t.Errorf("%d nodes known after the end, want none: %v", len(left), err)
		}
	})
}
