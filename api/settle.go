package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
)

func (s *Server) settleRoutes() {
	register(s, method[*v1.CompleteRequest, *v1.SettleReply]{
		name: "queue.complete", bytes: s.limits.ItemCall,
		noun: "queue", target: (*v1.CompleteRequest).GetQueueName, optional: true,
		receipts: completeReceipts,
		do:       s.complete,
	})
	register(s, method[*v1.RetryRequest, *v1.SettleReply]{
		name: "queue.retry", bytes: s.limits.ItemCall,
		noun: "queue", target: (*v1.RetryRequest).GetQueueName, optional: true,
		receipts: retryReceipts,
		do:       s.retry,
	})
	register(s, method[*v1.ReleaseRequest, *v1.SettleReply]{
		name: "queue.release", bytes: s.limits.Call,
		noun: "queue", target: (*v1.ReleaseRequest).GetQueueName, optional: true,
		receipts: receiptsField[*v1.ReleaseRequest],
		do:       s.release,
	})
	register(s, method[*v1.BuryRequest, *v1.SettleReply]{
		name: "queue.bury", bytes: s.limits.Call,
		noun: "queue", target: (*v1.BuryRequest).GetQueueName, optional: true,
		receipts: receiptsField[*v1.BuryRequest],
		do:       s.bury,
	})
	register(s, method[*v1.ExtendRequest, *v1.SettleReply]{
		name: "queue.extend", bytes: s.limits.Call,
		noun: "queue", target: (*v1.ExtendRequest).GetQueueName, optional: true,
		receipts: receiptsField[*v1.ExtendRequest],
		do:       s.extend,
	})
}

// completeReceipts returns the receipts of the list that has some.
func completeReceipts(q *v1.CompleteRequest) receiptList {
	switch {
	case len(q.GetIds()) > 0:
		return receiptList{field: "ids", texts: q.GetIds()}
	case len(q.GetItems()) == 0:
		return receiptList{field: "receipts", texts: q.GetReceipts()}
	}
	texts := make([]string, len(q.GetItems()))
	for i, it := range q.GetItems() {
		texts[i] = it.GetReceipt()
	}
	return receiptList{field: "items", sub: "receipt", texts: texts}
}

func retryReceipts(q *v1.RetryRequest) receiptList {
	list := receiptList{field: "items", sub: "id", texts: make([]string, len(q.GetItems()))}
	for i, it := range q.GetItems() {
		list.texts[i] = it.GetId()
	}
	return list
}

// receiptsField is for requests that have them in a list alone.
func receiptsField[Q interface{ GetReceipts() []string }](q Q) receiptList {
	return receiptList{field: "receipts", texts: q.GetReceipts()}
}

func (s *Server) complete(ctx context.Context, c *call, q *v1.CompleteRequest) (*v1.SettleReply, error) {
	list := completeReceipts(q)
	if len(q.GetIds())+len(q.GetReceipts())+len(q.GetItems()) > len(list.texts) {
		return nil, queue.Invalid("receipts", "give receipts in one of ids, receipts and items")
	}
	entries, err := s.entries(list, queue.SettleEntry{Outcome: queue.Complete})
	if err != nil {
		return nil, err
	}
	for i, it := range q.GetItems() {
		if len(it.GetResult()) > queue.MaxResponse {
			return nil, &queue.TooLargeError{Field: entry("items", i, "result"), Limit: queue.MaxResponse, Unit: "bytes"}
		}
		entries[i].Result = it.GetResult()
	}
	return s.settleEntries(ctx, c, q, list, entries)
}

func (s *Server) release(ctx context.Context, c *call, q *v1.ReleaseRequest) (*v1.SettleReply, error) {
	each := queue.SettleEntry{Outcome: queue.Release}
	if text := q.GetDelay(); text != "" {
		var err error
		if each.Delay, err = parseDuration("delay", text, 0, maxDelay); err != nil {
			return nil, err
		}
	}
	return s.settle(ctx, c, q, receiptsField(q), each)
}

func (s *Server) bury(ctx context.Context, c *call, q *v1.BuryRequest) (*v1.SettleReply, error) {
	if err := checkReason("reason", q.GetReason()); err != nil {
		return nil, err
	}
	each := queue.SettleEntry{Outcome: queue.Bury, Reason: q.GetReason()}
	return s.settle(ctx, c, q, receiptsField(q), each)
}

