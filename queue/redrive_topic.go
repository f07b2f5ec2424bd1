package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// toTopic says that the target of the call is a topic.
func (r *redrive) toTopic() bool { return r.target != nil && r.target.settings().Topic != nil }

// fanOut copies items, at most a page, to all who want them of the topic, and takes them out
// of their queue in the same transaction. Each is done for itself.
func (r *redrive) fanOut(ctx context.Context, items []Item) error {
	var pinned pinSet
	defer pinned.unpin()
	topic, err := pinned.pin(ctx, r.b.known, func() (*knownQueue, error) { return r.b.known.numberedEither(ctx, r.target.number) })
	if errors.Is(err, ErrNotFound) {
		for i := range items {
			r.skip(items[i].ID)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	for range topicRounds {
		if items, err = r.fanOutBy(ctx, topic.latest.Load(), items); err != nil || len(items) == 0 {
			return err
		}
		if err := r.b.rereadTopics(ctx, pinned.queues); err != nil {
			return err
		}
	}
	return overtakenTooOften("topic " + topic.name)
}

// fanOutBy does so for a topic as it was read, and returns the items for which it is another
// by now.
func (r *redrive) fanOutBy(ctx context.Context, topic *readSettings, items []Item) (overtaken []Item, err error) {
	fresh := make([]NewItem, len(items))
	for i := range items {
		fresh[i] = NewItem{Content: items[i].Content, ID: items[i].ID, MaxAttempts: items[i].MaxAttempts}
		fresh[i].Target = nil // the topic's subscriptions have endpoints of their own
	}
	if err := r.b.chooseCopies(ctx, topic, fresh); err != nil {
		return nil, err
	}
	page := fannedPage{r: r}
	for i := range items {
		it := &fresh[i]
		bytes := it.Places() * (it.Size() + copyBytes)
		switch {
		case it.Places() == 0, items[i].State(r.now) == Leased:
			r.skip(it.ID)
			continue
		case bytes > maxTold:
			r.b.log.Warn("item stays in its dead-letter queue: its copies for a topic do not fit into one transaction; redrive it to one queue",
				"item_id", it.ID.String(), "topic", topic.Name, "copies", it.Places(), "bytes", it.Size())
			r.skip(it.ID)
			continue
		case page.copies+it.Places() > MaxCopies || page.bytes+bytes > MaxBatchBytes:
			if err := page.flush(ctx); err != nil {
				return nil, err
			}
		}
		it.Delay = time.Duration(r.place+len(page.items)) * r.call.Every
		page.items = append(page.items, &items[i])
		page.groups = append(page.groups, SettleGroup{Entries: []Settlement{{
			Key: items[i].Key, Token: items[i].Token, Guard: NotLive, Outcome: Complete, Produce: []NewItem{*it},
		}}})
		page.copies, page.bytes = page.copies+it.Places(), page.bytes+bytes
	}
	err = page.flush(ctx)
	return page.overtaken, err
}

// fannedPage are items on their way to a topic, as many as one call of the store takes.
type fannedPage struct {
	r             *redrive
	items         []*Item
	groups        []SettleGroup
	copies, bytes int
	// overtaken are those of all pages that were chosen by what the topic is no more.
	overtaken []Item
}

// flush moves what the page has, and counts it.
func (p *fannedPage) flush(ctx context.Context) error {
	if len(p.items) == 0 {
		return nil
	}
	items, groups := p.items, p.groups
	p.items, p.groups, p.copies, p.bytes = nil, nil, 0, 0
	r := p.r
	answer := SettleAnswer{Now: r.now}
	if !r.call.DryRun {
		var err error
		if answer, err = r.b.store.Settle(ctx, groups); err != nil {
			return err
		}
		r.now = answer.Now
	}
	var wakes wakes
	first := r.place
	for i := range items {
		status := Applied
		if !r.call.DryRun {
			status = answer.Groups[i][0].Status
		}
		switch status {
		case Applied:
		case Overtaken:
			p.overtaken = append(p.overtaken, *items[i])
			continue
		default:
			r.skip(items[i].ID)
			continue
		}
		r.done.Moved++
		s := &groups[i].Entries[0]
		it := &s.Produce[0]
		due := r.now.Add(it.Delay)
		if r.call.Every > 0 {
			r.place, r.done.Until = first+i+1, due
		}
		if !r.call.DryRun {
			r.tellFanned(it, due, &wakes)
		}
	}
	r.b.leases.wake(wakes)
	return nil
}

// tellFanned wakes the queues that an item was copied to, or says when it is due there.
func (r *redrive) tellFanned(it *NewItem, due time.Time, wakes *wakes) {
	for k := range it.Places() {
		to := it.Place(k)
		r.b.ordered.saw(to.Queue, &it.Content)
		if it.Delay < Soon {
			wakes.addParts(to.Queue, 1<<to.Partition)
		} else {
			r.b.onDue(to.Queue, due)
		}
	}
}
