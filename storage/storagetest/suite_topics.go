package storagetest

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// fanned makes an item one of a topic, with a copy for each queue.
func fanned(topic queue.Number, item queue.NewItem, queues ...queue.Number) queue.NewItem {
	item.Topic, item.Queue = topic, 0
	for _, q := range queues {
		item.Copies = append(item.Copies, queue.Copy{Queue: q})
	}
	return item
}

// guarded is the group of items that were made by one revision of a document.
func guarded(guard *queue.DocumentGuard, items ...queue.NewItem) queue.ProduceGroup {
	guardAll(items, guard)
	return queue.ProduceGroup{Items: items}
}

func guardOf(doc storage.Document, revision uint64) *queue.DocumentGuard {
	return &queue.DocumentGuard{Kind: doc.Kind, Namespace: doc.Namespace, Name: doc.Name, Revision: revision}
}

func (f *fixture) wantTotal(what string, q queue.Number, want int) {
	f.Helper()
	if got := f.stats(q).Total; got != want {
		f.Errorf("%s holds %d items, want %d", what, got, want)
	}
}

func (f *fixture) wantOvertaken(what string, got queue.ProduceResult) {
	f.Helper()
	if !errors.Is(got.Err, queue.ErrOvertaken) || len(got.Items) != 0 {
		f.Errorf("%s: got %+v, want %v and no items", what, got, queue.ErrOvertaken)
	}
}

