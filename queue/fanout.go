package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// MaxCopies bounds what one call to a topic comes to: its items times those who get them.
const MaxCopies = MaxBatchEntries

// topicRounds bounds how often a call to a topic is tried that meets other subscribers
// than it read. Each round means that a subscription came or went meanwhile.
const topicRounds = 20

// Matcher says which items of a topic a subscription gets. It is called concurrently, on
// the way of producers, and must be quick.
type Matcher interface {
	// Match judges an item. With an error, which says why it could not be judged, the first
	// value says whether it is delivered all the same.
	Match(*Candidate) (bool, error)
}

// Candidate is an item that the matchers of a topic are asked about, one after the other.
type Candidate struct {
	*Content
	// Read is what matchers make of the content for each other, such as a parsed payload.
	Read any
}

// outlets are a topic's subscribers ready for use: made once for each revision.
type outlets struct {
	once     sync.Once
	matchers []Matcher
}

// matchersOf returns the compiled filters of a topic's subscribers, nil for who gets
// everything. A filter that cannot be compiled, as one of a newer release, keeps nothing
// back: too much can be thrown away, and what is not there cannot be found.
func (b *Broker) matchersOf(topic *readSettings) []Matcher {
	topic.outlets.once.Do(func() {
		topic.outlets.matchers = make([]Matcher, len(topic.Topic.Subscribers))
		for i := range topic.Topic.Subscribers {
			s := &topic.Topic.Subscribers[i]
			if len(s.Filter) == 0 || b.opts.CompileFilter == nil {
				continue
			}
			m, err := b.opts.CompileFilter(s.Filter)
			if err != nil {
				b.log.Error("filter cannot be read; its subscription gets all items", "topic", topic.Name, "subscription", s.Subscription, "error", err)
				continue
			}
			topic.outlets.matchers[i] = m
		}
	})
	return topic.outlets.matchers
}

// fanOut produces to a topic: every item into the queue of each subscription that wants
// it, all in one transaction of the store, which fails if the subscriptions are others
// than those that were read. Then they are read again.
func (b *Broker) fanOut(ctx context.Context, call *ProduceCall) ([]Produced, error) {
	for range topicRounds {
		topic, err := b.pin(ctx, func() (*knownQueue, error) { return b.known.either(ctx, call.Namespace, call.Queue) })
		if err != nil {
			return nil, err
		}
		read := topic.latest.Load()
		if read.Topic == nil {
			topic.unpin() // it was deleted, and its name is a queue's now
			return b.Produce(ctx, *call)
		}
		group, of, err := b.fannedOut(ctx, call, topic, read)
		if err != nil {
			topic.unpin()
			return nil, fmt.Errorf("produce to %s: %w", call.Queue, err)
		}
		topic.enterOpen()
		produced, err := b.admit(ctx, topic, group, of)
		switch {
		case err == nil:
			return counted(group.Items, produced), nil
		case !errors.Is(err, ErrOvertaken):
			return nil, fmt.Errorf("produce to %s: %w", call.Queue, tooManyFor(err, call.Queue, group.Items))
		}
		if _, err := b.known.rereadEither(ctx, call.Namespace, call.Queue); err != nil {
			return nil, err
		}
	}
	return nil, overtakenTooOften("topic " + call.Queue)
}

// overtakenTooOften is when a topic changed again and again while something was written by
// what it was.
func overtakenTooOften(topic string) error {
	return &OverloadedError{What: "changes of " + topic, Reason: "topic_changes", RetryAfter: time.Second}
}

// tooManyFor is an error of the store, which has no room for all copies in a transaction, as
// that of the topic. An item that is too large by itself is left as it is.
func tooManyFor(err error, topic string, items []NewItem) error {
	large, ok := errors.AsType[*TooLargeError](err)
	if !ok || large.Field != "items" {
		return err
	}
	copies := 0
	for i := range items {
		copies += len(items[i].Copies)
	}
	return &FanOutError{Field: "items", Topic: topic, Items: len(items), Copies: copies, Limit: large.Limit, Unit: large.Unit}
}

