package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Bounds of an item's attributes.
const (
	// MaxIdempotencyKey bounds a key, in characters of visible ASCII.
	MaxIdempotencyKey = 255
	// MaxHeaderBytes bounds the names and values of an item's headers together.
	MaxHeaderBytes = 16 << 10
	// MaxHop is the first count of pushes that led to an item at which it is refused,
	// so that a loop ends.
	MaxHop = 5
	// KeyTTL is how long an idempotency key is known, from its produce on.
	KeyTTL = 24 * time.Hour
)

// produceRequest is one caller's call, and the queue that it pins.
type produceRequest struct {
	group ProduceGroup
	queue *knownQueue
}

// Produce puts items on a queue, or copies them into the queues of a topic's
// subscriptions, and returns when they are kept: durably, if the store is durable. All of
// the call's, or none; the answer has their order. An item whose idempotency key is known for the same content is answered with the first
// one's id.
//
// Errors: [InvalidError] and [TooLargeError], with the item's path as the wire has
// it; [FanOutError]; [ErrNotFound]; [ErrPaused]; [ErrMismatch], as [*MismatchError];
// [ErrNotSupported]; [OverloadedError]; [ErrShuttingDown]; those of [Store]. After
// [ErrUnknownOutcome] a repeat is safe for items with an idempotency key, and with one
// of the call for all of them.
func (b *Broker) Produce(ctx context.Context, call ProduceCall) ([]Produced, error) {
	size, err := b.checkProduce(&call)
	if err != nil {
		return nil, err
	}
	content := func(i int) *Content { return &call.Items[i].Content }
	if err := b.checkWays(ctx, call.Namespace, call.Queue, len(call.Items), content); err != nil {
		return nil, err
	}
	to, err := b.known.either(ctx, call.Namespace, call.Queue)
	if err != nil {
		return nil, err
	}
	if to.settings().Topic != nil {
		return b.fanOut(ctx, &call)
	}
	q, err := b.pinOpen(ctx, call.Namespace, call.Queue)
	if errors.As(err, new(*TopicError)) {
		return b.fanOut(ctx, &call) // the queue was deleted just now, and its name used anew
	}
	if err != nil {
		return nil, err
	}
	group := ProduceGroup{Items: newItems(&call, q)}
	b.place(q, group.Items)
	produced, err := b.admit(ctx, q, group, burden{entries: len(call.Items), bytes: size})
	if err != nil {
		return nil, fmt.Errorf("produce to %s: %w", call.Queue, err)
	}
	return produced, nil
}

// pinOpen pins a queue to which callers may add items now, until leaveOpen.
func (b *Broker) pinOpen(ctx context.Context, ns Namespace, name string) (*knownQueue, error) {
	q, err := b.pin(ctx, func() (*knownQueue, error) { return b.known.named(ctx, ns, name) })
	if err != nil {
		return nil, err
	}
	q.enterOpen()
	// Asked only now: a pause first says so, and then waits for those who have entered.
	if q.isPaused(PausedProduce) {
		q.leaveOpen()
		return nil, fmt.Errorf("queue %s: %w", name, ErrPaused)
	}
	return q, nil
}

// admit has the store keep a group, all or none, and lets go of its queue or topic.
func (b *Broker) admit(ctx context.Context, q *knownQueue, group ProduceGroup, of burden) ([]Produced, error) {
	of.queue = q.number
	result, err := b.produces.do(ctx, of, produceRequest{queue: q, group: group}) // the batcher lets go of it
	if err == nil {
		err = result.Err
	}
	return result.Items, err
}

// checkProduce judges what the producer says, and returns the size of it all.
func (b *Broker) checkProduce(call *ProduceCall) (size int, err error) {
	switch n := len(call.Items); {
	case n == 0:
		return 0, Invalid("items", "is empty; want 1 to %d items", DefaultMaxItems)
	case n > DefaultMaxItems:
		return 0, &TooLargeError{Field: "items", Limit: DefaultMaxItems, Unit: "items"}
	}
	if err := checkKey("Idempotency-Key", call.Key); err != nil {
		return 0, err
	}
	for i := range call.Items {
		it := &call.Items[i]
		if err := b.checkItem(it); err != nil {
			return 0, atEntry("items", i, err)
		}
		size += it.Size()
	}
	if size > b.opts.MaxCallBytes {
		return 0, &TooLargeError{Field: "items", Limit: b.opts.MaxCallBytes, Unit: "bytes"}
	}
	return size, nil
}

