package queue

import "context"

// ScheduledItem is what a schedule produces at one of its times. Key makes it the only one
// for that time, as long as idempotency keys are known.
type ScheduledItem struct {
	ProduceItem
	// Key is 1 to 255 visible ASCII characters.
	Key string
}

// Prepared are items that somebody else writes, together with a document of theirs. Their
// queue is not deleted until [Prepared.Release].
type Prepared struct {
	Items []NewItem
	b     *Broker
	queue *knownQueue
}

// Prepare makes the items of a schedule for its queue, which may be paused for producers.
// Whoever gets them calls Release once.
//
// Errors are those of [Broker.Produce], but for the ones of the store's Produce.
func (b *Broker) Prepare(ctx context.Context, ns Namespace, queue string, items []ScheduledItem) (*Prepared, error) {
	call := ProduceCall{Namespace: ns, Queue: queue, Items: make([]ProduceItem, len(items))}
	for i := range items {
		call.Items[i] = items[i].ProduceItem
	}
	if err := b.CheckProduce(ctx, call); err != nil {
		return nil, err
	}
	q, err := b.pin(ctx, func() (*knownQueue, error) { return b.known.named(ctx, ns, queue) })
	if err != nil {
		return nil, err
	}
	p := &Prepared{Items: newItems(&call, q), b: b, queue: q}
	b.place(q, p.Items)
	for i := range items {
		// The space of calls is apart from that of items; and what follows the last stroke
		// there is the place of an item in its call, which is no time.
		p.Items[i].Dedupe = &Dedupe{Scope: q.number, Call: true, Key: items[i].Key, TTL: KeyTTL}
	}
	return p, nil
}

// Release lets go of the queue, and wakes it if the items were written. The zero value has
// neither.
func (p *Prepared) Release(written bool) {
	if p.queue == nil {
		return
	}
	p.queue.unpin()
	if written {
		p.b.Wake(p.queue.number)
	}
}

// CheckProduce judges a call as [Broker.Produce] does, and produces nothing.
func (b *Broker) CheckProduce(ctx context.Context, call ProduceCall) error {
	if _, err := b.checkProduce(&call); err != nil {
		return err
	}
	content := func(i int) *Content { return &call.Items[i].Content }
	if err := b.checkWays(ctx, call.Namespace, call.Queue, len(call.Items), content); err != nil {
		return err
	}
	_, err := b.known.named(ctx, call.Namespace, call.Queue)
	return err
}