func (s *Server) retry(ctx context.Context, c *call, q *v1.RetryRequest) (*v1.SettleReply, error) {
	list := retryReceipts(q)
	entries, err := s.entries(list, queue.SettleEntry{Outcome: queue.Retry})
	if err != nil {
		return nil, err
	}
	for i, it := range q.GetItems() {
		if err := readRetry(&entries[i], i, it); err != nil {
			return nil, err
		}
	}
	return s.settleEntries(ctx, c, q, list, entries)
}

func readRetry(to *queue.SettleEntry, i int, it *v1.Retry) (err error) {
	if err := checkReason(entry("items", i, "reason"), it.GetReason()); err != nil {
		return err
	}
	if it.GetDead() {
		if it.GetRetryAt() != nil || it.GetDelay() != "" {
			return queue.Invalid(entry("items", i, "dead"), "goes without retry_at and delay")
		}
		to.Outcome, to.Reason = queue.Bury, it.GetReason()
		return nil
	}
	to.Last.Error = it.GetReason()
	if it.GetRetryAt() != nil && it.GetDelay() != "" {
		return queue.Invalid(entry("items", i, "delay"), "goes without retry_at; give one of them")
	}
	if text := it.GetDelay(); text != "" {
		to.Delay, err = parseDuration(entry("items", i, "delay"), text, 0, maxDelay)
		return err
	}
	if it.GetRetryAt() != nil {
		to.DueAt = it.GetRetryAt().AsTime()
	}
	return nil
}

// checkReason judges a text that is kept with an item.
func checkReason(field, text string) error {
	switch {
	case len(text) > queue.MaxLastError:
		return queue.Invalid(field, "is longer than %d bytes", queue.MaxLastError)
	case strings.ContainsRune(text, 0):
		return queue.Invalid(field, "has a NUL character")
	}
	return nil
}

// settleRequest is what all settling calls have.
type settleRequest interface {
	GetQueueName() string
	GetPartition() int32
}

func (s *Server) settle(ctx context.Context, c *call, q settleRequest, list receiptList, each queue.SettleEntry) (*v1.SettleReply, error) {
	entries, err := s.entries(list, each)
	if err != nil {
		return nil, err
	}
	return s.settleEntries(ctx, c, q, list, entries)
}

func (s *Server) settleEntries(ctx context.Context, c *call, q settleRequest, list receiptList, entries []queue.SettleEntry) (*v1.SettleReply, error) {
	if c.stranger {
		// What a receipt says beside its proof is for those who have a key: a stranger may
		// have taken it off, to keep others from being told.
		for i := range entries {
			entries[i].Receipt.Notify, entries[i].Receipt.Pushed = true, true
		}
	}
	c.items = len(entries)
	name, there, err := s.place(ctx, c, q.GetQueueName(), entries[0].Receipt)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, refused(nothingThere(len(entries)), list)
	}
	settled, err := s.broker.Settle(ctx, queue.SettleCall{
		Namespace: c.namespace, Queue: name, Partition: partition(q), Entries: entries,
	})
	if stale, ok := errors.AsType[*queue.StaleError](err); ok {
		return nil, refused(stale, list)
	}
	if err != nil {
		return nil, list.rename(err)
	}
	results := make([]*v1.Settled, len(settled))
	for i, it := range settled {
		results[i] = &v1.Settled{Status: statusOK, Buried: it.Buried}
		if o := entries[i].Outcome; !it.Buried && (o == queue.Retry || o == queue.Release) {
			results[i].AvailableAt = stamp(it.AvailableAt)
		}
		if entries[i].Outcome == queue.Bury {
			results[i].Buried = true
		}
	}
	return settleReply(results), nil
}

