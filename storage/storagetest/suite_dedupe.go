package storagetest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

const dedupeTTL = 24 * time.Hour

// keyed returns an item with an idempotency key, scoped to its queue.
func (f *fixture) keyed(q queue.Number, key, body string) queue.NewItem {
	item := f.item(q)
	item.Payload = []byte(body)
	item.Dedupe = &queue.Dedupe{Scope: q, Key: key, Hash: sha256.Sum256([]byte(body)), TTL: dedupeTTL}
	return item
}

func (f *fixture) wantDuplicate(what string, got queue.Produced, of queue.ID) {
	f.Helper()
	if !got.Duplicate || got.ID != of || !got.DueAt.IsZero() {
		f.Errorf("%s: got %+v, want a duplicate of %v, without a due time", what, got, of)
	}
}

func (f *fixture) wantFresh(what string, got queue.Produced, id queue.ID) {
	f.Helper()
	if got.Duplicate || got.ID != id || got.DueAt.IsZero() {
		f.Errorf("%s: got %+v, want %v as a new item", what, got, id)
	}
}

func (f *fixture) wantMismatch(got queue.ProduceResult, index int) {
	f.Helper()
	mismatch, ok := errors.AsType[*queue.MismatchError](got.Err)
	if !errors.Is(got.Err, queue.ErrMismatch) || !ok || mismatch.Index != index || len(got.Items) != 0 {
		f.Errorf("got %+v, want a mismatch at item %d and no items", got, index)
	}
}