func (b *Broker) checkItem(it *ProduceItem) error {
	if err := b.checkContent(&it.Content, "bytes", "source_id"); err != nil {
		return err
	}
	switch {
	case it.MaxAttempts < -1:
		return Invalid("max_attempts", "is %d; want -1 for no limit, 0 for the queue's, or more", it.MaxAttempts)
	case it.ExpireTTL < 0:
		return Invalid("expire_timeout", "is negative")
	case it.ExpireTTL > maxAhead:
		return Invalid("expire_timeout", "is more than 10 years")
	}
	if err := checkDue("enqueue_at", "delay", it.DueAt, it.Delay); err != nil {
		return err
	}
	return checkKey("idempotency_key", it.IdempotencyKey)
}

// checkContent judges an item's content. The two messages that have one spell its
// payload and its source id in their own ways.
func (b *Broker) checkContent(c *Content, payload, sourceID string) error {
	if len(c.Payload) > b.opts.MaxPayload {
		return &TooLargeError{Field: payload, Limit: b.opts.MaxPayload, Unit: "bytes"}
	}
	for _, label := range [...]struct{ field, text string }{
		{"kind", c.Kind},
		{"encoding", c.Encoding},
		{"reference", c.Reference},
		{"ordering_key", c.OrderingKey},
		{sourceID, c.SourceID},
		{"traceparent", c.Trace},
	} {
		if err := checkLabel(label.field, label.text); err != nil {
			return err
		}
	}
	switch {
	case c.Hop < 0 || c.Hop >= MaxHop:
		return Invalid("hop", "is %d: the item comes from a loop of pushes; want 0 to %d", c.Hop, MaxHop-1)
	}
	return checkHeaders(c.Headers)
}

func checkKey(field, key string) error {
	if len(key) > MaxIdempotencyKey {
		return Invalid(field, "is longer than %d characters", MaxIdempotencyKey)
	}
	for i := 0; i < len(key); i++ {
		if key[i] <= ' ' || key[i] > '~' {
			return Invalid(field, "has the byte 0x%02x at %d; want visible ASCII", key[i], i)
		}
	}
	return nil
}

// checkHeaders judges the size of headers; which of them may be sent is judged by
// who sends them.
func checkHeaders(headers map[string]string) error {
	size := 0
	for name, value := range headers {
		if !isStorable(name) || !isStorable(value) {
			return Invalid("headers", "has one that is not UTF-8 without NUL")
		}
		size += len(name) + len(value)
	}
	if size > MaxHeaderBytes {
		return Invalid("headers", "has more than %d bytes together", MaxHeaderBytes)
	}
	return nil
}

// newItems makes the items of a call on a queue or a topic, which is the scope of their
// keys.
func newItems(call *ProduceCall, q *knownQueue) []NewItem {
	s := q.settings()
	items := make([]NewItem, len(call.Items))
	var whole [32]byte
	if call.Key != "" {
		whole = hashOfCall(call)
	}
	scope := q.keyScope()
	keyed := 0 // by the key of the call
	for i := range call.Items {
		it := &call.Items[i]
		items[i] = NewItem{
			Content: it.Content, ID: NewID(), Queue: q.number,
			DueAt: it.DueAt, Delay: it.Delay, ExpireTTL: it.ExpireTTL, MaxAttempts: it.MaxAttempts,
		}
		if items[i].ExpireTTL == 0 {
			items[i].ExpireTTL = s.ExpireTTL
		}
		switch {
		case it.IdempotencyKey != "":
			items[i].Dedupe = &Dedupe{Scope: scope, Key: it.IdempotencyKey, Hash: hashOf(it), TTL: KeyTTL}
		case call.Key != "":
			items[i].Dedupe = &Dedupe{
				Scope: scope, Call: true, Key: call.Key + "/" + strconv.Itoa(keyed),
				Hash: whole, TTL: KeyTTL,
			}
			keyed++
		}
	}
	return items
}

// storeProduce is the producing batcher's call of the store.
func (b *Broker) storeProduce(ctx context.Context, batch []produceRequest) ([]ProduceResult, error) {
	groups := make([]ProduceGroup, len(batch))
	for i := range batch {
		groups[i] = batch[i].group
	}
	answer, err := b.store.Produce(ctx, groups)
	if err != nil {
		return nil, err
	}
	// Here, not where the caller gets its answer: it may have left.
	var wakes wakes
	for i, r := range batch {
		for j, p := range answer.Groups[i].Items {
			it := &r.group.Items[j]
			for k := 0; k < it.Places() && !p.Duplicate; k++ {
				to := it.Place(k)
				b.ordered.saw(to.Queue, &it.Content)
				switch {
				case p.DueAt.Equal(Forever):
				case p.DueAt.After(answer.Now):
					b.onDue(to.Queue, p.DueAt)
				default:
					wakes.addParts(to.Queue, 1<<to.Partition)
				}
			}
		}
	}
	b.leases.wake(wakes)
	return answer.Groups, nil
}
