package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/webhooks"
)

func (s *Server) queueRoutes() {
	register(s, method[*v1.ProduceRequest, *v1.ProduceReply]{
		name: "queue.produce", bytes: s.limits.ItemCall,
		noun: "queue", target: (*v1.ProduceRequest).GetQueueName, keyed: true,
		also: func(q *v1.ProduceRequest) names { return toldQueues(q.GetItems()) },
		do:   s.produce,
	})
	register(s, method[*v1.LeaseRequest, *v1.LeaseReply]{
		name: "queue.lease", bytes: s.limits.Call, slack: waitSlack,
		noun: "queue", target: (*v1.LeaseRequest).GetQueueName,
		do: s.lease,
	})
	register(s, method[*v1.StatsRequest, *v1.StatsReply]{
		name: "queue.stats", bytes: s.limits.Call,
		noun: "queue", target: (*v1.StatsRequest).GetQueueName,
		do: s.stats,
	})
}

func (s *Server) produce(ctx context.Context, c *call, q *v1.ProduceRequest) (*v1.ProduceReply, error) {
	if err := s.checkCount("items", "items", len(q.GetItems())); err != nil {
		return nil, err
	}
	c.items = len(q.GetItems())
	items := make([]queue.ProduceItem, c.items)
	for i, it := range q.GetItems() {
		if err := readItem(&items[i], i, it); err != nil {
			return nil, err
		}
		items[i].Trace, items[i].Hop = c.trace, c.hop
	}
	produced, err := s.broker.Produce(ctx, queue.ProduceCall{
		Namespace: c.namespace, Queue: q.GetQueueName(), Key: c.key, Items: items,
	})
	if err != nil {
		return nil, c.keyPath(err, items)
	}
	return s.produceReply(http.StatusOK, produced), nil
}

// keyPath names the header where the key of an item that has none of its own is the
// whole call's.
func (c *call) keyPath(err error, items []queue.ProduceItem) error {
	e, ok := errors.AsType[*queue.MismatchError](err)
	if ok && c.key != "" && e.Index < len(items) && items[e.Index].IdempotencyKey == "" {
		return &placedError{err, headerIdempotency}
	}
	return err
}

func (s *Server) produceReply(status int32, produced []queue.Produced) *v1.ProduceReply {
	p := &v1.ProduceReply{
		Code: status, CodeText: "ok", Durable: s.durable,
		Items: make([]*v1.Produced, len(produced)),
	}
	for i, it := range produced {
		p.Items[i] = &v1.Produced{ItemId: it.ID.String(), Duplicate: it.Duplicate}
		if it.Copies != nil {
			p.Items[i].Copies = new(count(*it.Copies))
		}
	}
	return p
}

// readItem takes an item from the wire. What a producer may say is the broker's to
// judge; here is judged what only the wire has: texts of times, and which headers a
// push may carry.
func readItem(to *queue.ProduceItem, i int, it *v1.Produce) (err error) {
	if to.Content, err = readContent(it); err != nil {
		return within(entry("items", i, ""), err)
	}
	to.IdempotencyKey = it.GetIdempotencyKey()
	to.MaxAttempts = it.GetMaxAttempts()
	if at := it.GetEnqueueAt(); at != nil {
		if it.GetDelay() != "" {
			return queue.Invalid(entry("items", i, "delay"), "goes without enqueue_at; give one of them")
		}
		to.DueAt = at.AsTime()
	}
	if text := it.GetDelay(); text != "" {
		if to.Delay, err = parseDuration(entry("items", i, "delay"), text, 0, maxDelay); err != nil {
			return err
		}
	}
	if text := it.GetExpireTimeout(); text != "" {
		to.ExpireTTL, err = parseDuration(entry("items", i, "expire_timeout"), text, time.Millisecond, maxDelay)
	}
	return err
}

// readContent takes what is written once. Its errors have fields of the item.
func readContent(it *v1.Produce) (c queue.Content, err error) {
	c = queue.Content{
		Kind: it.GetKind(), Encoding: it.GetEncoding(), Reference: it.GetReference(),
		Headers: it.GetHeaders(), Payload: it.GetBytes(), OnDone: it.GetOnDone(), OrderingKey: it.GetOrderingKey(),
	}
	if it.Bytes == nil {
		c.Payload = []byte(it.GetUtf8())
	}
	if err := checkItemHeaders(c.Headers); err != nil {
		return c, err
	}
	c.Target, err = readTarget(it.GetTarget())
	return c, err
}

func checkItemHeaders(headers map[string]string) error {
	if len(headers) == 0 {
		return nil
	}
	if err := webhooks.CheckHeaders(headers); err != nil {
		return queue.Invalid("headers", "%v", err)
	}
	return nil
}

// within puts the place of a message before the field of an error about it.
func within(place string, err error) error {
	if e, ok := errors.AsType[*queue.InvalidError](err); ok {
		return &queue.InvalidError{Field: place + "." + e.Field, Reason: e.Reason}
	}
	return err
}

// readTarget reads an item's own endpoint. Which one may be is the broker's to judge.
func readTarget(q *v1.Target) (*queue.Target, error) {
	if q == nil {
		return nil, nil
	}
	target := &queue.Target{URL: q.GetUrl(), Method: q.GetMethod()}
	if text := q.GetTimeout(); text != "" {
		var err error
		if target.Timeout, err = parseDuration("target.timeout", text, 0, forever); err != nil {
			return nil, err
		}
	}
	return target, nil
}

