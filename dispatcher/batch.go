package dispatcher

import (
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

// classItemFailed is the class of an item that the endpoint named as failed in the answer
// to a batch.
const classItemFailed = "item_failed"

// addBatch puts all items of the push into the body, under an id of the request's own.
func (p *push) addBatch(req *webhooks.Request) {
	items := make([]webhooks.BatchItem, len(p.items))
	for i, it := range p.items {
		// What an event says of itself is for requests in that format, as with single items.
		_, headers := webhooks.SplitHeaders(it.Headers)
		items[i] = webhooks.BatchItem{
			ID: it.ID.String(), Kind: it.Kind, Encoding: it.Encoding, Reference: it.Reference,
			Attempt: it.Deliveries, MaxAttempts: p.maxAttempts(it), EnqueuedAt: it.CreatedAt,
			Headers: headers, Traceparent: it.Trace, Payload: it.Payload,
		}
	}
	req.ID = queue.NewID().String()
	req.KeepBody = true
	// An item's own headers are its own; they go with it into the body.
	req.Headers = p.sub.headers
	if p.sub.Batch.Encoding == subscriptions.BatchMultipart {
		req.ContentType, req.Body = webhooks.EncodeBatchMultipart(items)
	} else {
		req.ContentType, req.Body = webhooks.EncodeBatchJSON(items)
	}
}

// perItem makes the result of a batch into one for each of its items: a request that
// failed has failed for all, and after a success the answer may name items that did not go
// well.
func perItem(res *webhooks.Result, items []*queue.Item) []webhooks.Result {
	results := make([]webhooks.Result, len(items))
	for i := range results {
		results[i] = *res
	}
	if res.Verdict != webhooks.Delivered {
		return results
	}
	failed, err := webhooks.DecodeFailed(res.Body, res.BodyCut)
	for i, it := range items {
		item, named := failed[it.ID.String()]
		switch {
		case err != nil:
			results[i] = itemFailed(res, err.Error(), item)
		case named:
			results[i] = itemFailed(res, "the endpoint named the item as failed", item)
		}
	}
	return results
}

func itemFailed(res *webhooks.Result, text string, item webhooks.FailedItem) webhooks.Result {
	r := *res
	r.Verdict, r.Class = webhooks.Retryable, classItemFailed
	r.Error = classItemFailed + ": " + text
	r.RetryAfter, r.Never = item.RetryAfter, item.Never
	return r
}
