package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// takersPerCall bounds how many of a queue's waiters one look serves. Where one of
	// them gets nothing, there was nothing for those behind it either.
	takersPerCall = 64
	// bytesPerCall is shared by the takers of one call of the store, as long as each
	// may have leastShare.
	bytesPerCall = 32 << 20
	leastShare   = 128 << 10
	// A queue that had less than was asked for is looked at again only after a rest of so
	// many times what a look takes, and never a longer one. See [leaser.mark].
	restPerLook = 10
	longestRest = 20 * time.Millisecond
	// A rest begins to pay when more than calm items come during a look, and is taken whole
	// from one more on. How many come is a mean over about rateTime.
	calm     = 0.5
	rateTime = 100 * time.Millisecond
	// comeBack is what a lease is told that finds too many waiting before it.
	comeBack = time.Second
)

// leaser keeps the leases that wait, in a line per queue, and makes the store's
// lease calls for them: one call at a time, for all queues on which somebody waits
// and something may be there. Its loop runs while there is something to look for.
type leaser struct {
	b          *Broker
	maxWaiting int

	mu    sync.Mutex
	lines map[Number]*line
	// marked are the lines to look at, each once.
	marked   []*line
	returned []Item // to be given back
	arrivals uint64
	working  bool
	draining bool
	inFlight int
	// pace is a moving mean of how long a call of the store takes.
	pace time.Duration
	// idle is closed when the loop ends, if somebody waits for that.
	idle chan struct{}

	// curious are told when the call of the store that is under way has been dealt out.
	curious []chan struct{}

	// refreshes are readings of settings, of which none begins once draining.
	refreshes sync.WaitGroup
}

// line is the waiters of one queue in order of arrival. It is there while it has any.
type line struct {
	queue   *knownQueue
	waiters []*waiter
	// clients are the names of those that wait, as far as they have one.
	clients map[string]struct{}
	marked  bool
	// unseen are the partitions in which there may be something, a bit for each, and seen,
	// of queues that have several, the arrival up to which each was found to hold nothing more.
	unseen uint64
	seen   []uint64
	// restUntil is before when the line need not be looked at; alarmed says that it
	// will be then.
	restUntil time.Time
	alarmed   bool
	// refreshing says that the settings are being read again, refreshedAt when they
	// were, by the line itself.
	refreshing  bool
	refreshedAt time.Time
}

// waiter is one lease call.
type waiter struct {
	queue       *knownQueue
	limit       int
	maxBytes    int
	ttl         time.Duration
	owner       string
	client      string
	push        bool
	maxAttempts int32
	// answered holds one; reply and err are set before it is sent.
	answered chan struct{}
	reply    LeaseReply
	err      error

	// The leaser's lock guards what follows.

	arrival uint64
	// looked: a look at the store that began after the arrival found nothing.
	looked bool
	// looking: the store is being asked now.
	looking bool
	// over: the time is up, so the next look answers in any case.
	over bool
	// gone: answered, or nobody is there any more.
	gone bool
}

func newLeaser(b *Broker, maxWaiting int) *leaser {
	return &leaser{b: b, maxWaiting: maxWaiting, lines: map[Number]*line{}}
}

// wait stands in line until w is answered, its time is up, or ctx ends.
func (l *leaser) wait(ctx context.Context, w *waiter, wait time.Duration) (LeaseReply, error) {
	if err := l.enter(ctx, w); err != nil {
		return LeaseReply{}, err
	}
	var timeUp <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		timeUp = timer.C
	}
	for {
		select {
		case <-w.answered:
			return w.reply, w.err
		case <-timeUp:
			l.timeUp(w)
			timeUp = nil
		case <-ctx.Done():
			l.leave(w)
			return LeaseReply{}, ctx.Err()
		}
	}
}

func (l *leaser) enter(ctx context.Context, w *waiter) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draining {
		return ErrShuttingDown
	}
	// Asked under the lock: a deletion first says so, and then answers all that wait.
	if w.queue.moved.Load() {
		return errMoved
	}
	if w.queue.isDeleted() {
		return errGone(w.queue)
	}
	ln := l.lines[w.queue.number]
	if ln == nil {
		ln = &line{}
		l.lines[w.queue.number] = ln
	}
	ln.queue = w.queue // the line may be left over from when it had another name
	if len(ln.waiters) >= l.maxWaiting {
		return &OverloadedError{What: "leases waiting on queue " + w.queue.name, Reason: "leases_waiting", RetryAfter: comeBack}
	}
	if w.client != "" {
		if _, waits := ln.clients[w.client]; waits {
			return ErrClientWaiting
		}
		if ln.clients == nil {
			ln.clients = map[string]struct{}{}
		}
		ln.clients[w.client] = struct{}{}
	}
	if w.over && w.queue.isPaused(PausedLease) {
		l.answer(w, LeaseReply{}, nil)
		l.remove(ln)
		return nil
	}
	l.arrivals++
	w.arrival = l.arrivals
	ln.waiters = append(ln.waiters, w)
	ln.unseen = anywhere // it is owed a look at each
	if w.over {
		l.markNow(ln) // it wants its answer at once
	} else {
		l.mark(ln)
	}
	return nil
}

