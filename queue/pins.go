package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// pins are calls that are about to put items on a queue. A deletion waits for them,
// and they for it, so that no item is acknowledged on a queue that is gone.
type pins struct {
	mu      sync.Mutex
	count   int
	deleted bool
	// closing is there while a deletion decides, and closed when it has.
	closing chan struct{}
	// unpinned is closed when the last pin goes while a deletion waits for that.
	unpinned chan struct{}
	// callers are those of the pins that belong to callers who add items, and quiet is
	// what to close when the last of them goes.
	callers int
	quiet   []chan struct{}
}

// enterOpen says that the pin that was just taken is a caller's, leaveOpen ends both.
func (p *pins) enterOpen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.callers++
}

func (p *pins) leaveOpen() {
	p.unpin()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.callers--; p.callers == 0 {
		for _, quiet := range p.quiet {
			close(quiet)
		}
		p.quiet = nil
	}
}

// awaitCallers returns when no caller adds items, or with the error of ctx.
func (p *pins) awaitCallers(ctx context.Context) error {
	p.mu.Lock()
	if p.callers == 0 {
		p.mu.Unlock()
		return nil
	}
	quiet := make(chan struct{})
	p.quiet = append(p.quiet, quiet)
	p.mu.Unlock()
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pin keeps a queue from being deleted until unpin. It answers [ErrNotFound] if
// that has happened already.
func (p *pins) pin(ctx context.Context) error {
	for {
		p.mu.Lock()
		deleted, closing := p.deleted, p.closing
		if !deleted && closing == nil {
			p.count++
			p.mu.Unlock()
			return nil
		}
		p.mu.Unlock()
		if deleted {
			return ErrNotFound
		}
		select {
		case <-closing:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryPin is pin without waiting: false if a deletion decides, or did.
func (p *pins) tryPin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deleted || p.closing != nil {
		return false
	}
	p.count++
	return true
}

func (p *pins) unpin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count--
	if p.count == 0 && p.unpinned != nil {
		close(p.unpinned)
		p.unpinned = nil
	}
}

// pinned is how many calls there are.
func (p *pins) pinned() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// isDeleted says that the queue is gone for good.
func (p *pins) isDeleted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deleted
}

// close holds up new pins and waits until there are none. Only one call at a time;
// reopen ends it.
func (p *pins) close(ctx context.Context) error {
	p.mu.Lock()
	p.closing = make(chan struct{})
	if p.count == 0 {
		p.mu.Unlock()
		return nil
	}
	unpinned := make(chan struct{})
	p.unpinned = unpinned
	p.mu.Unlock()
	select {
	case <-unpinned:
		return nil
	case <-ctx.Done():
		p.reopen(false)
		return ctx.Err()
	}
}

// reopen lets those that wait go on, or tells them that the queue is gone.
func (p *pins) reopen(deleted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deleted = deleted
	p.unpinned = nil
	close(p.closing)
	p.closing = nil
}

// pinSet are queues that one call keeps from being deleted. Each is pinned once: a second
// pin might wait for a deletion that waits for the first one to go.
type pinSet struct{ queues []*knownQueue }

// pin adds a queue, and finds it again if it was deleted in between.
func (p *pinSet) pin(ctx context.Context, known *catalog, find func() (*knownQueue, error)) (*knownQueue, error) {
	for {
		q, err := find()
		if err != nil {
			return nil, err
		}
		if slices.Contains(p.queues, q) {
			return q, nil
		}
		if err = q.pin(ctx); err == nil {
			p.queues = append(p.queues, q)
			return q, nil
		}
		if !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		known.removed(q)
	}
}

// tryPin is pin without waiting: false if a deletion decides, or did.
func (p *pinSet) tryPin(q *knownQueue) bool {
	if slices.Contains(p.queues, q) {
		return true
	}
	if !q.tryPin() {
		return false
	}
	p.queues = append(p.queues, q)
	return true
}

func (p *pinSet) unpin() {
	for _, q := range p.queues {
		q.unpin()
	}
}
