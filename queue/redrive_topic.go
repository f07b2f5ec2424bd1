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
	for range topicRounds {
		topic, err := pinned.pin(ctx, r.b.known, func() (*knownQueue, error) { return r.b.known.numberedEither(ctx, r.target.number) })
		if errors.Is(err, ErrNotFound) {
			for i := range items {
				r.stay(&items[i])
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("target: %w", err)
		}
		if items, err = r.fanOutBy(ctx, topic.latest.Load(), items); err != nil || len(items) == 0 {
			return err
		}
		if err := r.b.rereadTopics(ctx, pinned.queues); err != nil {
			return err
		}
	}
	return overtakenTooOften("topic " + r.target.name)
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
		of := burdenOfItems(fresh[i : i+1])
		switch {
		case it.Places() == 0, items[i].State(r.now) == Leased, r.isStuck(&items[i]):
			r.stay(&items[i])
			continue
		case of.bytes > MaxBatchBytes:
			r.tooLarge(&items[i])
			continue
		case page.of.entries+of.entries > MaxCopies, page.of.bytes+of.bytes > MaxBatchBytes:
			if err := page.flush(ctx); err != nil {
				return nil, err
			}
			if r.isStuck(&items[i]) {
				r.stay(&items[i])
				continue
			}
		}
		page.add(&items[i], *it, of)
	}
	err = page.flush(ctx)
	return page.overtaken, err
}

// fannedPage are items on their way to a topic, as many as one call of the store takes.
type fannedPage struct {
	r      *redrive
	items  []*Item
	groups []SettleGroup
	of     burden
	// overtaken are those of all pages that were chosen by what the topic is no more.
	overtaken []Item
}

func (p *fannedPage) add(it *Item, copies NewItem, of burden) {
	r := p.r
	copies.Delay = time.Duration(r.place+len(p.items)) * r.call.Every
	s := Settlement{Key: it.Key, Token: it.Token, Guard: NotLive, Outcome: Complete}
	// What lies here several times, as copies that died in several queues may, goes out once.
	if !r.fanned[it.ID] {
		s.Produce = []NewItem{copies}
	}
	p.items = append(p.items, it)
	p.groups = append(p.groups, SettleGroup{Entries: []Settlement{s}})
	p.of.entries, p.of.bytes = p.of.entries+of.entries, p.of.bytes+of.bytes
}

// flush moves what the page has, and counts it. What the store has no room for stays.
func (p *fannedPage) flush(ctx context.Context) error {
	if len(p.items) == 0 {
		return nil
	}
	items, groups := p.items, p.groups
	p.items, p.groups, p.of = nil, nil, burden{}
	r := p.r
	answer := SettleAnswer{Now: r.now}
	if r.call.DryRun {
		for range groups {
			answer.Groups = append(answer.Groups, []Settled{{Status: Applied}})
		}
	} else {
		var err error
		if answer, err = r.b.settleApart(ctx, groups); err != nil {
			return err
		}
		if !answer.Now.IsZero() {
			r.now = answer.Now
		}
	}
	var wakes wakes
	first := r.place
	for i, it := range items {
		switch {
		case answer.Groups[i] == nil:
			r.tooLarge(it)
			continue
		case answer.Groups[i][0].Status == Overtaken:
			p.overtaken = append(p.overtaken, *it)
			continue
		case answer.Groups[i][0].Status != Applied:
			r.stay(it)
			continue
		}
		r.done.Moved++
		for j := range groups[i].Entries[0].Produce {
			it := &groups[i].Entries[0].Produce[j]
			due := r.now.Add(it.Delay)
			if r.call.Every > 0 {
				r.place, r.done.Until = first+i+1, due
			}
			if r.fanned == nil {
				r.fanned = map[ID]bool{}
			}
			r.fanned[it.ID] = true
			if !r.call.DryRun {
				r.tellFanned(it, due, &wakes)
			}
		}
	}
	r.b.leases.wake(wakes)
	return nil
}

// tooLarge leaves an item of which the copies are more than a transaction takes.
func (r *redrive) tooLarge(it *Item) {
	r.b.log.Warn("item stays in its dead-letter queue: its copies for a topic do not fit into one transaction; redrive it to one queue",
		"item_id", it.ID.String(), "topic", r.target.name, "bytes", it.Size())
	r.stay(it)
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
