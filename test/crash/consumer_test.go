package crash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/test/recorder"
)

// consumer leases and does with its leases whatever a consumer may do, right
// and wrong.
type consumer struct {
	name   string
	rnd    *rand.Rand
	client *client
	run    *run
	// careful consumers never let a lease lapse.
	careful bool
}

// held is one lease of a consumer.
type held struct {
	receipt string
	item    recorder.Item
	ttl     time.Duration
}

// work leases until the context ends; from the drain on it only completes.
func (c *consumer) work(ctx context.Context) {
	for ctx.Err() == nil {
		leases := c.lease(ctx)
		if len(leases) == 0 {
			continue
		}
		if c.run.draining.Load() {
			c.finish(ctx, leases)
			continue
		}
		c.choose(ctx, leases)
	}
}

// lease asks for a few items.
func (c *consumer) lease(ctx context.Context) []held {
	ttl := time.Duration(1+c.rnd.IntN(2)) * time.Second
	if c.careful {
		ttl = 30 * time.Second
	}
	op := c.run.history.Invoke(c.name, recorder.Lease, pullQueue)
	var reply leaseReply
	phase, err := c.client.call(ctx, "queue.lease", leaseRequest{
		QueueName: pullQueue, BatchSize: 1 + c.rnd.IntN(10), ClientID: c.name,
		RequestTimeout: "500ms", LeaseTimeout: ttl.String(),
	}, &reply)
	var leases []held
	var told []recorder.Item
	for _, it := range reply.Items {
		receipt, err := queue.ParseReceipt(it.Receipt)
		if err != nil || receipt.Key.ID.String() != it.ItemID {
			c.run.odd("lease of %s with the receipt %s: %v", it.ItemID, it.Receipt, err)
		}
		item := recorder.Item{
			ID: it.ItemID, Payload: recorder.Hash(it.Bytes), Counter: receipt.Token.Counter, Delivery: it.Attempts,
			Granted: it.LeaseDeadline.Add(-ttl).UnixMicro(), Deadline: it.LeaseDeadline.UnixMicro(),
		}
		told = append(told, item)
		leases = append(leases, held{receipt: it.Receipt, item: item, ttl: ttl})
	}
	c.run.end(c.name, recorder.Lease, pullQueue, op, phase, err, told...)
	c.run.leased.Add(int64(len(leases)))
	return leases
}

// choose ends leases in one of the ways there are.
func (c *consumer) choose(ctx context.Context, leases []held) {
	pause(ctx, time.Duration(c.rnd.IntN(8))*time.Millisecond)
	dice := c.rnd.IntN(100)
	if c.careful {
		// The rest lets leases lapse, or settles them after they did.
		dice = c.rnd.IntN(88)
	}
	switch {
	case dice < 55:
		c.finish(ctx, leases)
	case dice < 65:
		delay := time.Duration(200+c.rnd.IntN(400)) * time.Millisecond
		c.settle(ctx, recorder.Retry, leases, delay)
	case dice < 70:
		var delay time.Duration
		if c.rnd.IntN(2) == 0 {
			delay = 300 * time.Millisecond
		}
		c.settle(ctx, recorder.Release, leases, delay)
	case dice < 76:
		// Given back, and completed all the same, with receipts that others may have
		// newer ones for by now. One by one, since one refusal would save the rest.
		c.settle(ctx, recorder.Release, leases, 0)
		for _, l := range leases {
			c.settle(ctx, recorder.Complete, []held{l}, 0)
		}
	case dice < 82:
		for _, l := range leases {
			c.extend(ctx, l)
			c.finish(ctx, []held{l})
		}
	case dice < 85:
		c.settle(ctx, recorder.Bury, leases[:1], 0)
		c.finish(ctx, leases[1:])
	case dice < 88:
		// Twice: the repeat has to be refused, unless the first was not done.
		c.settle(ctx, recorder.Complete, leases, 0)
		c.settle(ctx, recorder.Complete, leases, 0)
	case dice < 94:
		// Too late, perhaps: somebody else may have the item by now.
		pause(ctx, leases[0].ttl+time.Duration(c.rnd.IntN(300))*time.Millisecond)
		c.finish(ctx, leases)
	default:
		// Forgotten: the leases lapse.
	}
}

// finish completes in one call, and one by one where that was refused for one of
// them or its outcome is not known.
func (c *consumer) finish(ctx context.Context, leases []held) {
	if len(leases) == 0 || c.settle(ctx, recorder.Complete, leases, 0) {
		return
	}
	for _, l := range leases {
		c.settle(ctx, recorder.Complete, []held{l}, 0)
	}
}

// settle ends leases and says whether that is certain. A careful consumer asks
// until it gets an answer.
func (c *consumer) settle(ctx context.Context, verb recorder.Verb, leases []held, delay time.Duration) bool {
	for {
		phase, err := c.settleOnce(ctx, verb, leases, delay)
		if phase == recorder.OK || errors.Is(err, errConflict) || !c.careful || ctx.Err() != nil {
			return phase == recorder.OK
		}
	}
}

// settleOnce makes one call and returns what is known of it.
func (c *consumer) settleOnce(ctx context.Context, verb recorder.Verb, leases []held, delay time.Duration) (recorder.Phase, error) {
	request := settleRequest{QueueName: pullQueue}
	var asked []recorder.Item
	for _, l := range leases {
		asked = append(asked, recorder.Item{ID: l.item.ID, Counter: l.item.Counter, Delay: delay.Nanoseconds()})
		if verb == recorder.Retry {
			request.Items = append(request.Items, retryItem{ID: l.receipt, Delay: delay.String()})
			continue
		}
		request.Receipts = append(request.Receipts, l.receipt)
	}
	switch {
	case verb == recorder.Bury:
		request.Reason = "asked for by " + c.name
	case verb == recorder.Release && delay > 0:
		request.Delay = delay.String()
	}
	op := c.run.history.Invoke(c.name, verb, pullQueue, asked...)
	phase, err := c.client.call(ctx, "queue."+string(verb), request, &answer{})
	c.run.end(c.name, verb, pullQueue, op, phase, err)
	if phase == recorder.OK {
		c.run.settled.Add(int64(len(leases)))
	}
	return phase, err
}

// extend moves one deadline.
func (c *consumer) extend(ctx context.Context, l held) {
	op := c.run.history.Invoke(c.name, recorder.Extend, pullQueue,
		recorder.Item{ID: l.item.ID, Counter: l.item.Counter})
	var reply extendReply
	phase, err := c.client.call(ctx, "queue.extend", settleRequest{
		QueueName: pullQueue, Receipts: []string{l.receipt}, LeaseTimeout: "2s",
	}, &reply)
	var told []recorder.Item
	switch {
	case phase != recorder.OK:
	case len(reply.Results) != 1:
		phase, err = recorder.Unknown, fmt.Errorf("%w: extend answered %d results", errOdd, len(reply.Results))
	case reply.Results[0].Status != "ok":
		// Extend answers 200 also where it refuses an entry.
		phase = recorder.Fail
	default:
		told = append(told, recorder.Item{Deadline: reply.Results[0].LeaseDeadline.UnixMicro()})
	}
	c.run.end(c.name, recorder.Extend, pullQueue, op, phase, err, told...)
}
