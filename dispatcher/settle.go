package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// settled is what became of one item of a push.
type settled struct {
	queue.Settled
	err error
}

// next says what is done with the item.
func (s settled) next(dec decision) string {
	switch {
	case s.Buried:
		return queue.Bury.String()
	case s.Parked:
		return stepPark
	}
	return dec.outcome.String()
}

// settle writes the outcome of a push, and answers each entry at its index. While the
// store is in trouble it tries again for as long as the lease lasts, which is renewed
// meanwhile if the store allows: the request was made, and to forget its outcome would
// mean to make it again. A receipt that is refused is not tried again: the item is
// somebody else's by now, and the others are settled without it.
func (d *Dispatcher) settle(p *push, entries []queue.SettleEntry) []settled {
	answers := make([]settled, len(entries))
	todo := entries
	// places are those of todo in entries, nil while they are all.
	var places []int
	at := func(i int) *settled {
		if places == nil {
			return &answers[i]
		}
		return &answers[places[i]]
	}
	for wait := settleRetryMin; ; wait = min(2*wait, settleRetryMax) {
		done, err := d.broker.Settle(d.closing, queue.SettleCall{Namespace: p.lane.key.Namespace, Entries: todo})
		if err == nil {
			for i := range done {
				at(i).Settled = done[i]
			}
			return answers
		}
		if isTooMuch(err) && len(todo) > 1 {
			// What they tell a topic is, most likely.
			half := len(todo) / 2
			for i, a := range append(d.settle(p, todo[:half]), d.settle(p, todo[half:])...) {
				*at(i) = a
			}
			return answers
		}
		if rest, kept, ok := d.without(p, todo, err, func(i int, err error) { at(i).err = err }); ok {
			if len(rest) == 0 {
				return answers
			}
			for i, k := range kept {
				if places != nil {
					kept[i] = places[k]
				}
			}
			todo, places = rest, kept
			continue
		}
		if isStale(err) || !mayPass(err) || p.lapsed() || !d.rest(wait) {
			if isStale(err) && !p.finished(err) {
				d.stale.Add(1)
			}
			for i := range todo {
				at(i).err = err
			}
			return answers
		}
	}
}

// without takes out of a call what was refused of it, and tells of each. What is in a
// dead-letter queue already, since somebody produced it there, is tried again later
// instead. ok is false if the error names no receipts, or none that can be helped.
func (d *Dispatcher) without(p *push, entries []queue.SettleEntry, err error, tell func(i int, err error)) (
	rest []queue.SettleEntry, kept []int, ok bool,
) {
	refused, ok := errors.AsType[*queue.StaleError](err)
	if !ok || len(refused.Entries) == 0 {
		return nil, nil, false
	}
	for i, entry := range entries {
		switch reason := refused.Entries[i]; {
		case reason == nil:
		case errors.Is(reason, queue.ErrAlreadyDead) && entry.Outcome == queue.Bury:
			entry.Outcome, entry.Reason = queue.Retry, ""
			entry.Delay = longest(&p.sub.Retry, d.rnd())
		default:
			if isStale(reason) && !p.finished(reason) {
				d.stale.Add(1)
			}
			tell(i, reason)
			continue
		}
		rest, kept = append(rest, entry), append(kept, i)
	}
	return rest, kept, true
}

// rest waits, and says whether there is still time.
func (d *Dispatcher) rest(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.closing.Done():
		return false
	}
}

// release gives back what was not pushed, in one call; or, where some of it is somebody
// else's already, one by one.
func (d *Dispatcher) release(ctx context.Context, ns queue.Namespace, entries []queue.SettleEntry) error {
	for wait := settleRetryMin; ; wait *= 2 {
		_, err := d.broker.Settle(ctx, queue.SettleCall{Namespace: ns, Entries: entries})
		switch {
		case err == nil:
			return nil
		case isStale(err) && len(entries) > 1:
			var errs []error
			for i := range entries {
				errs = append(errs, d.release(ctx, ns, entries[i:i+1]))
			}
			return errors.Join(errs...)
		case isStale(err):
			return nil
		case !mayPass(err) || wait > settleRetryMax:
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// isStale says that the lease is not ours any more.
func isStale(err error) bool {
	return errors.Is(err, queue.ErrStale) || errors.Is(err, queue.ErrNotFound)
}

// mayPass says that the same call may work later.
func mayPass(err error) bool {
	_, invalid := errors.AsType[*queue.InvalidError](err)
	return !invalid && !isTooMuch(err) && !errors.Is(err, queue.ErrShuttingDown) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, queue.ErrAlreadyDead)
}

// isTooMuch says that a call is more than a transaction takes.
func isTooMuch(err error) bool {
	_, copies := errors.AsType[*queue.FanOutError](err)
	_, large := errors.AsType[*queue.TooLargeError](err)
	return copies || large
}

// disable takes the subscription out of service, since its endpoint answered 410.
// If the store does not let us, the next item is answered the same, and we try again.
func (d *Dispatcher) disable(p *push) {
	sub, err := d.subs.Disable(d.closing, p.sub.Namespace, p.sub.Name, p.sub.URL, goneReason)
	switch {
	case err == nil:
		p.lane.update(&sub)
	case !errors.Is(err, queue.ErrNotFound):
		p.lane.logger().Warn("subscription whose endpoint is gone was not disabled", "error", err)
	}
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	p.lane.gone = false
	p.lane.look()
}

const goneReason = "the endpoint answered 410 Gone"