func (s *Server) extend(ctx context.Context, c *call, q *v1.ExtendRequest) (*v1.SettleReply, error) {
	ttl, err := leaseTimeout(q.GetLeaseTimeout())
	if err != nil {
		return nil, err
	}
	list := receiptsField(q)
	receipts, err := s.receipts(list)
	if err != nil {
		return nil, err
	}
	entries := make([]queue.ExtendEntry, len(receipts))
	for i, r := range receipts {
		if want := partition(q); want != nil && *want != r.Partition {
			return nil, queue.Invalid("partition", "is %d, but %s names partition %d", *want, list.path(i), r.Partition)
		}
		entries[i].Receipt = r
		if ttl != nil {
			entries[i].TTL = *ttl
		}
	}
	c.items = len(entries)
	name, there, err := s.place(ctx, c, q.GetQueueName(), receipts[0])
	if err != nil {
		return nil, err
	}
	extended := slices.Repeat([]queue.Extended{{Status: queue.Gone}}, len(entries))
	if there {
		if extended, err = s.broker.Extend(ctx, c.namespace, name, entries); err != nil {
			return nil, err
		}
	}
	results := make([]*v1.Settled, len(extended))
	for i, it := range extended {
		switch it.Status {
		case queue.Applied:
			results[i] = &v1.Settled{Status: statusOK, LeaseDeadline: stamp(it.Deadline)}
		case queue.Gone:
			results[i] = &v1.Settled{Status: wordOf(queue.ErrNotFound), Receipt: list.texts[i]}
		default:
			results[i] = &v1.Settled{Status: wordOf(queue.ErrStale), Receipt: list.texts[i]}
		}
	}
	return settleReply(results), nil
}

// statusOK is the word of a receipt that was good.
const statusOK = "ok"

func settleReply(results []*v1.Settled) *v1.SettleReply {
	return &v1.SettleReply{Code: http.StatusOK, CodeText: "ok", Results: results}
}

// nothingThere is about n receipts of no item.
func nothingThere(n int) *queue.StaleError {
	stale := &queue.StaleError{Entries: make(map[int]error, n)}
	for i := range n {
		stale.Entries[i] = queue.ErrNotFound
	}
	return stale
}

// refused tells of every receipt of a refused call what is wrong with it, or that
// it was undone because of others.
func refused(stale *queue.StaleError, list receiptList) error {
	e := &refusedError{
		stale: stale,
		paths: make([]string, len(list.texts)), results: make([]*v1.Settled, len(list.texts)),
	}
	for i, text := range list.texts {
		status := "undone"
		if reason, ok := stale.Entries[i]; ok {
			status = wordOf(reason)
		}
		e.paths[i] = list.path(i)
		e.results[i] = &v1.Settled{Status: status, Receipt: text}
	}
	return e
}

// partition is nil if the request does not name one. A generated getter cannot
// tell, the field can.
func partition(q settleRequest) *int32 {
	switch q := q.(type) {
	case *v1.CompleteRequest:
		return q.Partition
	case *v1.RetryRequest:
		return q.Partition
	case *v1.ReleaseRequest:
		return q.Partition
	case *v1.BuryRequest:
		return q.Partition
	case *v1.ExtendRequest:
		return q.Partition
	}
	return nil
}

// receiptList is receipts, and where the caller wrote them.
type receiptList struct {
	field string
	// sub is the field of the list's entries that has the receipt, if they are messages.
	sub   string
	texts []string
}

func (l receiptList) path(i int) string { return entry(l.field, i, l.sub) }

// rename gives an error the path that the caller wrote: the broker knows only
// receipts.
func (l receiptList) rename(err error) error {
	invalid, ok := errors.AsType[*queue.InvalidError](err)
	if !ok || l.field == "receipts" {
		return err
	}
	rename := func(s string) string { return strings.ReplaceAll(s, "receipts[", l.field+"[") }
	return &queue.InvalidError{Field: rename(invalid.Field), Reason: rename(invalid.Reason)}
}

// receipts reads a list.
func (s *Server) receipts(l receiptList) ([]queue.Receipt, error) {
	if err := s.checkCount(l.field, "receipts", len(l.texts)); err != nil {
		return nil, err
	}
	receipts := make([]queue.Receipt, len(l.texts))
	for i, text := range l.texts {
		r, err := queue.ParseReceipt(text)
		if err != nil {
			return nil, queue.Invalid(l.path(i), "%v", err)
		}
		receipts[i] = r
	}
	return receipts, nil
}

// entries makes a settlement like each of every receipt.
func (s *Server) entries(l receiptList, each queue.SettleEntry) ([]queue.SettleEntry, error) {
	receipts, err := s.receipts(l)
	if err != nil {
		return nil, err
	}
	entries := make([]queue.SettleEntry, len(receipts))
	for i, r := range receipts {
		entries[i] = each
		entries[i].Receipt = r
	}
	return entries, nil
}