// mark has a line looked at: at once, or after the line's rest. Consumers that are
// quicker than their producers would otherwise ask for every item as it comes, and
// each look costs the same for one item as for a hundred; measured on PostgreSQL with
// 16 of each, a rest doubles the items of a lease and brings a third more of them
// through. A rest follows what a look costs, so a store in memory has next to none, and
// how many items come meanwhile, so those that come one by one are leased at once.
//
// l.mu is held, here and in what follows.
func (l *leaser) mark(ln *line) {
	rest := time.Until(ln.restUntil)
	switch {
	case rest <= 0:
		l.markNow(ln)
	case !ln.alarmed:
		ln.alarmed = true
		time.AfterFunc(rest, func() { l.wakeRested(ln) })
	}
}

func (l *leaser) wakeRested(ln *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln.alarmed = false
	if l.lines[ln.queue.number] == ln {
		l.markNow(ln)
	}
}

func (l *leaser) markNow(ln *line) {
	if ln.marked {
		return
	}
	ln.marked = true
	l.marked = append(l.marked, ln)
	l.start()
}

func (l *leaser) start() {
	if !l.working {
		l.working = true
		go l.work()
	}
}

// errGone says that a queue was deleted.
func errGone(q *knownQueue) error { return fmt.Errorf("queue %s: %w", q.name, ErrNotFound) }

// errMoved says that a queue has another name now, so that who knows its old one looks
// again. It stays within the package.
var errMoved = errors.New("queue has another name")

func (l *leaser) answer(w *waiter, reply LeaseReply, err error) {
	w.reply, w.err = reply, err
	w.gone = true
	w.answered <- struct{}{}
}

// remove takes those that are gone out of a line, and the line away if it is empty.
func (l *leaser) remove(ln *line) {
	ln.waiters = slices.DeleteFunc(ln.waiters, func(w *waiter) bool {
		if w.gone && w.client != "" {
			delete(ln.clients, w.client)
		}
		return w.gone
	})
	if len(ln.waiters) == 0 && l.lines[ln.queue.number] == ln {
		delete(l.lines, ln.queue.number)
	}
}

// wake marks the queues on which somebody waits.
func (l *leaser) wake(queues wakes) {
	if len(queues) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range queues {
		if ln := l.lines[w.queue]; ln != nil {
			ln.unseen |= w.parts
			l.mark(ln)
		}
	}
}

// timeUp answers a waiter, unless a look is still owed to it: then that answers. A
// paused queue owes none.
func (l *leaser) timeUp(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.gone {
		return
	}
	w.over = true
	ln := l.lines[w.queue.number]
	switch {
	case w.looking:
	case !w.looked && !w.queue.isPaused(PausedLease):
		l.markNow(ln)
	default:
		l.answer(w, w.reply, nil)
		l.remove(ln)
	}
}

// leave takes out a waiter whose caller goes. What it was given already, it gives
// back; what it is being given now, the look gives back.
func (l *leaser) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.gone {
		l.giveBack(w.reply.Items)
		return
	}
	w.gone = true
	l.remove(l.lines[w.queue.number])
}

func (l *leaser) giveBack(items []Item) {
	if len(items) > 0 {
		l.returned = append(l.returned, items...)
		l.start()
	}
}

// dismiss answers all that wait on a queue.
func (l *leaser) dismiss(n Number, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ln := l.lines[n]; ln != nil {
		l.dismissLine(ln, err)
	}
}

func (l *leaser) dismissLine(ln *line, err error) {
	for _, w := range ln.waiters {
		if !w.looking {
			l.answer(w, LeaseReply{}, err)
		}
	}
	l.remove(ln)
}

// drain lets nobody wait any more.
func (l *leaser) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
	for _, ln := range l.lines {
		l.dismissLine(ln, ErrShuttingDown)
	}
}

// await returns when the loop has ended, after drain.
func (l *leaser) await() {
	l.refreshes.Wait()
	l.mu.Lock()
	if !l.working {
		l.mu.Unlock()
		return
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	l.mu.Unlock()
	<-idle
}

// total returns how many wait, over all queues, and how many the store is being asked for.
func (l *leaser) total() (waiting, inFlight int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ln := range l.lines {
		waiting += len(ln.waiters)
	}
	return waiting, l.inFlight
}

// load returns how many wait on a queue, and how many the store is being asked for.
func (l *leaser) load(n Number) (waiting, inFlight int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ln := l.lines[n]; ln != nil {
		waiting = len(ln.waiters)
	}
	return waiting, l.inFlight
}
