package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"
)

// longestWait is how long a call that makes work may wait for its batch. See [batcher].
const longestWait = 5 * time.Second

// batcher joins the calls of one verb: while one call of the store runs, the next
// ones gather. No timer is involved in that, so a lone call is never held up, and
// under load batches grow by themselves. Its loop runs while there is work.
//
// What waits is bounded, and refused with [OverloadedError] beyond its bounds, so
// that overload is shed, not buffered:
//
//   - A queue may have as many calls and bytes waiting as there is still room for. So a
//     flooded queue takes half of the bounds at most, and leaves room for all others.
//   - Queues take turns in filling a batch, with one call each time.
//   - A call is refused at once if its turn would come after longestWait, at the pace of
//     late; and it is refused once it has waited for so long. Calls that end or extend
//     leases are not: they make room, and nothing is won by having them repeated.
//   - What was taken into a batch is never refused.
type batcher[Req, Res any] struct {
	// run is one call of the store: it answers each request at its index, or fails
	// as a whole. It may keep neither slice.
	run func(ctx context.Context, batch []Req) ([]Res, error)
	// ended is told of each request once it is over, however it ended; or nil.
	ended           func(Req)
	what            string
	maxWaiting      int
	maxBytesWaiting int
	// maxWait, if not 0, is how long a call may wait for its batch.
	maxWait time.Duration
	timeout time.Duration

	mu      sync.Mutex
	waiting backlog[Req, Res]
	// inFlight is how many calls the store has, since started.
	inFlight int
	started  time.Time
	working  bool
	closed   bool
	// alarmed says that shedLate will be called.
	alarmed bool
	// idle is closed when the loop ends, if somebody waits for that.
	idle chan struct{}
	// pace is a moving mean of how long a call of the store takes.
	pace time.Duration

	// Only the loop uses these, from one batch to the next.
	batch    []*ticket[Req, Res]
	requests []Req
}

// burden is what a request is to a batcher: whose turn it takes, and how much of a
// batch.
type burden struct {
	queue          Number
	entries, bytes int
}

// ticket is one caller's request.
type ticket[Req, Res any] struct {
	burden
	req   Req
	since time.Time
	// answered holds one, so that the loop never waits for a caller.
	answered chan struct{}
	res      Res
	err      error

	// The backlog's own: its neighbours in line.
	line         *ticketLine[Req, Res]
	before, next *ticket[Req, Res]
}

func newBatcher[Req, Res any](what string, o Options, run func(context.Context, []Req) ([]Res, error)) *batcher[Req, Res] {
	return &batcher[Req, Res]{
		run: run, what: what,
		maxWaiting: o.MaxWaiting, maxBytesWaiting: o.MaxBytesWaiting, timeout: o.StoreTimeout,
	}
}

// do has a request done with others, and returns its answer.
//
// If ctx ends before the request was taken into a batch, nothing was done. If it
// ends afterwards, the outcome is unknown.
func (b *batcher[Req, Res]) do(ctx context.Context, of burden, req Req) (Res, error) {
	t := &ticket[Req, Res]{burden: of, req: req, answered: make(chan struct{}, 1)}
	var none Res
	if err := b.enter(ctx, t); err != nil {
		b.end(t)
		return none, err
	}
	select {
	case <-t.answered:
		return t.res, t.err
	case <-ctx.Done():
	}
	if b.withdraw(t) {
		b.end(t)
		return none, ctx.Err()
	}
	select {
	case <-t.answered:
		return t.res, t.err
	default:
		return none, fmt.Errorf("%w: the call ended while the store was at work", ErrUnknownOutcome)
	}
}

func (b *batcher[Req, Res]) enter(ctx context.Context, t *ticket[Req, Res]) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.since = time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrShuttingDown
	}
	if b.isFull(t) || b.isLate(t) {
		return b.refusal(t)
	}
	b.waiting.add(t)
	b.alarm(t)
	if !b.working {
		b.working = true
		go b.work()
	}
	return nil
}

// isFull says that a request's queue has more waiting than there is room left. b.mu is
// held, here and down to alarm.
func (b *batcher[Req, Res]) isFull(t *ticket[Req, Res]) bool {
	own, all := b.waiting.of(t.queue), b.waiting.total
	return own.calls >= b.maxWaiting-all.calls ||
		all.calls > 0 && own.bytes+t.bytes > b.maxBytesWaiting-all.bytes
}

// isLate says that a request that comes now would wait for too long. What fits into the
// next batch never does: it is how the pace is found out.
func (b *batcher[Req, Res]) isLate(t *ticket[Req, Res]) bool {
	if b.maxWait == 0 {
		return false
	}
	full := b.waiting.batchesBefore(t.queue)
	return full > 0 && b.durationOf(1+full) > b.maxWait // one runs already
}

// durationOf estimates how long so many calls of the store take: as long as they did of
// late, and at least as long as the one has taken that runs.
func (b *batcher[Req, Res]) durationOf(calls int) time.Duration {
	each := b.pace
	if b.inFlight > 0 {
		each = max(each, time.Since(b.started))
	}
	return time.Duration(calls) * each
}

