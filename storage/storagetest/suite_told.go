package storagetest

import (
	"errors"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// tells is a settlement that produces items.
func tells(s queue.Settlement, items ...queue.NewItem) queue.Settlement {
	s.Produce = items
	return s
}

// moveToTopic takes an item that nobody holds out of its queue, and puts copies of it into
// others, where it keeps its key.
func moveToTopic(it queue.Item, guard *queue.DocumentGuard, topic queue.Number, queues ...queue.Number) queue.Settlement {
	s := settlement(it, queue.Complete)
	s.Guard = queue.NotLive
	item := fanned(topic, queue.NewItem{ID: it.ID, Content: it.Content}, queues...)
	item.Guard = guard
	return tells(s, item)
}

func (f *fixture) putWith(doc storage.Document, items ...queue.NewItem) error {
	f.Helper()
	_, err := f.store.Put(f.Context(), doc, items...)
	return err
}

// toldTopicCases are about items for topics that come with something else: the end of
// another item, or the change of a document.
var toldTopicCases = []testCase{
	{"Topic_ASettlementIsToldToAll", func(f *fixture) {
		q, topic, a, b := f.queue(), f.queue(), f.queue(), f.queue()
		doc := document(1, "topic", 0)
		revision := f.put(doc)
		told := fanned(topic, f.item(0), a, b)
		told.Copies[1].ExpireTTL = time.Hour
		told.Guard = guardOf(doc, revision)
		nobody := fanned(topic, f.item(0))
		nobody.Guard = told.Guard
		f.fill(q, 2)
		leased := f.lease(q, 2)
		f.apply(tells(complete(leased[0]), told), tells(retry(leased[1], 0), nobody))
		f.wantIDs("a", f.list(a), told.ID)
		f.wantIDs("b", f.list(b), told.ID)
		if f.get(queue.Key{ID: told.ID, Queue: b, Home: b}).ExpiresAt.IsZero() {
			f.Errorf("the copy in b does not expire as its place says")
		}
		f.wantTotal("the topic", topic, 0)
		f.wantTotal("the queue", q, 1)
	}},
	{"Topic_ASettlementsKeyHoldsForAllCopies", func(f *fixture) {
		q, topic, a, b := f.queue(), f.queue(), f.queue(), f.queue()
		first := fanned(topic, f.keyed(topic, "k", "body"), a, b)
		f.produce(first)
		next, none := fanned(topic, f.keyed(topic, "l", "body"), a, b), fanned(topic, f.keyed(topic, "m", "body"))
		f.apply(tells(complete(f.produceAndLease(q, pull(1))), fanned(topic, f.keyed(topic, "k", "body"), a, b), next, none))
		f.wantIDs("a", f.list(a), first.ID, next.ID)
		f.wantIDs("b", f.list(b), first.ID, next.ID)
		f.wantDuplicate("its key", f.produce(fanned(topic, f.keyed(topic, "l", "body"), a))[0], next.ID)
		f.wantDuplicate("that of one without copies", f.produce(fanned(topic, f.keyed(topic, "m", "body"), a))[0], none.ID)
	}},
	{"Guard_FailsItsSettlementsAlone", func(f *fixture) {
		q, topic, a := f.queue(), f.queue(), f.queue()
		doc, gone := document(1, "topic", 0), document(1, "gone", 0)
		old := f.put(doc)
		doc.Revision = old
		newest := f.put(doc)
		f.fill(q, 5)
		leased := f.lease(q, 5)
		stale := leased[1]
		stale.Token.Random++
		made := func(guard *queue.DocumentGuard) queue.NewItem {
			it := fanned(topic, f.item(0), a)
			it.Guard = guard
			return it
		}
		good := made(guardOf(doc, newest))
		groups := f.settleGroups(
			queue.SettleGroup{Entries: []queue.Settlement{tells(complete(leased[0]), made(guardOf(doc, old)))}},
			queue.SettleGroup{Entries: []queue.Settlement{tells(complete(leased[2]), good)}},
			queue.SettleGroup{Entries: []queue.Settlement{complete(stale), tells(complete(leased[3]), made(guardOf(gone, newest)))}},
			queue.SettleGroup{Entries: []queue.Settlement{complete(leased[4])}},
		)
		f.wantStatus(groups[0][0], queue.Overtaken)
		f.wantStatus(groups[1][0], queue.Applied)
		f.wantStatus(groups[2][0], queue.Overtaken)
		f.wantStatus(groups[2][1], queue.Overtaken)
		f.wantStatus(groups[3][0], queue.Applied)
		f.wantIDs("a", f.list(a), good.ID)
		// What was refused is as good as before.
		f.apply(complete(leased[0]), complete(leased[1]), complete(leased[3]))
		f.wantTotal("the queue", q, 0)
	}},
	{"Topic_WhatASettlementProducesIsBoundByItsKey", func(f *fixture) {
		q, a, b := f.queue(), f.queue(), f.queue()
		head := f.ordered(a, "k")
		f.produce(head)
		topic := f.queue()
		first, second := fanned(topic, f.ordered(0, "k"), a, b), fanned(topic, f.ordered(0, "k"), a, b)
		f.apply(tells(complete(f.produceAndLease(q, pull(1))), first, second))
		f.wantBehind(a, first.ID, second.ID)
		f.wantBehind(b, second.ID)
		for _, want := range []queue.ID{head.ID, first.ID, second.ID} {
			it := f.leaseOne(a, pull(1))
			if it.ID != want {
				f.Fatalf("leased %v, want %v", it.ID, want)
			}
			f.apply(complete(it))
		}
	}},
	{"Topic_ASettlementEndsTheKeyThatAnotherProducesTo", func(f *fixture) {
		// In one call the last item of a key ends, and another one comes: it is the head then,
		// in whatever order they are named.
		q := f.queue()
		for _, endsFirst := range []bool{true, false} {
			a := f.queue()
			f.produce(f.ordered(a, "k"))
			ends := queue.SettleGroup{Entries: []queue.Settlement{complete(f.leaseOne(a, pull(1)))}}
			comes := f.ordered(a, "k")
			produces := queue.SettleGroup{Entries: []queue.Settlement{tells(complete(f.produceAndLease(q, pull(1))), comes)}}
			if endsFirst {
				f.settleGroups(ends, produces)
			} else {
				f.settleGroups(produces, ends)
			}
			if it := f.leaseOne(a, pull(1)); it.ID != comes.ID {
				f.Errorf("leased %v, want %v", it.ID, comes.ID)
			}
		}
	}},
	{"Topic_ADeadItemGoesBackToAll", func(f *fixture) {
		q, dead, topic, a, b := f.queue(), f.queue(), f.queue(), f.queue(), f.queue()
		doc := document(1, "topic", 0)
		revision := f.put(doc)
		f.produce(f.ordered(q, "k"))
		leased := f.leaseOne(q, pull(1))
		f.apply(bury(leased, dead))
		it := f.list(dead)[0]
		it.Content = leased.Content
		lives := f.ordered(a, "k")
		f.produce(lives)
		f.wantStatus(f.settle(moveToTopic(it, guardOf(doc, revision+1), topic, a, b))[0], queue.Overtaken)
		f.apply(moveToTopic(it, guardOf(doc, revision), topic, a, b))
		f.wantTotal("the dead-letter queue", dead, 0)
		f.wantIDs("a", f.list(a), lives.ID, it.ID)
		f.wantBehind(a, it.ID)
		if got := f.leaseOne(b, pull(1)); got.ID != it.ID || got.Dead != nil || got.Deliveries != 1 {
			f.Errorf("leased %+v, want the item, anew", got)
		}
		f.wantStatus(f.settle(moveToTopic(it, guardOf(doc, revision), topic, a, b))[0], queue.Gone)
	}},
	{"Topic_TwoSettlementsMoveTheSameItem", func(f *fixture) {
		// Copies of one item that died in two queues come back to a topic in one call.
		deadA, deadB, topic, a := f.queue(), f.queue(), f.queue(), f.queue()
		item := fanned(topic, f.item(0), f.queue(), f.queue())
		f.produce(item)
		var groups []queue.SettleGroup
		for i, dead := range []queue.Number{deadA, deadB} {
			f.apply(bury(f.leaseOne(item.Copies[i].Queue, pull(1)), dead))
			groups = append(groups, queue.SettleGroup{Entries: []queue.Settlement{moveToTopic(f.list(dead)[0], nil, topic, a)}})
		}
		for _, settled := range f.settleGroups(groups...) {
			f.wantStatus(settled[0], queue.Applied)
		}
		f.wantIDs("a", f.list(a), item.ID)
		f.wantTotal("the first dead-letter queue", deadA, 0)
		f.wantTotal("the second", deadB, 0)
	}},
	{"Documents_ItemsForATopic", func(f *fixture) {
		topic, a, b := f.queue(), f.queue(), f.queue()
		guard := document(1, "topic", 0)
		revision := f.put(guard)
		doc := document(1, "schedule", 0)
		refused := fanned(topic, f.keyed(topic, "k", "body"), a)
		refused.Guard = guardOf(guard, revision+1)
		if err := f.putWith(doc, refused); !errors.Is(err, queue.ErrOvertaken) {
			f.Fatalf("Put: got %v, want %v", err, queue.ErrOvertaken)
		}
		if _, err := f.store.Get(f.Context(), doc.DocumentKey); !errors.Is(err, queue.ErrNotFound) {
			f.Fatalf("Get: got %v, want no document", err)
		}
		item, none := fanned(topic, f.keyed(topic, "k", "body"), a, b), fanned(topic, f.keyed(topic, "l", "body"))
		item.Guard = guardOf(guard, revision)
		none.Guard = item.Guard
		if err := f.putWith(doc, item, none); err != nil {
			f.Fatal(err)
		}
		f.wantIDs("a", f.list(a), item.ID)
		f.wantIDs("b", f.list(b), item.ID)
		// The document's own revision is judged first.
		if err := f.putWith(doc, refused); !errors.Is(err, queue.ErrExists) {
			f.Errorf("Put: got %v, want %v", err, queue.ErrExists)
		}
		doc.Revision = 1_000_000
		if err := f.putWith(doc, refused); !errors.Is(err, queue.ErrRevision) {
			f.Errorf("Put: got %v, want %v", err, queue.ErrRevision)
		}
		stored, err := f.store.Get(f.Context(), doc.DocumentKey)
		if err != nil {
			f.Fatal(err)
		}
		if err := f.putWith(stored, fanned(topic, f.keyed(topic, "k", "body"), a, b), fanned(topic, f.keyed(topic, "l", "body"), a)); err != nil {
			f.Fatal(err)
		}
		f.wantTotal("a", a, 1)
		f.wantTotal("b", b, 1)
	}},
	{"Topic_ToldCopiesSurviveAReopen", func(f *fixture) {
		q, topic, a, b := f.queue(), f.queue(), f.queue(), f.queue()
		told := fanned(topic, f.keyed(topic, "k", "body"), a, b)
		f.apply(tells(complete(f.produceAndLease(q, pull(1))), told))
		f.reopen()
		f.wantIDs("a", f.list(a), told.ID)
		f.wantIDs("b", f.list(b), told.ID)
		f.wantDuplicate("key", f.produce(fanned(topic, f.keyed(topic, "k", "body"), a))[0], told.ID)
	}},
}
