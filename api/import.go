package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/webhooks"
)

func (s *Server) importRoutes() {
	register(s, method[*v1.ItemsImportRequest, *v1.ItemsImportReply]{
		name: "storage/items.import", bytes: s.limits.ItemCall,
		noun: "queue", target: (*v1.ItemsImportRequest).GetQueueName,
		also: func(q *v1.ItemsImportRequest) names { return toldQueues(q.GetItems()) },
		do:   s.importItems,
	})
}

func (s *Server) importItems(ctx context.Context, c *call, q *v1.ItemsImportRequest) (*v1.ItemsImportReply, error) {
	if err := s.checkCount("items", "items", len(q.GetItems())); err != nil {
		return nil, err
	}
	c.items = len(q.GetItems())
	items := make([]queue.ImportItem, c.items)
	for i, it := range q.GetItems() {
		if err := readImport(&items[i], i, it); err != nil {
			return nil, err
		}
		items[i].Trace, items[i].Hop = c.trace, c.hop
		// The answer repeats them. Now, since a refusal says that nothing was done.
		if err := c.hold(items[i].Size()); err != nil {
			return nil, err
		}
	}
	kept, err := s.broker.Import(ctx, queue.ImportCall{Namespace: c.namespace, Queue: q.GetQueueName(), Partition: q.GetPartition(), Items: items})
	if err != nil {
		return nil, err
	}
	p := &v1.ItemsImportReply{Items: make([]*v1.Item, len(kept))}
	names := make(map[queue.Number]string)
	// The store's clock may not be ours; near enough for the word of a state.
	now := time.Now()
	for i := range kept {
		if p.Items[i], err = s.listedItem(ctx, &kept[i], now, names); err != nil {
			return nil, fmt.Errorf("import: %w: the items are kept, but could not be shown: %v", queue.ErrUnknownOutcome, err)
		}
	}
	return p, nil
}

// readImport takes what an import keeps of an item. What only a server can say of it
// is not read, so that what storage/items.list answered can be sent as it is.
func readImport(to *queue.ImportItem, i int, it *v1.Item) (err error) {
	to.Content = queue.Content{
		SourceID: it.GetId(), Kind: it.GetKind(), Encoding: it.GetEncoding(), Reference: it.GetReference(),
		Headers: it.GetHeaders(), Payload: it.GetPayload(), OnDone: it.GetOnDone(), OrderingKey: it.GetOrderingKey(),
	}
	if err := checkImportHeaders(&to.Content); err != nil {
		return within(entry("items", i, ""), err)
	}
	if to.Target, err = readTarget(it.GetTarget()); err != nil {
		return within(entry("items", i, ""), err)
	}
	to.Attempts, to.MaxAttempts = it.GetAttempts(), it.GetMaxAttempts()

	switch lease, due := it.GetLeaseDeadline(), it.GetEnqueueAt(); {
	case it.GetIsLeased() && lease == nil:
		return queue.Invalid(entry("items", i, "lease_deadline"), "is missing; a leased item is due at it")
	case it.GetIsLeased():
		to.DueAt, to.DueField = lease.AsTime(), "lease_deadline"
	case lease != nil:
		return queue.Invalid(entry("items", i, "lease_deadline"), "goes with is_leased")
	case due != nil:
		to.DueAt = due.AsTime()
	}
	expire, dead := it.GetExpireDeadline(), it.GetDeadDeadline()
	if expire != nil && dead != nil && !expire.AsTime().Equal(dead.AsTime()) {
		return queue.Invalid(entry("items", i, "dead_deadline"), "is another one than expire_deadline; they are the same instant here, so give one of them")
	}
	if expire == nil && dead != nil {
		expire, to.ExpireField = dead, "dead_deadline"
	}
	if expire != nil {
		to.ExpiresAt = expire.AsTime()
	}
	return nil
}

// checkImportHeaders takes what an item may have among its headers that came as an event:
// its attributes, all that it must have.
func checkImportHeaders(c *queue.Content) error {
	attributes, headers := webhooks.SplitHeaders(c.Headers)
	if err := checkItemHeaders(headers); err != nil || attributes == nil {
		return err
	}
	for name := range headers {
		if strings.EqualFold(name, "Content-Type") {
			return queue.Invalid("headers", "header %s would stand in the place of an event's encoding; leave it out", name)
		}
	}
	for _, field := range [...]struct{ attribute, name, value string }{
		{"type", "kind", c.Kind}, {"datacontenttype", "encoding", c.Encoding},
	} {
		if _, given := attributes[field.attribute]; given {
			return queue.Invalid("headers", "header ce-%s is the item's %s; leave it out", field.attribute, field.name)
		}
		if field.value != "" {
			attributes[field.attribute] = field.value
		}
	}
	err := webhooks.CheckAttributes(attributes)
	e, ok := errors.AsType[*webhooks.AttributeError](err)
	switch {
	case !ok:
		return err
	case e.Attribute == "type":
		return queue.Invalid("kind", "%s", e.Reason)
	case e.Attribute == "datacontenttype":
		return queue.Invalid("encoding", "%s", e.Reason)
	}
	return queue.Invalid("headers", "header ce-%s %s", clip(e.Attribute), e.Reason)
}
