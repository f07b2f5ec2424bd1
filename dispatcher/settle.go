package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// settle writes the outcome of a push. While the store is in trouble it tries again
// for as long as the lease lasts, which is renewed meanwhile if the store allows:
// the request was made, and to forget its outcome would mean to make it again.
// A receipt that is refused is not tried again: the item is somebody else's by now.
func (d *Dispatcher) settle(p *push, entry queue.SettleEntry) (queue.Settled, error) {
	ns := p.lane.key.Namespace
	for wait := settleRetryMin; ; wait = min(2*wait, settleRetryMax) {
		settled, err := d.settleOnce(d.closing, ns, entry)
		switch {
		case err == nil:
			return settled, nil
		case errors.Is(err, queue.ErrAlreadyDead) && entry.Outcome == queue.Bury:
			// The queue is a dead-letter queue and the item was produced there.
			entry.Outcome, entry.Reason = queue.Retry, ""
			entry.Delay = longest(&p.sub.Retry, d.rnd())
			continue
		case isStale(err):
			d.stale.Add(1)
			return settled, err
		case !mayPass(err) || p.lapsed():
			return settled, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-d.closing.Done():
			timer.Stop()
			return settled, err
		}
	}
}

func (d *Dispatcher) settleOnce(ctx context.Context, ns queue.Namespace, entries ...queue.SettleEntry) (queue.Settled, error) {
	settled, err := d.broker.Settle(ctx, queue.SettleCall{Namespace: ns, Entries: entries})
	if err != nil {
		return queue.Settled{}, err
	}
	return settled[0], nil
}

// release gives back what was not pushed, in one call; or, where some of it is somebody
// else's already, one by one.
func (d *Dispatcher) release(ctx context.Context, ns queue.Namespace, receipts []queue.Receipt) error {
	entries := make([]queue.SettleEntry, len(receipts))
	for i, receipt := range receipts {
		entries[i] = queue.SettleEntry{Receipt: receipt, Outcome: queue.Release}
	}
	for wait := settleRetryMin; ; wait *= 2 {
		_, err := d.settleOnce(ctx, ns, entries...)
		switch {
		case err == nil:
			return nil
		case isStale(err) && len(receipts) > 1:
			var errs []error
			for i := range receipts {
				errs = append(errs, d.release(ctx, ns, receipts[i:i+1]))
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
	return !invalid && !errors.Is(err, queue.ErrShuttingDown) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, queue.ErrAlreadyDead)
}

// disable takes the subscription out of service, since its endpoint answered 410.
// If the store does not let us, the next item is answered the same, and we try again.
func (d *Dispatcher) disable(p *push) {
	sub, err := d.subs.Disable(d.closing, p.sub.Namespace, p.sub.Name, p.sub.URL, goneReason)
	switch {
	case err == nil:
		p.lane.update(&sub)
	case !errors.Is(err, queue.ErrNotFound):
		p.lane.log.Warn("subscription whose endpoint is gone was not disabled", "error", err)
	}
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	p.lane.gone = false
	p.lane.look()
}

const goneReason = "the endpoint answered 410 Gone"