// counted says with each item that is new how many copies it has.
func counted(items []NewItem, produced []Produced) []Produced {
	counts := make([]int, len(items))
	for i := range produced {
		if !produced[i].Duplicate {
			counts[i] = len(items[i].Copies)
			produced[i].Copies = &counts[i]
		}
	}
	return produced
}

// fannedOut makes the group of a call to a topic, and what it is to the store.
func (b *Broker) fannedOut(ctx context.Context, call *ProduceCall, topic *knownQueue, read *readSettings) (ProduceGroup, burden, error) {
	group := ProduceGroup{Items: newItems(call, topic)}
	if err := b.chooseCopies(ctx, read, group.Items); err != nil {
		return ProduceGroup{}, burden{}, err
	}
	of := burdenOfItems(group.Items)
	if err := checkFanOut("items", read.Name, len(group.Items), of); err != nil {
		return ProduceGroup{}, burden{}, err
	}
	return group, of, nil
}

// chooseCopies has items go to those who get them of a topic as it was read, and holds them
// to that.
func (b *Broker) chooseCopies(ctx context.Context, read *readSettings, items []NewItem) error {
	guard := &DocumentGuard{Kind: b.opts.Queues.Kind(), Namespace: read.Namespace, Name: read.Name, Revision: read.revision}
	matchers := b.matchersOf(read)
	places, several, err := b.places(ctx, read)
	if err != nil {
		return err
	}
	all := wantAll(matchers, places)
	for i := range items {
		it := &items[i]
		it.Topic, it.Queue, it.Copies, it.Guard = read.Number, 0, places, guard
		if all {
			continue
		}
		if it.Copies, err = b.wanted(ctx, read, matchers, places, &it.Content); err != nil {
			return err
		}
	}
	b.placeCopies(items, several)
	return nil
}

// burdenOfItems is what new items are to the store, also those that go nowhere: their keys
// are written.
func burdenOfItems(items []NewItem) (of burden) {
	for i := range items {
		of.entries += max(items[i].Places(), 1)
		of.bytes += items[i].written()
	}
	return of
}

// checkFanOut judges what a call to a topic comes to.
func checkFanOut(field, topic string, items int, of burden) error {
	switch tooMuch := (FanOutError{Field: field, Topic: topic, Items: items, Copies: of.entries}); {
	case of.entries > MaxCopies:
		tooMuch.Limit, tooMuch.Unit = MaxCopies, "copies"
		return &tooMuch
	case of.bytes > MaxBatchBytes:
		tooMuch.Limit, tooMuch.Unit = MaxBatchBytes, "bytes"
		return &tooMuch
	default:
		return nil
	}
}

// wantAll says that nobody filters and every queue is there, so that all items may share
// one slice of places.
func wantAll(matchers []Matcher, places []Copy) bool {
	for i := range places {
		if matchers[i] != nil || places[i].Queue == 0 {
			return false
		}
	}
	return true
}

// wanted are the places of those who want an item. It ends with ctx: there may be thousands
// of filters, each of which may take long.
func (b *Broker) wanted(ctx context.Context, read *readSettings, matchers []Matcher, places []Copy, c *Content) ([]Copy, error) {
	some, candidate := make([]Copy, 0, len(places)), &Candidate{Content: c}
	for i, m := range matchers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if places[i].Queue != 0 && (m == nil || b.matches(read, i, m, candidate)) {
			some = append(some, places[i])
		}
	}
	return some, nil
}

func (b *Broker) matches(read *readSettings, i int, m Matcher, c *Candidate) bool {
	match, err := m.Match(c)
	if err == nil {
		return match
	}
	subscription := read.Topic.Subscribers[i].Subscription
	if b.opts.FilterFailed != nil {
		b.opts.FilterFailed(read.Namespace, subscription, err)
	}
	if b.warnings.may(fmt.Sprint("filter ", read.Namespace, read.queueOf(i))) {
		b.log.Warn("filter could not judge an item", "topic", read.Name, "subscription", subscription, "delivered", match, "error", err)
	}
	return match
}

