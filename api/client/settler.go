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

// settle sends outcomes, all that wait in one call for each verb, until ctx ends.
func (s *shift) settle(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.toSend:
		}
		for batch := range slices.Chunk(s.takeOutcomes(), maxBatch) {
			s.send(ctx, batch)
		}
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

func (s *shift) send(ctx context.Context, batch []*work) {
	var completed, retried, released []*work
	for _, x := range batch {
		switch x.outcome {
		case Completed:
			completed = append(completed, x)
		case Retried, Buried:
			retried = append(retried, x)
		case Released:
			released = append(released, x)
		}
	}
	s.sendAll(ctx, completed, s.complete)
	s.sendAll(ctx, retried, s.retry)
	s.sendAll(ctx, released, s.release)
}

// sendAll makes a call until the server has taken it, or ctx ends. Calls are all or
// nothing, so those that are refused are left out of the next try.
func (s *shift) sendAll(ctx context.Context, batch []*work, call func(context.Context, []*work) error) {
	for len(batch) > 0 {
		began := time.Now()
		err := call(ctx, batch)
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
		case isFinal(err):
			s.w.log.Error("outcomes were refused; their items come again when their leases lapse", "items", len(batch), "error", err)
			s.forget(batch)
			return
		default:
			s.w.log.Warn("outcomes were not sent; that is tried again", "items", len(batch), "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(sendAgain):
			}
		}
	}
}

// dropRefused forgets the entries at fault and returns the others.
func (s *shift) dropRefused(batch []*work, refusal *Error) (rest []*work) {
	var dropped []*work
	for i, x := range batch {
		status := refusal.Results[i].Status
		if status == "ok" || status == "undone" {
			rest = append(rest, x)
			continue
		}
		dropped = append(dropped, x)
		if !refusal.Uncertain { // else an earlier try may have done it
			s.w.log.Warn("outcome came too late; somebody else may have the item",
				"item_id", x.it.ItemID, "outcome", x.outcome.String(), "status", status)
		}
	}
	if len(dropped) == 0 {
		// The server says that none is at fault, and does not take them all the same.
		dropped, rest = batch, nil
	}
	s.forget(dropped)
	return rest
}

// dropResults says whether there were any.
func dropResults(batch []*work) (any bool) {
	for _, x := range batch {
		any = any || x.it.result != nil
		x.it.result = nil
	}
	return any
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
		completions[i] = Completion{Receipt: x.it.Receipt, Result: x.it.result}
	}
	return s.w.client.CompleteWith(ctx, completions...)
}

func (s *shift) retry(ctx context.Context, batch []*work) error {
	retries := make([]Retry, len(batch))
	for i, x := range batch {
		retries[i] = Retry{Receipt: x.it.Receipt, Delay: x.delay, Dead: x.outcome == Buried, Reason: x.reason}
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
	for _, x := range s.line {
		x.outcome = Released
	}
	s.outcomes = append(s.outcomes, s.line...)
	s.line = nil
	notify(s.toSend)
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
	s.await(ctx, sendTimeout, func() bool { return len(s.held) == 0 })
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
