package dispatcher

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

// kindOfUnnamed is the type of a CloudEvent whose item has no kind: there it must have one.
const kindOfUnnamed = "posthaste.item"

// own says that the item goes to its own target.
func (p *push) own() bool { return p.item.Target != nil }

// url is where the request goes.
func (p *push) url() string {
	if p.own() {
		return p.item.Target.URL
	}
	return p.sub.URL
}

// unfit says why a request cannot be made at all, or returns "".
func (p *push) unfit() string {
	switch {
	case p.own() && !p.sub.AllowTarget:
		return "the item brings its own target, and the subscription does not allow that; set allow_target"
	case !p.own() && p.sub.URL == "":
		return "the item brings no target, and the subscription has no url"
	case p.sub.faulty != nil && !p.own():
		return "auth: " + p.sub.faulty.Error()
	default:
		return ""
	}
}

// timeout is the deadline of the whole attempt.
func (p *push) timeout() time.Duration {
	if p.own() && p.item.Target.Timeout > 0 {
		return p.item.Target.Timeout
	}
	return p.sub.Timeout
}

// request is what is sent. A target of the item's own gets what the item says and a
// signature, and none of what the subscription has for its endpoint: headers and
// credentials would go to whomever a producer names.
func (p *push) request(now time.Time) webhooks.Request {
	it, sub := p.item, p.sub
	req := webhooks.Request{
		ID:      it.ID.String(),
		Tenant:  strconv.FormatUint(uint64(sub.Namespace), 10),
		Secrets: sub.signers(now),
		Timeout: p.timeout(),
		HTTP2:   sub.HTTP2,
		Info:    p.info(),
	}
	req.URL = p.url()
	attributes, headers := webhooks.SplitHeaders(it.Headers)
	if p.own() {
		req.Method, req.Headers = it.Target.Method, headers
	} else {
		req.Method, req.Headers = sub.Method, layOver(sub.headers, headers)
		req.Credentials = sub.credentials
	}
	if sub.Batch.On() {
		p.addBatch(&req)
		return req
	}
	req.ContentType, req.Body = it.Encoding, it.Payload
	if sub.Format == subscriptions.FormatCloudEvents {
		req.CloudEvent = p.event(attributes)
	}
	return req
}

// event is the event that the item was when it came, or one that is made of it.
func (p *push) event(attributes map[string]string) *webhooks.CloudEvent {
	it := p.item
	kind := cmp.Or(it.Kind, kindOfUnnamed)
	if attributes != nil {
		e := webhooks.NewCloudEvent(attributes)
		e.Type = kind
		return e
	}
	return &webhooks.CloudEvent{
		Source: "/queues/" + p.sub.Queue, Type: kind, Subject: it.Reference, Time: it.CreatedAt,
	}
}

// info is what the endpoint is told beside the body.
func (p *push) info() webhooks.Info {
	it, sub := p.item, p.sub
	info := webhooks.Info{
		Queue: sub.Queue, Subscription: sub.Name,
		Kind: it.Kind, Reference: it.Reference,
		Attempt: it.Deliveries, MaxAttempts: p.maxAttempts(it),
		EnqueuedAt: it.CreatedAt,
		Hop:        it.Hop, Traceparent: it.Trace,
	}
	if sub.Batch.On() {
		// What is different from item to item stands in the body.
		return webhooks.Info{Queue: sub.Queue, Subscription: sub.Name, Hop: p.hops()}
	}
	if it.Deliveries > 1 {
		// The class opens the text of the error.
		info.RetryReason, _, _ = strings.Cut(it.Last.Error, ":")
		info.PreviousStatus = it.Last.Status
	}
	if sub.Defer.Allowed && !p.trial {
		info.Receipt = p.receipt(it).String()
		// By the store's clock, from when the lease began: the endpoint has at least so long.
		info.LeaseDeadline = p.leasedAt.Add(sub.Defer.Timeout)
	}
	return info
}

// receipt proves the lease of an item. It says what has to be known when somebody else
// settles with it.
func (p *push) receipt(it *queue.Item) queue.Receipt {
	r := it.Receipt()
	r.Notify = r.Notify || p.sub.OnDone != ""
	r.Pushed = true
	return r
}

// hops is the highest count of the items.
func (p *push) hops() (n int32) {
	for _, it := range p.items {
		n = max(n, it.Hop)
	}
	return n
}

// maxAttempts is the limit that the endpoint is told, 0 for none.
func (p *push) maxAttempts(it *queue.Item) int32 {
	switch {
	case it.Dead != nil:
		return 0
	case it.MaxAttempts != 0:
		return max(it.MaxAttempts, 0)
	default:
		return max(p.sub.Retry.MaxAttempts, 0)
	}
}
