package storagetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// everything writes down all that can be read of a store, tokens included.
func (f *fixture) everything(queues ...queue.Number) string {
	f.Helper()
	var all strings.Builder
	for _, q := range queues {
		for _, it := range f.listFrom(queue.ListRequest{Queue: q, Limit: 50, Content: true}) {
			fmt.Fprintln(&all, "item", describe(it))
		}
		at, found := f.nextDue(q)
		fmt.Fprintln(&all, "due", q, clockTime(at), found)
		fmt.Fprintf(&all, "stats %+v\n", f.stats(q))
	}
	docs, err := f.store.List(f.Context(), "kind", 1, "", 100)
	if err != nil {
		f.Fatal(err)
	}
	for _, doc := range docs {
		fmt.Fprintln(&all, "document", doc.Name, doc.Revision, clockTime(doc.WakeAt), string(doc.Value))
	}
	for _, r := range f.read(storage.RecordQuery{Namespace: 1, Limit: 50}) {
		fmt.Fprintln(&all, "record", describeRecord(r))
	}
	return all.String()
}

var durabilityCases = []testCase{
	{"Durability_EverythingIsThereAfterReopen", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		// Two of every state, and something ended.
		for i := range 2 {
			item := f.item(q)
			item.Content, item.ExpireTTL, item.MaxAttempts = wholeContent(), time.Hour, 7
			item.OrderingKey = fmt.Sprint("customer-", i)
			f.produce(item)
			s := retry(f.leaseOne(q, push(1)), time.Minute)
			s.Last, s.Record = queue.Last{Status: 503, Error: "busy"}, attempt("a", "retryable")
			f.apply(s)
			f.buried(q, dead)
			f.apply(complete(f.produceAndLease(q, pull(1))))
			f.produceAndLease(q, queue.Taker{TTL: 5 * time.Hour, Owner: "long", LapseCounts: true})
			f.produceAndLease(q, queue.Taker{TTL: time.Second, Owner: "short"})
		}
		f.clock.Advance(2 * time.Second)
		f.leaseOne(q, queue.Taker{TTL: time.Second, Owner: "again"}) // One lapse is accounted for.
		f.clock.Advance(2 * time.Second)
		scheduled := f.item(q)
		scheduled.Delay = time.Hour
		f.produce(scheduled)
		f.fill(q, 2)
		doc := document(1, "a", 0)
		doc.WakeAt = f.clock.Now().Add(time.Minute)
		doc.Revision = f.put(doc)
		f.put(doc)
		b := document(1, "b", 0)
		b.Revision = f.put(b)
		made := document(1, "made", 0)
		made.WakeAt, b.Value = f.clock.Now().Add(time.Hour), []byte("changed")
		if _, err := f.store.Change(f.Context(), []queue.DocumentChange{changeOf(b), changeOf(made)}); err != nil {
			f.Fatal(err)
		}

		before := f.everything(q, dead)
		f.reopen()
		if got := f.everything(q, dead); got != before {
			f.Errorf("after reopen:\n%s", firstDifference(got, before))
		}
		// And so after a reopen that found nothing new.
		f.reopen()
		if got := f.everything(q, dead); got != before {
			f.Errorf("after the second reopen:\n%s", firstDifference(got, before))
		}
	}},
	{"D15_KeyAndItemAreThereTogether", func(f *fixture) {
		q := f.queue()
		item := f.keyed(q, "k", "body")
		// Who did not wait for the answer finds both, or neither.
		for n := range 3 {
			ctx, cancel := context.WithCancel(f.Context())
			cancel()
			_, err := f.store.Produce(ctx, []queue.ProduceGroup{{Items: []queue.NewItem{f.keyed(q, fmt.Sprint("gone", n), "body")}}})
			if err == nil {
				f.Error("a produce of a context that had ended was answered")
			}
		}
		lost := f.list(q)
		f.produce(item)
		f.reopen()
		f.wantIDs("after reopen", f.list(q), append(idsOf(lost), item.ID)...)
		f.wantDuplicate("after reopen", f.produce(f.keyed(q, "k", "body"))[0], item.ID)
		for n := range 3 {
			again := f.keyed(q, fmt.Sprint("gone", n), "body")
			got := f.produce(again)[0]
			if lives := len(f.find(got.ID)) == 1; got.Duplicate != (got.ID != again.ID) || !lives {
				f.Errorf("key %d: got %+v, whose item lives: %v", n, got, lives)
			}
		}
	}},
	{"Durability_ReceiptsAreGoodAfterReopen", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		f.fill(q, 4)
		leased := f.lease(q, 3)
		stale := f.leaseOne(q, pull(1))
		f.apply(release(stale))
		f.reopen()
		f.wantStatus(f.settle(complete(stale))[0], queue.Stale)
		f.extendOne(extension(leased[0], time.Hour))
		f.apply(complete(leased[0]), retry(leased[1], time.Hour), bury(leased[2], dead))
		again := f.leaseOne(q, pull(1))
		if again.ID != stale.ID || again.Token.Counter <= stale.Token.Counter {
			f.Errorf("got %v with counter %d, want %v above %d", again.ID, again.Token.Counter, stale.ID, stale.Token.Counter)
		}
	}},
	{"Durability_LeasesAreStillHeldAfterReopen", func(f *fixture) {
		q := f.queue()
		leased := f.produceAndLease(q, push(1))
		f.reopen()
		f.wantIDs("lease", f.lease(q, 1))
		f.clock.Advance(2 * leaseTTL)
		f.wantSwept(f.sweep(10), leased.ID)
		f.wantCounters("lease", f.leaseOne(q, push(1)), counters{2, 0, 1})
	}},
	{"Durability_OrderOfArrivalGoesOn", func(f *fixture) {
		q := f.queue()
		ids := f.fill(q, 3)
		f.reopen()
		ids = append(ids, f.fill(q, 3)...) // At the same microsecond.
		f.wantIDs("lease", f.lease(q, 10), ids...)
	}},
	{"Durability_IdempotencyKeysAreKnownAfterReopen", func(f *fixture) {
		q := f.queue()
		first := f.keyed(q, "k", "body")
		f.produce(first)
		f.apply(complete(f.leaseOne(q, pull(1))))
		f.reopen()
		f.wantDuplicate("same body", f.produce(f.keyed(q, "k", "body"))[0], first.ID)
		f.wantMismatch(f.produceGroups(queue.ProduceGroup{Items: []queue.NewItem{f.keyed(q, "k", "other")}})[0], 0)
		f.clock.Advance(dedupeTTL + time.Second)
		f.reopen()
		second := f.keyed(q, "k", "other")
		f.wantFresh("after its time", f.produce(second)[0], second.ID)
	}},
	{"Durability_RevisionsGoOnAfterReopen", func(f *fixture) {
		first := f.put(document(1, "a", 0))
		if err := f.store.Delete(f.Context(), document(1, "a", 0).DocumentKey, first); err != nil {
			f.Fatal(err)
		}
		f.reopen()
		if _, err := f.store.Get(f.Context(), document(1, "a", 0).DocumentKey); !errors.Is(err, queue.ErrNotFound) {
			f.Errorf("Get: got %v, want ErrNotFound", err)
		}
		if again := f.put(document(1, "a", 0)); again <= first {
			f.Errorf("made anew at revision %d, want it above %d", again, first)
		}
	}},
	{"Durability_WhatEndedStaysEnded", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		done := f.produceAndLease(q, pull(1))
		purged := f.fill(q, 1)[0]
		it := f.buried(f.queue(), dead)
		f.apply(complete(done))
		f.purge(queue.PurgeRequest{Keys: []queue.Key{{ID: purged, Queue: q, Home: q}}, Limit: 1})
		f.move(queue.Move{Key: it.Key, Target: it.Home})
		f.reopen()
		f.wantIDs("queue", f.list(q))
		f.wantIDs("dead-letter queue", f.list(dead))
		f.wantIDs("home", f.list(it.Home), it.ID)
	}},
	{"D05_TheClockOfTheStoreGoesOnAfterReopen", func(f *fixture) {
		q := f.queue()
		f.produceAndLease(q, push(1))
		newest := f.clock.Now()
		f.close()
		f.clock.Advance(-time.Hour)
		f.open()
		if !f.store.Durable() {
			f.Skip("the store says that it keeps nothing")
		}
		answer, err := f.store.Produce(f.Context(), []queue.ProduceGroup{{Items: []queue.NewItem{f.item(q)}}})
		if err != nil {
			f.Fatal(err)
		}
		if answer.Now.Before(newest) {
			f.Errorf("now: got %v after %v", answer.Now, newest)
		}
	}},
	{"P11_LargePayloadsAreThereAfterReopen", func(f *fixture) {
		q := f.queue()
		var want []string
		for i := range 5 {
			item := f.item(q)
			item.Payload = []byte(strings.Repeat(string(rune('a'+i)), 1_000_000-i))
			f.produce(item)
			want = append(want, string(item.Payload))
		}
		f.reopen()
		for i, it := range f.lease(q, 10) {
			if string(it.Payload) != want[i] {
				f.Errorf("payload %d: got %d bytes, want %d, or others", i, len(it.Payload), len(want[i]))
			}
		}
	}},
}