// places are those of a topic's subscribers, at their indexes, by what their queues say;
// with the number 0 where the queue is gone. several are the queues among them that have
// several partitions.
func (b *Broker) places(ctx context.Context, read *readSettings) (places []Copy, several map[Number]*knownQueue, err error) {
	places = make([]Copy, len(read.Topic.Subscribers))
	several = map[Number]*knownQueue{}
	put := func(i int, q *knownQueue) {
		places[i] = Copy{Queue: q.number, ExpireTTL: q.settings().ExpireTTL}
		if q.settings().Partitions > 1 {
			several[q.number] = q
		}
	}
	peek := func(i int) bool {
		q := b.known.peek(read.Namespace, read.queueOf(i))
		if q == nil || q.number != read.Topic.Subscribers[i].Number {
			return false
		}
		put(i, q)
		return true
	}
	missing := false
	for i := range places {
		missing = !peek(i) || missing
	}
	if !missing {
		return places, several, nil
	}
	if err := b.known.prefetch(ctx, read.Namespace, read.Name+"~"); err != nil {
		return nil, nil, err
	}
	for i := range places {
		if places[i].Queue != 0 || peek(i) {
			continue
		}
		// From the document: by its number it may be taken for one that had its name before.
		q, err := b.known.reread(ctx, read.Namespace, read.queueOf(i))
		switch {
		case err == nil && q.number == read.Topic.Subscribers[i].Number:
			put(i, q)
		case err == nil || errors.Is(err, ErrNotFound) || errors.As(err, new(*TopicError)):
			if err := b.tellGone(ctx, read, i); err != nil {
				return nil, nil, err
			}
		default:
			return nil, nil, err
		}
	}
	return places, several, nil
}

// tellGone logs that a subscription of a topic has no queue, unless the topic is another by
// now, as the guard of what is copied will find.
func (b *Broker) tellGone(ctx context.Context, read *readSettings, i int) error {
	_, revision, err := b.opts.Queues.Get(ctx, read.Namespace, read.Name)
	if err != nil {
		return ignoreNotFound(err)
	}
	if revision == read.revision {
		b.log.Error("queue of a subscription is gone, so nothing is copied into it; delete the subscription, and create it anew",
			"topic", read.Name, "subscription", read.Topic.Subscribers[i].Subscription)
	}
	return nil
}

func ignoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// placeCopies gives the copies in queues that have several partitions their places there:
// those of one call go to one, but for those with an ordering key.
func (b *Broker) placeCopies(items []NewItem, several map[Number]*knownQueue) {
	if len(several) == 0 {
		return
	}
	copies := map[Number][]*Copy{}
	placed := map[Number][]NewItem{}
	for i := range items {
		it := &items[i]
		it.Copies = slices.Clone(it.Copies) // items that all go everywhere share theirs
		for k := range it.Copies {
			to := &it.Copies[k]
			if several[to.Queue] == nil {
				continue
			}
			copies[to.Queue] = append(copies[to.Queue], to)
			placed[to.Queue] = append(placed[to.Queue], NewItem{
				Content: Content{OrderingKey: it.OrderingKey}, DueAt: it.DueAt, Delay: it.Delay,
			})
		}
	}
	for n, q := range several {
		b.place(q, placed[n])
		for k, to := range copies[n] {
			to.Partition = placed[n][k].Partition
		}
	}
}

// queueOf is the name of the queue of the i-th subscriber.
func (r *readSettings) queueOf(i int) string {
	return CopyQueue(r.Name, r.Topic.Subscribers[i].Subscription)
}

// CopyQueue is the name of the queue that a subscription has on a topic.
func CopyQueue(topic, subscription string) string { return topic + "~" + subscription }

// prefetch reads all settings whose names begin with prefix, which is quicker than one by
// one.
func (c *catalog) prefetch(ctx context.Context, ns Namespace, prefix string) error {
	// Of what was read while this process changed settings nothing is kept.
	const page, tries = 500, 3
	for after, try := prefix, 1; ; {
		before := c.mark()
		docs, err := c.docs.List(ctx, ns, after, page)
		if err != nil {
			return fmt.Errorf("queues of a topic: %w", err)
		}
		for i := range docs {
			if !strings.HasPrefix(docs[i].Name, prefix) {
				return nil
			}
			c.keep(docs[i].Value, docs[i].Revision, before)
		}
		if c.mark().changes != before.changes && try < tries {
			try++
			continue
		}
		if try = 1; len(docs) < page {
			return nil
		}
		after = docs[len(docs)-1].Name
	}
}
