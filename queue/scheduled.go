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
// queue or topic is not deleted until [Prepared.Release].
type Prepared struct {
	Items []NewItem
	b     *Broker
	queue *knownQueue
}

// Prepare makes the items of a schedule for its queue, which may be paused for producers, or
// for a topic as it is now. Whoever gets them calls Release once. Where the store says that
// they were overtaken, they are to be prepared again.
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
	q, err := b.pin(ctx, func() (*knownQueue, error) {
		q, err := b.known.either(ctx, ns, queue)
		if err == nil && q.settings().Topic != nil {
			q, err = b.known.rereadEither(ctx, ns, queue)
		}
		return q, err
	})
	if err != nil {
		return nil, err
	}
	p := &Prepared{Items: newItems(&call, q), b: b, queue: q}
	if err := p.place(ctx); err != nil {
		q.unpin()
		return nil, err
	}
	for i := range items {
		// The space of calls is apart from that of items; and what follows the last stroke
		// there is the place of an item in its call, which is no time.
		p.Items[i].Dedupe = &Dedupe{Scope: q.keyScope(), Call: true, Key: items[i].Key, TTL: KeyTTL}
	}
	return p, nil
}

// place gives the items their places.
func (p *Prepared) place(ctx context.Context) error {
	read := p.queue.latest.Load()
	if read.Topic == nil {
		p.b.place(p.queue, p.Items)
		return nil
	}
	if err := p.b.chooseCopies(ctx, read, p.Items); err != nil {
		return err
	}
	return checkFanOut("items", read.Name, len(p.Items), burdenOfItems(p.Items))
}

// Release lets go of the queue, and wakes it if the items were written. The zero value has
// neither.
func (p *Prepared) Release(written bool) {
	if p.queue == nil {
		return
	}
	p.queue.unpin()
	if !written {
		return
	}
	var wakes wakes
	for i := range p.Items {
		it := &p.Items[i]
		for k := range it.Places() {
			to := it.Place(k)
			p.b.ordered.saw(to.Queue, &it.Content)
			wakes.addParts(to.Queue, 1<<to.Partition)
		}
	}
	p.b.leases.wake(wakes)
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
	_, err := b.known.either(ctx, call.Namespace, call.Queue)
	return err
}
