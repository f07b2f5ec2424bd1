package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Whoever waits for an item looks again after a time that doubles from the first
	// to the last of these: another node may have ended it.
	firstLook = 200 * time.Millisecond
	lastLook  = 2 * time.Second
	// maxAwaiting bounds those that wait, each of which costs a look every lastLook.
	maxAwaiting = 1000
)

// Await waits until an item has ended in a namespace, or in one queue if that is
// named, and then returns what [Broker.Look] does. What was buried has ended. When
// wait is over, at most [MaxWait], it returns where the item is.
//
// Errors are those of Look; [InvalidError]; [OverloadedError]; [ErrShuttingDown]. An
// item that ended while somebody waited, where nothing is kept of ended items, is
// [ErrNotFound], as [*EndedError].
func (b *Broker) Await(ctx context.Context, ns Namespace, id ID, queue string, wait time.Duration) ([]ItemState, error) {
	if wait < 0 || wait > MaxWait {
		return nil, Invalid("request_timeout", "is %s; want 0 to %s", wait, MaxWait)
	}
	q, err := b.namedOrAny(ctx, ns, queue)
	if err != nil {
		return nil, err
	}
	// Before the first look, so that no ending falls between them.
	w, err := b.endings.enter(id)
	if err != nil {
		return nil, err
	}
	defer b.endings.leave(id, w)
	over := time.NewTimer(wait)
	defer over.Stop()
	lived := false
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		copies, err := b.copiesFrom(ctx, ns, id, q)
		if err != nil {
			return nil, err
		}
		if !anyLives(copies) {
			break
		}
		lived = true
		again := time.NewTimer(pause)
		select {
		case <-w:
		case <-again.C:
		case <-over.C:
			again.Stop()
			return b.lookFrom(ctx, ns, id, q)
		case <-b.endings.drained:
			again.Stop()
			return nil, ErrShuttingDown
		case <-ctx.Done():
			again.Stop()
			return nil, ctx.Err()
		}
		again.Stop()
	}
	states, err := b.lookFrom(ctx, ns, id, q)
	if lived && errors.Is(err, ErrNotFound) {
		return nil, &EndedError{ID: id}
	}
	return states, err
}

// anyLives says whether a copy is not buried.
func anyLives(copies []Item) bool {
	for i := range copies {
		if copies[i].Dead == nil {
			return true
		}
	}
	return false
}

// endings are those that wait for items to end. Settling tells them, which costs
// nothing while there are none.
type endings struct {
	// drained is closed when nobody may wait any more.
	drained chan struct{}
	waiting atomic.Int64

	mu sync.Mutex
	// byID holds a channel for each of those that wait, with room for one: look again.
	byID map[ID][]chan struct{}
	over bool
}

func newEndings() *endings {
	return &endings{drained: make(chan struct{}), byID: map[ID][]chan struct{}{}}
}

func (e *endings) enter(id ID) (chan struct{}, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return nil, ErrShuttingDown
	}
	if e.waiting.Load() >= maxAwaiting {
		return nil, &OverloadedError{What: "calls waiting for items to end", Reason: "endings_awaited", RetryAfter: comeBack}
	}
	e.waiting.Add(1)
	w := make(chan struct{}, 1)
	e.byID[id] = append(e.byID[id], w)
	return w, nil
}

func (e *endings) leave(id ID, w chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting.Add(-1)
	rest := e.byID[id][:0]
	for _, other := range e.byID[id] {
		if other != w {
			rest = append(rest, other)
		}
	}
	if e.byID[id] = rest; len(rest) == 0 {
		delete(e.byID, id)
	}
}

// any says whether somebody waits.
func (e *endings) any() bool { return e.waiting.Load() > 0 }

// wake tells those that wait for an item.
func (e *endings) wake(id ID) {
	if !e.any() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	tell(e.byID[id])
}

// wakeAll is for items that ended without being named.
func (e *endings) wakeAll() {
	if !e.any() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, waiting := range e.byID {
		tell(waiting)
	}
}

func tell(waiting []chan struct{}) {
	for _, w := range waiting {
		select {
		case w <- struct{}{}:
		default: // it will look anyway
		}
	}
}

// drain lets nobody wait any more.
func (e *endings) drain() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.over = true
		close(e.drained)
	}
}
