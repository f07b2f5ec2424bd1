package client

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	v1 "github.com/posthaste-io/posthaste/api/v1"
)

// Item is what a producer puts on a queue.
type Item struct {
	// Kind says what it is, such as order.paid: workers choose by it.
	Kind string
	// Encoding is the payload's media type; a push sends it as Content-Type.
	Encoding string
	// Reference is the producer's own note, such as an order's number.
	Reference string
	// Payload is at most 1,000,000 bytes, and not looked into.
	Payload []byte
	// Headers are sent with a push.
	Headers map[string]string
	// EnqueueAt or Delay say when it is due, up to 10 years ahead; at most one of them.
	EnqueueAt time.Time
	Delay     time.Duration
	// IdempotencyKey, 1 to 255 visible ASCII characters, makes a second item with it no
	// item, for 24 hours and on this queue: name what happened, such as order-17-paid.
	IdempotencyKey string
	// MaxAttempts is the item's own limit; 0 takes the queue's or the subscription's,
	// -1 is none.
	MaxAttempts int
	// ExpireTimeout, from when it is first due, ends in the dead-letter queue; 0 takes
	// the queue's.
	ExpireTimeout time.Duration
	// Target is the item's own endpoint, on a queue whose subscription has AllowTarget.
	Target *Target
	// OnDone is the queue or topic that is told how the item ends, by a [Done]; empty takes the
	// subscription's.
	OnDone string
	// OrderingKey: items of a queue that share it are given out strictly one after the other,
	// in the order in which they were produced.
	OrderingKey string
}

// Target is an endpoint that an item brings along.
type Target struct {
	URL string
	// Method is POST, PUT, PATCH, DELETE or GET; empty is POST.
	Method string
	// Timeout bounds one attempt, 1 s to 30 min; 0 takes the subscription's.
	Timeout time.Duration
}

// JSON returns an item with v as its payload.
func JSON(kind string, v any) (Item, error) {
	payload, err := json.Marshal(v)
	if err != nil {
		return Item{}, fmt.Errorf("posthaste: item of kind %s: %w", kind, err)
	}
	return Item{Kind: kind, Encoding: "application/json", Payload: payload}, nil
}

// Produced is an item that is kept.
type Produced struct {
	ItemID string
	// Duplicate says that its idempotency key was known: ItemID is the first item's.
	Duplicate bool
	// Copies is how many queues have a copy of an item that was produced to a topic, which
	// may be none; nil for a queue, and for a duplicate.
	Copies *int
}

// Produce puts items on a queue or a topic, all of them or none, and returns once they are kept:
// on disk, unless the server keeps them in memory. At most 1,000 items and 5 MB a call.
//
// A repeat that the client makes by itself puts nothing on the queue twice: the call
// carries a key. A repeat of yours does that only for items with an IdempotencyKey.
func (c *Client) Produce(ctx context.Context, queue string, items ...Item) ([]Produced, error) {
	q := &v1.ProduceRequest{QueueName: queue, Items: make([]*v1.Produce, len(items))}
	for i := range items {
		q.Items[i] = items[i].wire()
	}
	p := new(v1.ProduceReply)
	if err := c.call(ctx, "queue.produce", q, p, "Idempotency-Key", uuid.NewString()); err != nil {
		return nil, err
	}
	if len(p.GetItems()) != len(items) {
		return nil, &Error{Method: "queue.produce", Message: fmt.Sprintf("the answer names %d items, want %d", len(p.GetItems()), len(items)), Uncertain: true}
	}
	return producedOf(p), nil
}

func (it *Item) wire() *v1.Produce {
	p := &v1.Produce{
		Kind: it.Kind, Encoding: it.Encoding, Reference: it.Reference, Bytes: it.Payload, Headers: it.Headers,
		EnqueueAt: stamp(it.EnqueueAt), Delay: text(it.Delay), IdempotencyKey: it.IdempotencyKey,
		MaxAttempts: count(it.MaxAttempts), ExpireTimeout: text(it.ExpireTimeout),
		Target: it.Target.wire(), OnDone: it.OnDone, OrderingKey: it.OrderingKey,
	}
	if p.Bytes == nil {
		p.Bytes = []byte{}
	}
	return p
}

func (t *Target) wire() *v1.Target {
	if t == nil {
		return nil
	}
	return &v1.Target{Url: t.URL, Method: t.Method, Timeout: text(t.Timeout)}
}

func targetOf(t *v1.Target) *Target {
	if t == nil {
		return nil
	}
	return &Target{URL: t.GetUrl(), Method: t.GetMethod(), Timeout: span(t.GetTimeout())}
}

func producedOf(p *v1.ProduceReply) []Produced {
	out := make([]Produced, len(p.GetItems()))
	for i, it := range p.GetItems() {
		out[i] = Produced{ItemID: it.GetItemId(), Duplicate: it.GetDuplicate()}
		if it.Copies != nil {
			out[i].Copies = new(int(it.GetCopies()))
		}
	}
	return out
}

// RawItem is a request of somebody else's that becomes an item as it is.
type RawItem struct {
	Body        []byte
	ContentType string
	// Forward are headers that a push sends along.
	Forward        map[string]string
	Kind           string
	Delay          time.Duration
	EnqueueAt      time.Time
	IdempotencyKey string
	OrderingKey    string
}

// ProduceRaw puts one item on a queue by the call that curl and third parties use. An
// item without an IdempotencyKey gets one, so that the client's own repeats add nothing.
func (c *Client) ProduceRaw(ctx context.Context, queue string, it RawItem) (Produced, error) {
	h := http.Header{}
	for name, value := range it.Forward {
		h.Set("Posthaste-Forward-"+name, value)
	}
	attributes := map[string]string{
		"Content-Type": it.ContentType, "Posthaste-Kind": it.Kind, "Posthaste-Delay": text(it.Delay),
		"Idempotency-Key": it.IdempotencyKey, "Posthaste-Ordering-Key": it.OrderingKey,
	}
	if !it.EnqueueAt.IsZero() {
		attributes["Posthaste-Enqueue-At"] = it.EnqueueAt.UTC().Format(time.RFC3339Nano)
	}
	if it.IdempotencyKey == "" {
		attributes["Idempotency-Key"] = uuid.NewString()
	}
	for name, value := range maps.All(attributes) {
		if value != "" {
			h.Set(name, value)
		}
	}
	p := new(v1.ProduceReply)
	if err := c.post(ctx, "produce", "produce/"+url.PathEscape(queue), h, it.Body, p); err != nil {
		return Produced{}, err
	}
	if len(p.GetItems()) != 1 {
		return Produced{}, &Error{Method: "produce", Message: fmt.Sprintf("the answer names %d items, want 1", len(p.GetItems())), Uncertain: true}
	}
	return producedOf(p)[0], nil
}