var dedupeCases = []testCase{
	{"Dedupe_SameBodyAnswersTheFirstItem", func(f *fixture) {
		q := f.queue()
		first := f.keyed(q, "k", "body")
		f.wantFresh("first", f.produce(first)[0], first.ID)
		plain := f.item(q)
		got := f.produce(plain, f.keyed(q, "k", "body"), f.keyed(q, "other", "body"))
		f.wantFresh("no key", got[0], plain.ID)
		f.wantDuplicate("same key", got[1], first.ID)
		if got[2].Duplicate {
			f.Error("another key is a duplicate")
		}
		if total := f.stats(q).Total; total != 3 {
			f.Errorf("the queue holds %d items, want 3", total)
		}
	}},
	{"Dedupe_OtherBodyFailsItsGroupOnly", func(f *fixture) {
		q := f.queue()
		first := f.keyed(q, "k", "body")
		f.produce(first)
		before, after := f.item(q), f.item(q)
		results := f.produceGroups(
			queue.ProduceGroup{Items: []queue.NewItem{before}},
			queue.ProduceGroup{Items: []queue.NewItem{f.item(q), f.keyed(q, "k", "other")}},
			queue.ProduceGroup{Items: []queue.NewItem{after}},
		)
		f.wantMismatch(results[1], 1)
		f.wantFresh("before", results[0].Items[0], before.ID)
		f.wantFresh("after", results[2].Items[0], after.ID)
		f.wantIDs("queue", f.list(q), first.ID, before.ID, after.ID)
	}},
	{"D15_MismatchedGroupLeavesNothing", func(f *fixture) {
		q := f.queue()
		f.produce(f.keyed(q, "k", "body"))
		fresh := f.keyed(q, "fresh", "body")
		results := f.produceGroups(queue.ProduceGroup{Items: []queue.NewItem{fresh, f.keyed(q, "k", "other")}})
		f.wantMismatch(results[0], 1)
		// The key of the item that was not inserted is not known.
		again := f.keyed(q, "fresh", "another body")
		f.wantFresh("key of the failed group", f.produce(again)[0], again.ID)
		if found := f.find(fresh.ID); len(found) != 0 {
			f.Error("an item of the failed group lives")
		}
	}},
	{"Dedupe_TwoEqualKeysInOneGroup", func(f *fixture) {
		q := f.queue()
		first := f.keyed(q, "k", "body")
		got := f.produce(first, f.keyed(q, "k", "body"))
		f.wantFresh("first", got[0], first.ID)
		f.wantDuplicate("second", got[1], first.ID)
		results := f.produceGroups(queue.ProduceGroup{Items: []queue.NewItem{f.keyed(q, "l", "a"), f.item(q), f.keyed(q, "l", "b")}})
		f.wantMismatch(results[0], 2)
		f.wantIDs("queue", f.list(q), first.ID)
	}},
	{"Dedupe_TwoEqualKeysInTwoGroups", func(f *fixture) {
		q := f.queue()
		first := f.keyed(q, "k", "body")
		results := f.produceGroups(
			queue.ProduceGroup{Items: []queue.NewItem{first}},
			queue.ProduceGroup{Items: []queue.NewItem{f.keyed(q, "k", "body")}},
			queue.ProduceGroup{Items: []queue.NewItem{f.keyed(q, "k", "other")}},
		)
		f.wantFresh("first", results[0].Items[0], first.ID)
		f.wantDuplicate("second", results[1].Items[0], first.ID)
		f.wantMismatch(results[2], 0)
		f.wantIDs("queue", f.list(q), first.ID)
	}},
	{"Dedupe_KeyOfAFailedGroupIsFreeForTheNext", func(f *fixture) {
		q := f.queue()
		f.produce(f.keyed(q, "k", "body"))
		second := f.keyed(q, "fresh", "b")
		results := f.produceGroups(
			queue.ProduceGroup{Items: []queue.NewItem{f.keyed(q, "fresh", "a"), f.keyed(q, "k", "other")}},
			queue.ProduceGroup{Items: []queue.NewItem{second}},
		)
		f.wantMismatch(results[0], 1)
		if results[1].Err != nil {
			f.Fatalf("second group: %v", results[1].Err)
		}
		f.wantFresh("second group", results[1].Items[0], second.ID)
	}},
	{"Dedupe_KeysEndWithTheirTime", func(f *fixture) {
		q := f.queue()
		first := f.keyed(q, "k", "body")
		f.produce(first)
		f.clock.Advance(dedupeTTL - time.Microsecond)
		f.wantDuplicate("a microsecond before", f.produce(f.keyed(q, "k", "body"))[0], first.ID)
		// A duplicate does not prolong the key.
		f.clock.Advance(2 * time.Microsecond)
		second := f.keyed(q, "k", "another body")
		f.wantFresh("after its time", f.produce(second)[0], second.ID)
		f.wantDuplicate("the key anew", f.produce(f.keyed(q, "k", "another body"))[0], second.ID)
	}},
	{"Dedupe_TidyDropsOldKeysOnly", func(f *fixture) {
		q := f.queue()
		f.produce(f.keyed(q, "old", "body"))
		f.clock.Advance(dedupeTTL / 2)
		newer := f.keyed(q, "new", "body")
		f.produce(newer)
		f.clock.Advance(dedupeTTL/2 + time.Second)
		f.tidy(time.Hour)
		f.wantDuplicate("key within its time", f.produce(f.keyed(q, "new", "body"))[0], newer.ID)
		old := f.keyed(q, "old", "another body")
		f.wantFresh("old key", f.produce(old)[0], old.ID)
	}},
	{"Dedupe_TidySparesAKeyThatWasUsedAnew", func(f *fixture) {
		q := f.queue()
		f.produce(f.keyed(q, "k", "body"))
		f.clock.Advance(dedupeTTL + time.Second)
		second := f.keyed(q, "k", "another body")
		f.produce(second)
		f.tidy(time.Hour)
		f.wantDuplicate("after Tidy", f.produce(f.keyed(q, "k", "another body"))[0], second.ID)
	}},
	{"Dedupe_ScopesAndCallsAreApart", func(f *fixture) {
		q, other := f.queue(), f.queue()
		item := f.keyed(q, "k", "body")
		f.produce(item)
		call := f.keyed(q, "k", "another body")
		call.Dedupe.Call = true
		f.wantFresh("call's key", f.produce(call)[0], call.ID)
		elsewhere := f.keyed(other, "k", "another body")
		f.wantFresh("other scope", f.produce(elsewhere)[0], elsewhere.ID)
		// The scope decides, not the queue: a topic's copies share its keys.
		shared := f.keyed(other, "k", "body")
		shared.Dedupe.Scope = q
		f.wantDuplicate("same scope, other queue", f.produce(shared)[0], item.ID)
	}},
	{"Dedupe_KeySurvivesTheItemsEnd", func(f *fixture) {
		q := f.queue()
		completed, purged := f.keyed(q, "completed", "body"), f.keyed(q, "purged", "body")
		f.produce(completed, purged)
		f.apply(complete(f.leaseOne(q, pull(1))))
		f.purge(queue.PurgeRequest{Queue: q, Limit: 10})
		got := f.produce(f.keyed(q, "completed", "body"), f.keyed(q, "purged", "body"))
		f.wantDuplicate("completed", got[0], completed.ID)
		f.wantDuplicate("purged", got[1], purged.ID)
		if total := f.stats(q).Total; total != 0 {
			f.Errorf("the queue holds %d items, want none", total)
		}
	}},
	{"Dedupe_AnItemIsADuplicateOfItself", func(f *fixture) {
		q := f.queue()
		item := f.item(q)
		f.produce(item)
		// As one who was not told what became of the first call.
		got := f.produce(item, f.item(q))
		f.wantDuplicate("the same id", got[0], item.ID)
		if got[1].Duplicate {
			f.Error("another id is a duplicate")
		}
		if total := f.stats(q).Total; total != 2 {
			f.Errorf("the queue holds %d items, want 2", total)
		}
	}},
	{"Dedupe_LongAndOddKeys", func(f *fixture) {
		q := f.queue()
		long := make([]byte, 300)
		for i := range long {
			long[i] = 'x'
		}
		var items []queue.NewItem
		for _, key := range []string{string(long), string(long[:299]), "\x00", "\xff/\x00", " ", "a/b", "a"} {
			items = append(items, f.keyed(q, key, key))
		}
		f.produce(items...)
		for _, item := range items {
			f.wantDuplicate(fmt.Sprintf("key %q", item.Dedupe.Key), f.produce(f.keyed(q, item.Dedupe.Key, item.Dedupe.Key))[0], item.ID)
		}
	}},
}

// tidy calls Tidy until there is no more to do.
func (f *fixture) tidy(keep time.Duration) {
	f.Helper()
	for range maxPages {
		more, err := f.store.Tidy(f.Context(), keep)
		if err != nil {
			f.Fatalf("Tidy: %v", err)
		}
		if !more {
			return
		}
	}
	f.Fatalf("Tidy: %v", errEndless)
}
