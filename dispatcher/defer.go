package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/webhooks"
)

// recount is how old the count of deferred items may be when the next request depends on it.
const recount = time.Second

// handOver hands the lease over to the endpoint, which answered that it finishes later: until
// the subscription's timeout it may settle with the receipt that it got. A lapse then
// counts as an attempt, since it had its chance.
//
// An endpoint that was quicker than its own answer has settled the item already. That is
// no error.
func (d *Dispatcher) handOver(p *push, res *webhooks.Result) error {
	entry := queue.ExtendEntry{
		Receipt: p.item.Receipt(), TTL: p.sub.Defer.Timeout,
		Handover: &queue.Handover{Owner: "endpoint of " + p.sub.Name, LapseCounts: true},
	}
	if p.sub.logs(webhooks.Deferred) {
		entry.Handover.Record = p.record(res, d.owner)
	}
	for wait := settleRetryMin; ; wait = min(2*wait, settleRetryMax) {
		extended, err := d.broker.Extend(d.closing, p.lane.key.Namespace, "", []queue.ExtendEntry{entry})
		switch {
		case err == nil && extended[0].Status == queue.Applied:
			return nil
		case err == nil:
			p.lane.notKept()
			return nil
		case !mayPass(err) || p.lapsed() || !d.rest(wait):
			p.lane.notKept()
			return err
		}
	}
}

// notKept takes back what was counted of an item that the endpoint said it keeps.
func (l *lane) notKept() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keptSince > 0 {
		l.keptSince--
		l.deferred--
	}
}

// deferralsFull says that the endpoint keeps as many items as it may, or would if all
// requests that run were answered so; and when to look again. l.mu is held.
func (l *lane) deferralsFull() (full bool, until time.Time) {
	if !l.sub.Defer.Allowed || l.deferralRoom() > 0 {
		return false, time.Time{}
	}
	if l.deferred == 0 {
		return true, time.Time{} // when one of those that run ends
	}
	return true, l.countedAt.Add(recount)
}

// deferralRoom is how many requests may start for what the endpoint may keep: of what was
// left when it was counted this node's part, less what came since and what runs. l.mu is held.
func (l *lane) deferralRoom() int {
	counted := l.deferred - l.keptSince
	left := max(0, l.sub.Defer.Max-counted)
	return l.d.peers.share(left, l.key.Name) - l.keptSince - l.running
}

// countDeferred counts what the endpoint keeps, since it finishes without us. What is held
// in the queue and not by this lane is with the endpoint, or with another node: it is rather
// too many than too few.
func (l *lane) countDeferred(ctx context.Context) {
	l.mu.Lock()
	// The first time, too: before this process there may have been another.
	due := l.sub.Defer.Allowed && (l.deferred > 0 || l.countedAt.IsZero()) && time.Since(l.countedAt) >= recount
	l.mu.Unlock()
	if !due {
		return
	}
	stats, err := l.d.broker.Stats(ctx, l.key.Namespace, l.queueName())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countedAt = time.Now() // after an error, too, lest it be asked all the time
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			l.logger().Debug("deferred items not counted", "error", err)
		}
		return
	}
	held := 0
	for _, part := range stats.Stats {
		held += part.Held
	}
	l.deferred, l.keptSince = max(0, held-l.running-len(l.ahead.items)), 0
}
