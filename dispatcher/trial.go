package dispatcher

import (
	"context"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// maxTrials bounds the samples that are sent at one time.
const maxTrials = 16

// The sample of who brings none.
const (
	sampleKind     = "posthaste.test"
	sampleEncoding = "application/json"
	samplePayload  = `{"test":true}`
)

// Test sends an item to a subscription's endpoint, whatever state that is in, and returns
// what came of it as the attempt log would have it; with nil, a sample of ours. Nothing is
// queued, settled, counted or kept, and neither window nor breaker learns of it. A batch has
// the item alone, and nobody may keep it to finish later.
//
// It ends with ctx. Errors: [queue.ErrNotFound]; [queue.OverloadedError], while many are on
// their way; those of the store. A request that failed is none.
func (d *Dispatcher) Test(ctx context.Context, ns queue.Namespace, name string, content *queue.Content) (queue.Record, error) {
	sub, err := d.subs.Get(ctx, ns, name)
	if err != nil {
		return queue.Record{}, err
	}
	if sub.Pulls() {
		return queue.Record{}, queue.Invalid("name", "is a subscription without a url, whose queue is for consumers that lease: there is nothing to test")
	}
	if content == nil {
		content = &queue.Content{Kind: sampleKind, Encoding: sampleEncoding, Payload: []byte(samplePayload)}
	}
	select {
	case d.trials <- struct{}{}:
		defer func() { <-d.trials }()
	default:
		return queue.Record{}, &queue.OverloadedError{What: "tests of subscriptions", Reason: "tests", RetryAfter: time.Second}
	}
	now := time.Now()
	p := &push{sub: d.newRevision(&sub, d.revisionOf(&sub)), trial: true, leasedAt: now, received: now, started: now}
	p.item = &queue.Item{
		Key: queue.Key{ID: queue.NewID()}, Content: *content,
		CreatedAt: now, FirstDueAt: now, Deliveries: 1,
	}
	p.one[0] = p.item
	p.items = p.one[:]
	res := d.send(ctx, p, "")
	if sub.Batch.On() {
		res = perItem(&res, p.items)[0]
	}
	record := p.record(&res, d.owner)
	record.At, record.Key, record.Delivery = time.Now(), p.item.Key, 1
	return *record, nil
}

// revisionOf is the one that the subscription's lane has, nil if there is none.
func (d *Dispatcher) revisionOf(sub *subscriptions.Subscription) *revision {
	d.mu.Lock()
	l := d.lanes[sub.Key()]
	d.mu.Unlock()
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sub
}
