package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// batcher joins the calls of one verb: while one call of the store runs, the next
// ones gather. No timer is involved, so a lone call is never held up, and under
// load batches grow by themselves. Its loop runs while there is work.
//
// What waits is bounded in calls and bytes. Past that a call is refused at once,
// and told when to come back: overload is shed, not buffered.
type batcher[Req, Res any] struct {
	// run is one call of the store: it answers each request at its index, or fails
	// as a whole. It may keep neither slice.
	run func(ctx context.Context, batch []Req) ([]Res, error)
	// ended is told of each request once it is over, however it ended; or nil.
	ended           func(Req)
	what            string
	maxWaiting      int
	maxBytesWaiting int
	timeout         time.Duration

	mu       sync.Mutex
	waiting  []*ticket[Req, Res]
	bytes    int // of what waits
	entries  int // of what waits
	inFlight int
	working  bool
	closed   bool
	// idle is closed when the loop ends, if somebody waits for that.
	idle chan struct{}
	// pace is a moving mean of how long a call of the store takes.
	pace time.Duration

	// Only the loop uses these, from one batch to the next.
	batch    []*ticket[Req, Res]
	requests []Req
}

// ticket is one caller's request.
type ticket[Req, Res any] struct {
	req            Req
	entries, bytes int
	// answered holds one, so that the loop never waits for a caller.
	answered chan struct{}
	res      Res
	err      error
}

func newBatcher[Req, Res any](what string, o Options, run func(context.Context, []Req) ([]Res, error)) *batcher[Req, Res] {
	return &batcher[Req, Res]{
		run: run, what: what,
		maxWaiting: o.MaxWaiting, maxBytesWaiting: o.MaxBytesWaiting, timeout: o.StoreTimeout,
	}
}

// do has a request done with others, and returns its answer. A request has a
// number of entries and bytes, which bound the batch.
//
// If ctx ends before the request was taken into a batch, nothing was done. If it
// ends afterwards, the outcome is unknown.
func (b *batcher[Req, Res]) do(ctx context.Context, req Req, entries, bytes int) (Res, error) {
	t := &ticket[Req, Res]{req: req, entries: entries, bytes: bytes, answered: make(chan struct{}, 1)}
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
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrShuttingDown
	}
	if n := len(b.waiting); n >= b.maxWaiting || n > 0 && b.bytes+t.bytes > b.maxBytesWaiting {
		return &OverloadedError{What: b.what, RetryAfter: b.backlog()}
	}
	b.waiting = append(b.waiting, t)
	b.bytes += t.bytes
	b.entries += t.entries
	if !b.working {
		b.working = true
		go b.work()
	}
	return nil
}

// backlog estimates how long what waits will take. b.mu is held.
func (b *batcher[Req, Res]) backlog() time.Duration {
	const shortest, longest = 100 * time.Millisecond, 30 * time.Second
	calls := 1 + max(b.entries/MaxBatchEntries, b.bytes/MaxBatchBytes)
	return min(max(time.Duration(calls)*b.pace, shortest), longest)
}

// withdraw takes back a request that is still waiting.
func (b *batcher[Req, Res]) withdraw(t *ticket[Req, Res]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, t)
	if i < 0 {
		return false
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	b.bytes -= t.bytes
	b.entries -= t.entries
	return true
}

// work makes one call of the store after the other until nothing waits.
func (b *batcher[Req, Res]) work() {
	for yielded := false; ; {
		switch {
		case b.take():
			started := time.Now()
			b.serve(b.batch)
			b.note(time.Since(started))
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
	for _, t := range b.waiting {
		entries += t.entries
		bytes += t.bytes
		if len(b.batch) > 0 && (entries > MaxBatchEntries || bytes > MaxBatchBytes) {
			entries -= t.entries
			bytes -= t.bytes
			break
		}
		b.batch = append(b.batch, t)
	}
	b.inFlight = len(b.batch)
	b.waiting = slices.Delete(b.waiting, 0, len(b.batch))
	b.bytes -= bytes
	b.entries -= entries
	return len(b.batch) > 0
}

// rest ends the loop if there is nothing to do.
func (b *batcher[Req, Res]) rest() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 {
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

func (b *batcher[Req, Res]) note(took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pace += (took - b.pace) / 8
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

// load returns how many requests wait, and how many the store has.
func (b *batcher[Req, Res]) load() (waiting, inFlight int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting), b.inFlight
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