var topicCases = []testCase{
	{"Topic_CopiesAreOneItemInEachQueue", func(f *fixture) {
		topic, a, b := f.queue(), f.queue(), f.queue()
		first, second := fanned(topic, f.item(0), a, b), fanned(topic, f.item(0), b)
		got := f.produce(first, second)
		f.wantFresh("first", got[0], first.ID)
		f.wantFresh("second", got[1], second.ID)
		f.wantIDs("a", f.list(a), first.ID)
		f.wantIDs("b", f.list(b), first.ID, second.ID)
		for _, it := range f.find(first.ID) {
			if it.Home != it.Queue || string(it.Payload) != string(first.Payload) {
				f.Errorf("copy: got %+v, want its queue as its home, and the payload", it)
			}
		}
		// Each is settled by itself.
		f.apply(complete(f.leaseOne(a, pull(1))))
		f.wantTotal("a", a, 0)
		f.wantTotal("b", b, 2)
		f.wantTotal("the topic", topic, 0)
	}},
	{"Topic_ACopyKeepsItsPayloadWhileOthersEnd", func(f *fixture) {
		topic, a, b, c, dead := f.queue(), f.queue(), f.queue(), f.queue(), f.queue()
		large := f.item(0)
		large.Payload = []byte(strings.Repeat("large ", 1000))
		large = fanned(topic, large, a, b, c)
		f.produce(large)
		wantPayload := func(what string, it queue.Item) queue.Item {
			if string(it.Payload) != string(large.Payload) {
				f.Errorf("%s: got %d bytes, want those of the item", what, len(it.Payload))
			}
			return it
		}
		// later lets pass what a store may wait with until it erases what has ended.
		later := func() {
			f.clock.Advance(3 * time.Hour)
			f.tidy(24 * time.Hour)
		}
		f.apply(complete(wantPayload("a", f.leaseOne(a, pull(1)))))
		later()
		f.apply(bury(wantPayload("b", f.leaseOne(b, pull(1))), dead))
		f.purge(queue.PurgeRequest{Queue: c, Limit: 1})
		later()
		it := wantPayload("dead", f.get(queue.Key{ID: large.ID, Queue: dead, Home: b}))
		f.apply(moveToTopic(it, nil, topic, a, c))
		later()
		f.apply(complete(wantPayload("a again", f.leaseOne(a, pull(1)))))
		later()
		wantPayload("c again", f.leaseOne(c, pull(1)))
	}},
	{"Topic_EachCopyExpiresAsItsPlaceSays", func(f *fixture) {
		topic, a, b := f.queue(), f.queue(), f.queue()
		item, own := fanned(topic, f.item(0), a, b), fanned(topic, f.item(0), a, b)
		item.Copies[1].ExpireTTL, own.Copies[1].ExpireTTL = time.Minute, time.Minute
		own.ExpireTTL = time.Hour
		item.Delay = time.Second
		f.produce(item, own)
		now := f.clock.Now()
		for _, want := range []struct {
			id queue.ID
			q  queue.Number
			at time.Time
		}{
			{item.ID, a, time.Time{}},
			{item.ID, b, now.Add(time.Minute + time.Second)},
			{own.ID, a, now.Add(time.Hour)},
			{own.ID, b, now.Add(time.Hour)},
		} {
			f.wantTime("expiry", f.get(queue.Key{ID: want.id, Queue: want.q, Home: want.q}).ExpiresAt, want.at)
		}
	}},
	{"Topic_ADuplicateLeavesOutAllCopies", func(f *fixture) {
		topic, a, b := f.queue(), f.queue(), f.queue()
		first := fanned(topic, f.keyed(topic, "k", "body"), a, b)
		f.wantFresh("first", f.produce(first)[0], first.ID)
		plain := fanned(topic, f.item(0), a)
		got := f.produce(fanned(topic, f.keyed(topic, "k", "body"), a, b, f.queue()), plain)
		f.wantDuplicate("repeat", got[0], first.ID)
		f.wantFresh("beside it", got[1], plain.ID)
		f.wantIDs("a", f.list(a), first.ID, plain.ID)
		f.wantIDs("b", f.list(b), first.ID)
		other := fanned(topic, f.keyed(topic, "k", "other"), a)
		f.wantMismatch(f.produceGroups(queue.ProduceGroup{Items: []queue.NewItem{other}})[0], 0)
		f.wantTotal("a", a, 2)
	}},
	{"Topic_TwoEqualKeysInOneCall", func(f *fixture) {
		topic, a, b := f.queue(), f.queue(), f.queue()
		first := fanned(topic, f.keyed(topic, "k", "body"), a, b)
		got := f.produce(first, fanned(topic, f.keyed(topic, "k", "body"), a, b))
		f.wantFresh("first", got[0], first.ID)
		f.wantDuplicate("second", got[1], first.ID)
		f.wantTotal("a", a, 1)
		f.wantTotal("b", b, 1)
	}},
	{"Topic_AKeyIsKeptWithoutCopies", func(f *fixture) {
		topic, a := f.queue(), f.queue()
		first := fanned(topic, f.keyed(topic, "k", "body"))
		plain := fanned(topic, f.item(0))
		got := f.produce(first, plain)
		f.wantFresh("keyed", got[0], first.ID)
		f.wantFresh("plain", got[1], plain.ID)
		f.wantDuplicate("repeat, with a copy by now", f.produce(fanned(topic, f.keyed(topic, "k", "body"), a))[0], first.ID)
		f.wantTotal("a", a, 0)
		f.wantMismatch(f.produceGroups(queue.ProduceGroup{Items: []queue.NewItem{fanned(topic, f.keyed(topic, "k", "other"))}})[0], 0)
		f.clock.Advance(dedupeTTL + time.Second)
		f.tidy(time.Hour)
		again := fanned(topic, f.keyed(topic, "k", "other"), a)
		f.wantFresh("after its time", f.produce(again)[0], again.ID)
	}},
	{"Topic_ARepeatAddsOnlyTheCopiesThatAreMissing", func(f *fixture) {
		topic, a, b := f.queue(), f.queue(), f.queue()
		item := fanned(topic, f.item(0), a, b)
		f.produce(item)
		f.wantDuplicate("the same call again", f.produce(item)[0], item.ID)
		f.apply(complete(f.leaseOne(a, pull(1))))
		f.wantFresh("one copy less", f.produce(item)[0], item.ID)
		f.wantTotal("a", a, 1)
		f.wantTotal("b", b, 1)
	}},
	{"Topic_AThousandCopiesInOneCall", func(f *fixture) {
		const many = 1000
		topic := f.queue()
		queues := make([]queue.Number, many)
		for i := range queues {
			queues[i] = f.queue()
		}
		item := fanned(topic, f.keyed(topic, "k", "body"), queues...)
		f.wantFresh("item", f.produce(item)[0], item.ID)
		if got := len(f.find(item.ID)); got != many {
			f.Errorf("got %d copies, want %d", got, many)
		}
		f.wantDuplicate("repeat", f.produce(fanned(topic, f.keyed(topic, "k", "body"), queues...))[0], item.ID)
	}},
	{"Topic_CopiesAndKeysSurviveAReopen", func(f *fixture) {
		topic, a, b := f.queue(), f.queue(), f.queue()
		item := fanned(topic, f.keyed(topic, "k", "body"), a, b)
		item.Copies[1].ExpireTTL = time.Hour
		none := fanned(topic, f.keyed(topic, "none", "body"))
		f.produce(item, none)
		f.apply(complete(f.leaseOne(a, pull(1))))
		f.reopen()
		left := f.get(queue.Key{ID: item.ID, Queue: b, Home: b})
		if string(left.Payload) != "body" || left.ExpiresAt.IsZero() {
			f.Errorf("copy: got %+v, want its payload and its expiry", left)
		}
		f.wantTotal("a", a, 0)
		f.wantDuplicate("key", f.produce(fanned(topic, f.keyed(topic, "k", "body"), a, b))[0], item.ID)
		f.wantDuplicate("key without copies", f.produce(fanned(topic, f.keyed(topic, "none", "body"), a))[0], none.ID)
		f.wantTotal("a", a, 0)
		f.wantTotal("b", b, 1)
	}},
	{"Guard_FailsItsGroupAlone", func(f *fixture) {
		q := f.queue()
		doc, gone := document(1, "topic", 0), document(1, "gone", 0)
		old := f.put(doc)
		doc.Revision = old
		newest := f.put(doc)
		before, good, after := f.item(q), f.keyed(q, "good", "a"), f.item(q)
		results := f.produceGroups(
			queue.ProduceGroup{Items: []queue.NewItem{before}},
			guarded(guardOf(doc, old), f.item(q), f.keyed(q, "k", "a")),
			guarded(guardOf(doc, newest), good),
			guarded(guardOf(gone, newest), f.item(q)),
			queue.ProduceGroup{Items: []queue.NewItem{after}},
		)
		f.wantOvertaken("old revision", results[1])
		f.wantOvertaken("no document", results[3])
		f.wantIDs("queue", f.list(q), before.ID, good.ID, after.ID)
		// A group that failed has taken no key.
		key := f.keyed(q, "k", "b")
		f.wantFresh("its key", f.produce(key)[0], key.ID)
	}},
	{"Guard_IsJudgedBeforeKeys", func(f *fixture) {
		q := f.queue()
		f.produce(f.keyed(q, "k", "body"))
		doc := document(1, "topic", 0)
		revision := f.put(doc)
		for _, body := range []string{"body", "other"} {
			f.wantOvertaken(body, f.produceGroups(guarded(guardOf(doc, revision+1), f.keyed(q, "k", body)))[0])
		}
	}},
	{"Guard_OfAGroupWithNothingToKeep", func(f *fixture) {
		topic := f.queue()
		doc := document(1, "topic", 0)
		revision := f.put(doc)
		group := guarded(guardOf(doc, revision), fanned(topic, f.item(0)))
		f.wantFresh("no copies", f.produceGroups(group)[0].Items[0], group.Items[0].ID)
		if err := f.store.Delete(f.Context(), doc.DocumentKey, revision); err != nil {
			f.Fatal(err)
		}
		f.wantOvertaken("deleted", f.produceGroups(group)[0])
		doc.Revision = 0
		f.put(doc)
		f.wantOvertaken("made anew", f.produceGroups(group)[0])
	}},
	{"Guard_OrdersProducesAndChanges", func(f *fixture) {
		// What is produced under a revision is there before the change that ends it is
		// answered: so whoever changed the document knows of all that came under the old one.
		const producers, changes = 4, 20
		q := f.queue()
		doc := document(1, "topic", 0)
		var revision, done atomic.Uint64
		revision.Store(f.put(doc))
		ids := make([]idMaker, producers)
		for i := range ids {
			ids[i] = idMaker(1_000_000 * (i + 1))
		}
		f.wantNoErrors(together(producers+1, func(i int) error {
			if i < producers {
				for done.Load() == 0 {
					at := revision.Load()
					item := queue.NewItem{ID: ids[i].next(f.clock.Now()), Queue: q, Content: queue.Content{Reference: fmt.Sprint(at)}}
					answer, err := f.store.Produce(f.Context(), []queue.ProduceGroup{guarded(guardOf(doc, at), item)})
					if err != nil {
						return fmt.Errorf("Produce: %w", err)
					}
					if err := answer.Groups[0].Err; err != nil && !errors.Is(err, queue.ErrOvertaken) {
						return fmt.Errorf("Produce: %w", err)
					}
				}
				return nil
			}
			defer done.Store(1)
			counts := map[string]int{}
			for range changes {
				next := doc
				next.Revision = revision.Load()
				made, err := f.store.Put(f.Context(), next)
				if err != nil {
					return fmt.Errorf("Put: %w", err)
				}
				now, err := countReferences(f, q)
				if err != nil {
					return err
				}
				for ref, n := range counts {
					if now[ref] != n {
						return fmt.Errorf("%d items came under the revision %s after it was over", now[ref]-n, ref)
					}
				}
				counts = now
				revision.Store(made)
			}
			return nil
		}))
	}},
}

// countReferences counts a queue's items by their references.
func countReferences(f *fixture, q queue.Number) (map[string]int, error) {
	items, err := listAll(f.Context(), f.store, queue.ListRequest{Queue: q, Limit: 1000, Content: true})
	counts := map[string]int{}
	for i := range items {
		counts[items[i].Reference]++
	}
	return counts, err
}