// refusal says when there will be room.
func (b *batcher[Req, Res]) refusal(t *ticket[Req, Res]) error {
	const shortest, longest = 100 * time.Millisecond, 30 * time.Second
	again := b.durationOf(1 + b.waiting.batchesBefore(t.queue))
	return &OverloadedError{What: b.what, Reason: strings.ReplaceAll(b.what, " ", "_"), RetryAfter: min(max(again, shortest), longest)}
}

// alarm has the request looked at when it has waited for too long, with others that
// came soon after it.
func (b *batcher[Req, Res]) alarm(oldest *ticket[Req, Res]) {
	const together = 50 * time.Millisecond
	if b.maxWait == 0 || b.alarmed {
		return
	}
	b.alarmed = true
	time.AfterFunc(max(time.Until(oldest.since.Add(b.maxWait)), together), b.shedLate)
}

// shedLate refuses what has waited for too long.
func (b *batcher[Req, Res]) shedLate() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alarmed = false
	limit := time.Now().Add(-b.maxWait)
	for _, ln := range b.waiting.lines {
		for t := ln.first; t != nil && !t.since.After(limit); t = ln.first {
			t.err = b.refusal(t)
			b.waiting.remove(t)
			b.end(t)
			// Under the lock, so that a caller who leaves now is told that nothing was done.
			t.answered <- struct{}{}
		}
	}
	if oldest := b.waiting.oldest(); oldest != nil {
		b.alarm(oldest)
	}
}

// withdraw takes back a request that is still waiting.
func (b *batcher[Req, Res]) withdraw(t *ticket[Req, Res]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.line == nil {
		return false
	}
	b.waiting.remove(t)
	return true
}

// work makes one call of the store after the other until nothing waits.
func (b *batcher[Req, Res]) work() {
	for yielded := false; ; {
		switch {
		case b.take():
			b.serve(b.batch)
			b.note()
			yielded = false
		case !yielded:
			// Whoever was just answered may be back at once, and a loop that goes on is
			// cheaper than one that begins, with a stack to grow.
			runtime.Gosched()
			yielded = true
		case b.rest():
			return
		}
	}
}

// take fills the batch, and says whether there is anything in it.
func (b *batcher[Req, Res]) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.batch)
	b.batch = b.batch[:0]
	entries, bytes := 0, 0
	for t := b.waiting.next(); t != nil; t = b.waiting.next() {
		entries += t.entries
		bytes += t.bytes
		if len(b.batch) > 0 && (entries > MaxBatchEntries || bytes > MaxBatchBytes) {
			break // the next batch begins with it
		}
		b.batch = append(b.batch, t)
		b.waiting.pass(t)
	}
	b.inFlight = len(b.batch)
	b.started = time.Now()
	return len(b.batch) > 0
}

// rest ends the loop if there is nothing to do.
func (b *batcher[Req, Res]) rest() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting.total.calls > 0 {
		return false
	}
	b.working = false
	if b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
	return true
}

// serve answers a batch. Where the whole call failed with an error that no store
// is known for, and nothing was applied, one request may be at fault: each half is
// tried for itself, so that it fails alone.
func (b *batcher[Req, Res]) serve(batch []*ticket[Req, Res]) {
	answers, err := b.call(batch)
	if err != nil && len(batch) > 1 && isUnforeseen(err) {
		half := len(batch) / 2
		b.serve(batch[:half])
		b.serve(batch[half:])
		return
	}
	for i, t := range batch {
		if t.err = err; err == nil {
			t.res = answers[i]
		}
		b.end(t)
		t.answered <- struct{}{}
	}
}

func (b *batcher[Req, Res]) call(batch []*ticket[Req, Res]) ([]Res, error) {
	b.requests = b.requests[:0]
	for _, t := range batch {
		b.requests = append(b.requests, t.req)
	}
	defer clear(b.requests)
	ctx, cancel := storeContext(b.timeout)
	defer cancel()
	answers, err := b.run(ctx, b.requests)
	return answers, foldDeadline(ctx, err)
}

func (b *batcher[Req, Res]) note() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pace += (time.Since(b.started) - b.pace) / 8
	b.inFlight = 0
}

func (b *batcher[Req, Res]) end(t *ticket[Req, Res]) {
	if b.ended != nil {
		b.ended(t.req)
	}
}

// close lets nothing more in and returns when what was there is done.
func (b *batcher[Req, Res]) close() {
	b.mu.Lock()
	b.closed = true
	if !b.working {
		b.mu.Unlock()
		return
	}
	if b.idle == nil {
		b.idle = make(chan struct{})
	}
	idle := b.idle
	b.mu.Unlock()
	<-idle
}

// total returns how many requests wait, over all queues, and how many the store has.
func (b *batcher[Req, Res]) total() (waiting, inFlight int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting.total.calls, b.inFlight
}

// load returns how many requests of a queue wait, and how many the store has of all.
func (b *batcher[Req, Res]) load(n Number) (waiting, inFlight int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting.of(n).calls, b.inFlight
}

// isUnforeseen says that an error of a whole call is none that the contract of
// [Store] names.
func isUnforeseen(err error) bool {
	for _, known := range []error{ErrUnavailable, ErrUnknownOutcome, ErrDiskFull, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return false
		}
	}
	return true
}

// foldDeadline turns the end of a store call's own time into an unknown outcome.
// A store says that nothing was sent when it returns a context's error; what it
// cannot know is whether a server behind it has begun.
func foldDeadline(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, context.Cause(ctx))
	}
	return err
}
