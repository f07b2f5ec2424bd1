package client

import (
	"context"
	"errors"
	"slices"
	"time"
)

const (
	// sendAgain is the wait before outcomes are sent again that the server did not take,
	// after the client's own tries.
	sendAgain = time.Second
	// sendTimeout is how long a stop waits for outcomes to be sent.
	sendTimeout = 10 * time.Second
)

// settle sends outcomes, all that wait in as few calls as they fit in, until ctx ends.
func (s *shift) settle(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.toSend:
		}
		s.send(ctx, s.takeOutcomes())
		notify(s.changed)
	}
}

func (s *shift) takeOutcomes() []*work {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.outcomes
	s.outcomes = nil
	return out
}

func (s *shift) send(ctx context.Context, outcomes []*work) {
	var completed, retried, released []*work
	for _, x := range outcomes {
		switch x.outcome {
		case Completed:
			completed = append(completed, x)
		case Retried, Buried:
			retried = append(retried, x)
		case Released:
			released = append(released, x)
		}
	}
	s.sendInCalls(ctx, released, s.release) // first, since others could be working on them
	s.sendInCalls(ctx, completed, s.complete)
	s.sendInCalls(ctx, retried, s.retry)
}

func (s *shift) sendInCalls(ctx context.Context, outcomes []*work, call func(context.Context, []*work) error) {
	s.mu.Lock()
	most := s.most
	s.mu.Unlock()
	for batch := range slices.Chunk(outcomes, most) {
		s.sendAll(ctx, batch, call)
	}
}

// sendAll makes a call until the server has taken it, or ctx ends. Calls are all or
// nothing, so those that are refused are left out of the next try.
func (s *shift) sendAll(ctx context.Context, batch []*work, call func(context.Context, []*work) error) {
	for len(batch) > 0 {
		began := time.Now()
		err := within(ctx, callTimeout, func(ctx context.Context) error { return call(ctx, batch) })
		if hook := s.w.opts.Hooks.Settled; hook != nil {
			hook(len(batch), time.Since(began), err)
		}
		if err == nil {
			s.forget(batch)
			return
		}
		refusal, _ := errors.AsType[*Error](err)
		switch {
		case ctx.Err() != nil:
			s.w.log.Warn("outcomes were not sent; their items come again when their leases lapse", "items", len(batch), "error", err)
			return
		case refusal != nil && len(refusal.Results) == len(batch):
			batch = s.dropRefused(batch, refusal)
		case refusal != nil && refusal.CodeText == CodeInvalid && dropResults(batch):
			s.w.log.Error("the queue takes no results; items are completed without", "error", err)
		case len(batch) > 1 && isAboutContent(err):
			// One of them is at fault, or they are too many: the others must not pay for it.
			s.tooMany(len(batch), err)
			s.sendAll(ctx, batch[:len(batch)/2], call)
			batch = batch[len(batch)/2:]
		case isFinal(err) || isAboutContent(err):
			s.w.log.Error("outcomes were refused; their items come again when their leases lapse", "items", len(batch), "error", err)
			s.forget(batch)
			return
		default:
			s.w.log.Warn("outcomes were not sent; that is tried again", "items", len(batch), "error", err)
			pause(ctx, sendAgain)
		}
	}
}

// callTimeout bounds a call of a worker: a connection may hang for ever.
const callTimeout = 30 * time.Second

func within(ctx context.Context, timeout time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return do(ctx)
}

// isAboutContent says that the same call will be refused again.
func isAboutContent(err error) bool {
	return Is(err, CodeInvalid) || Is(err, CodeTooLarge) || Is(err, CodeFanOutTooLarge)
}

// dropRefused forgets the entries at fault and returns the others. What cannot be buried,
// since its queue is a dead-letter queue, is retried.
func (s *shift) dropRefused(batch []*work, refusal *Error) (rest []*work) {
	var dropped []*work
	mended := false
	for i, x := range batch {
		status := refusal.Results[i].Status
		switch {
		case status == "ok" || status == "undone":
			rest = append(rest, x)
			continue
		case status == CodeAlreadyDead && x.outcome == Buried:
			s.setOutcome(x, Retried)
			rest, mended = append(rest, x), true
			continue
		}
		dropped = append(dropped, x)
		if !refusal.Uncertain { // else an earlier try may have done it
			s.w.log.Warn("outcome came too late; somebody else may have the item",
				"item_id", x.it.ItemID, "outcome", x.outcome.String(), "status", status)
		}
	}
	if len(dropped) == 0 && !mended {
		// The server says that none is at fault, and does not take them all the same.
		dropped, rest = batch, nil
	}
	s.forget(dropped)
	return rest
}

// dropResults says whether there were any.
func dropResults(batch []*work) (any bool) {
	for _, x := range batch {
		any = any || x.result != nil
		x.result = nil
	}
	return any
}

func (s *shift) setOutcome(x *work, o Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.outcome = o
}

func (s *shift) forget(batch []*work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range batch {
		delete(s.held, x.it.Receipt)
	}
}

func (s *shift) complete(ctx context.Context, batch []*work) error {
	completions := make([]Completion, len(batch))
	for i, x := range batch {
		completions[i] = Completion{Receipt: x.it.Receipt, Result: x.result}
	}
	return s.w.client.CompleteWith(ctx, completions...)
}

func (s *shift) retry(ctx context.Context, batch []*work) error {
	retries := make([]Retry, len(batch))
	for i, x := range batch {
		retries[i] = Retry{Receipt: x.it.Receipt, Reason: x.reason}
		if x.outcome == Buried {
			retries[i].Dead = true
		} else {
			retries[i].Delay = x.delay
		}
	}
	_, err := s.w.client.Retry(ctx, retries...)
	return err
}

func (s *shift) release(ctx context.Context, batch []*work) error {
	receipts := make([]string, len(batch))
	for i, x := range batch {
		receipts[i] = x.it.Receipt
	}
	return s.w.client.Release(ctx, 0, receipts...)
}

// stop gives back what no handler has begun, waits for those that run, and for all
// outcomes to be sent.
func (s *shift) stop(ctx context.Context) {
	s.mu.Lock()
	s.stopping = true
	s.giveBack(s.line)
	s.line = nil
	s.mu.Unlock()

	if !s.await(ctx, s.w.opts.StopTimeout, func() bool { return s.running == 0 }) {
		s.mu.Lock()
		for _, x := range s.held {
			if x.outcome == 0 && x.cancel != nil {
				x.stopped = true
				x.cancel(ErrStopping)
			}
		}
		s.mu.Unlock()
		s.await(ctx, forever, func() bool { return s.running == 0 })
	}
	s.workers.Wait()
	s.await(ctx, sendTimeout, func() bool { return len(s.held) == 0 })
}

// giveBack has items released. s.mu is held.
func (s *shift) giveBack(items []*work) {
	for _, x := range items {
		x.outcome = Released
	}
	s.outcomes = append(s.outcomes, items...)
	notify(s.toSend)
}

// forever is longer than any handler.
const forever = time.Duration(1<<63 - 1)

// await returns when done holds, which is asked with s.mu held, or the time is up.
func (s *shift) await(ctx context.Context, timeout time.Duration, done func() bool) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		s.mu.Lock()
		ok := done()
		s.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-s.changed:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
