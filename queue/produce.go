package queue

import (
	"context"
	"fmt"
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

// Produce puts items on a queue and returns when they are kept: durably, if the
// store is durable. All of the call's, or none; the answer has their order. An item
// whose idempotency key is known for the same content is answered with the first
// one's id.
//
// Errors: [InvalidError] and [TooLargeError], with the item's path as the wire has
// it; [ErrNotFound]; [ErrMismatch], as [*MismatchError]; [ErrNotSupported];
// [OverloadedError]; [ErrShuttingDown]; those of [Store]. After [ErrUnknownOutcome]
// a repeat is safe for items with an idempotency key.
func (b *Broker) Produce(ctx context.Context, call ProduceCall) ([]Produced, error) {
	size, err := b.checkProduce(&call)
	if err != nil {
		return nil, err
	}
	q, err := b.pin(ctx, func() (*knownQueue, error) {
		return b.known.named(ctx, call.Namespace, call.Queue)
	})
	if err != nil {
		return nil, err
	}
	// From here on the batcher unpins it.
	req := produceRequest{queue: q, group: ProduceGroup{Items: newItems(&call, q)}}
	result, err := b.produces.do(ctx, req, len(call.Items), size)
	if err == nil {
		err = result.Err
	}
	if err != nil {
		return nil, fmt.Errorf("produce to %s: %w", call.Queue, err)
	}
	return result.Items, nil
}

// checkProduce judges what the producer says, and returns the size of it all.
func (b *Broker) checkProduce(call *ProduceCall) (size int, err error) {
	switch n := len(call.Items); {
	case n == 0:
		return 0, Invalid("items", "is empty; want 1 to %d items", DefaultMaxItems)
	case n > DefaultMaxItems:
		return 0, &TooLargeError{Field: "items", Limit: DefaultMaxItems, Unit: "items"}
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
	if len(it.Payload) > b.opts.MaxPayload {
		return &TooLargeError{Field: "bytes", Limit: b.opts.MaxPayload, Unit: "bytes"}
	}
	for _, label := range [...]struct{ field, text string }{
		{"kind", it.Kind},
		{"encoding", it.Encoding},
		{"reference", it.Reference},
		{"source_id", it.SourceID},
		{"traceparent", it.Trace},
	} {
		if err := checkLabel(label.field, label.text); err != nil {
			return err
		}
	}
	switch {
	case it.OrderingKey != "":
		return unsupported("ordering_key")
	case it.Target != nil:
		return unsupported("target")
	case it.OnDone != "":
		return unsupported("on_done")
	case it.Hop < 0 || it.Hop >= MaxHop:
		return Invalid("hop", "is %d: the item comes from a loop of pushes; want 0 to %d", it.Hop, MaxHop-1)
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
	if err := checkKey(it.IdempotencyKey); err != nil {
		return err
	}
	return checkHeaders(it.Headers)
}

func unsupported(field string) error {
	return &UnsupportedError{What: "field " + field, Field: field}
}

func checkKey(key string) error {
	if len(key) > MaxIdempotencyKey {
		return Invalid("idempotency_key", "is longer than %d characters", MaxIdempotencyKey)
	}
	for i := 0; i < len(key); i++ {
		if key[i] <= ' ' || key[i] > '~' {
			return Invalid("idempotency_key", "has the byte 0x%02x at %d; want visible ASCII", key[i], i)
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

func newItems(call *ProduceCall, q *knownQueue) []NewItem {
	s := q.settings()
	items := make([]NewItem, len(call.Items))
	for i := range call.Items {
		it := &call.Items[i]
		items[i] = NewItem{
			Content: it.Content, ID: NewID(), Queue: q.number,
			DueAt: it.DueAt, Delay: it.Delay, ExpireTTL: it.ExpireTTL, MaxAttempts: it.MaxAttempts,
		}
		if items[i].ExpireTTL == 0 {
			items[i].ExpireTTL = s.ExpireTTL
		}
		if it.IdempotencyKey != "" {
			items[i].Dedupe = &Dedupe{Scope: q.number, Key: it.IdempotencyKey, Hash: hashOf(it), TTL: KeyTTL}
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
		for _, p := range answer.Groups[i].Items {
			switch {
			case p.Duplicate:
			case p.DueAt.After(answer.Now):
				b.onDue(r.queue.number, p.DueAt)
			default:
				wakes.add(r.queue.number)
			}
		}
	}
	b.Wake(wakes...)
	return answer.Groups, nil
}