// shownTarget writes what readTarget reads.
func shownTarget(t *queue.Target) *v1.Target {
	if t == nil {
		return nil
	}
	m := &v1.Target{Url: t.URL, Method: t.Method}
	if t.Timeout > 0 {
		m.Timeout = formatDuration(t.Timeout)
	}
	return m
}

// toldQueues are the queues that are told how items end, each once.
func toldQueues[I interface{ GetOnDone() string }](items []I) (told names) {
	known := make(map[string]bool)
	for i, it := range items {
		if name := it.GetOnDone(); name != "" && !known[name] {
			known[name] = true
			told = append(told, ifNamed(entry("items", i, "on_done"), name)...)
		}
	}
	return told
}

// rawProduce is what [exchange.produceRaw] is called in logs and to those who know who
// may do what.
const rawProduce = "produce"

// produceRaw takes a body of any type as one item, with its attributes in headers, or what
// CloudEvents are in it.
func (x *exchange) produceRaw() {
	if err := x.serveRaw(); err != nil {
		x.fail(rawPath(err))
	}
}

func (x *exchange) serveRaw() error {
	s := x.s
	// The Content-Type is the item's, and says nothing about what its producer reads.
	x.codec = replyCodec(x.r.Header.Values("Accept"), messageJSON)
	principal, err := x.admit()
	if err != nil {
		return err
	}
	// Only now, for it goes into the log: a stranger's path may hold anything, also a key.
	x.noun = "queue"
	if x.name, err = url.PathUnescape(chi.URLParam(x.r, "queue")); err != nil {
		return queue.Invalid("queue", "%v", err)
	}
	if err := queue.CheckReference("queue", x.name); err != nil {
		return err
	}
	if err := s.access.Allow(principal, x.method, x.name); err != nil {
		return err
	}
	info, err := readHeaders(x.r.Header, true)
	if err != nil {
		return err
	}
	info.trace = x.traceOf(info)
	mode, err := eventModeOf(x.r.Header)
	if err != nil {
		return err
	}
	item, err := rawItem(info, x.r.Header)
	if err != nil {
		return err
	}
	// Not a pooled buffer: the store gets its bytes as the payload.
	var body bytes.Buffer
	reserved, err := x.readBody(&body, mode.bodyLimit(&s.limits))
	if err != nil {
		return err
	}
	defer s.bodies.give(reserved)
	call, err := s.rawCall(mode, item, x.r.Header, body.Bytes())
	if err != nil {
		return err
	}
	call.Namespace, call.Queue = principal.Namespace, x.name
	x.items = len(call.Items)

	ctx, cancel := context.WithTimeout(x.r.Context(), defaultRequestTimeout)
	defer cancel()
	produced, err := s.broker.Produce(ctx, call)
	if err != nil {
		return mode.path(err, info.key != "")
	}
	status := http.StatusOK
	for _, p := range produced {
		if !p.Duplicate {
			status = http.StatusCreated
		}
	}
	// The item is kept, whether or not its producer hears of it.
	_ = x.reply(status, "ok", s.produceReply(int32(status), produced), false)
	return nil
}

// rawCall makes a body into the call that produces it.
func (s *Server) rawCall(mode eventMode, item queue.ProduceItem, h http.Header, body []byte) (queue.ProduceCall, error) {
	if mode == noEvent {
		item.Payload = body
		return queue.ProduceCall{Items: []queue.ProduceItem{item}}, nil
	}
	events, err := s.readEvents(mode, h, body)
	if err != nil {
		return queue.ProduceCall{}, err
	}
	return eventCall(mode, item, events)
}

func rawItem(info headerInfo, h http.Header) (queue.ProduceItem, error) {
	item := queue.ProduceItem{
		Content: queue.Content{
			Kind: info.kind, Reference: info.reference, Encoding: h.Get("Content-Type"), Headers: info.forward, OrderingKey: info.ordering,
			Trace: info.trace, Hop: info.hop,
		},
		DueAt: info.enqueueAt, Delay: info.delay, IdempotencyKey: info.key,
	}
	if !item.DueAt.IsZero() && h.Get(headerDelay) != "" {
		return item, queue.Invalid(headerDelay, "goes without %s; give one of them", headerEnqueueAt)
	}
	if len(info.forward) > 0 {
		if err := webhooks.CheckHeaders(info.forward); err != nil {
			return item, queue.Invalid(headerForward+"*", "%v", err)
		}
	}
	return item, nil
}

// rawNames are the places where a raw item's producer wrote what the broker judges.
var rawNames = map[string]string{
	"items[0].kind": headerKind, "items[0].reference": headerReference, "items[0].ordering_key": headerOrdering, "items[0].encoding": "Content-Type",
	"items[0].delay": headerDelay, "items[0].enqueue_at": headerEnqueueAt,
	"items[0].idempotency_key": headerIdempotency, "items[0].headers": headerForward + "*",
	"items[0].bytes": "body", "items[0]": "body",
}

// rawPath gives an error the path that a raw item's producer knows.
func rawPath(err error) error {
	if e, ok := errors.AsType[*queue.InvalidError](err); ok {
		if name, known := rawNames[e.Field]; known {
			return &queue.InvalidError{Field: name, Reason: e.Reason}
		}
	}
	if e, ok := errors.AsType[*queue.TooLargeError](err); ok && strings.HasPrefix(e.Field, "items[0]") {
		return &queue.TooLargeError{Field: "body", Limit: e.Limit, Unit: e.Unit}
	}
	_, placed := errors.AsType[*placedError](err)
	if _, ok := errors.AsType[*queue.MismatchError](err); ok && !placed {
		return &placedError{err, headerIdempotency}
	}
	return err
}
