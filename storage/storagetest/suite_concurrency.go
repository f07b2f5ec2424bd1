package storagetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// together runs n functions at once and returns the errors that they had.
func together(n int, run func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			<-start
			errs[i] = run(i)
		})
	}
	close(start)
	running.Wait()
	return errs
}

func (f *fixture) wantNoErrors(errs []error) {
	f.Helper()
	for _, err := range errs {
		if err != nil {
			f.Fatal(err)
		}
	}
}

var concurrencyCases = []testCase{
	{"INV03_NoItemIsLeasedTwice", func(f *fixture) {
		const workers, total = 16, 2000
		q, dead := f.queue(), f.queue()
		for range total / 500 {
			f.fill(q, 500)
		}
		var mu sync.Mutex
		seen := map[queue.ID]int{}
		f.wantNoErrors(together(workers, func(worker int) error {
			for {
				answer, err := f.store.Lease(f.Context(), []queue.LeaseCall{{Queue: q, Takers: []queue.Taker{pull(10), pull(10)}}})
				if err != nil {
					return fmt.Errorf("Lease: %w", err)
				}
				var entries []queue.Settlement
				mu.Lock()
				for _, taken := range answer.Calls[0].Takers {
					for _, it := range taken {
						seen[it.ID]++
						entries = append(entries, complete(it))
					}
				}
				mu.Unlock()
				if len(entries) == 0 {
					return nil
				}
				if worker%4 == 0 {
					entries[0] = bury(queue.Item{Key: entries[0].Key, Token: entries[0].Token}, dead)
				}
				settled, err := f.store.Settle(f.Context(), []queue.SettleGroup{{Entries: entries}})
				if err != nil {
					return fmt.Errorf("Settle: %w", err)
				}
				for i, s := range settled.Groups[0] {
					if s.Status != queue.Applied {
						return fmt.Errorf("entry %d: got %s, want applied", i, statusName(s.Status))
					}
				}
			}
		}))
		if len(seen) != total {
			f.Errorf("%d items were leased, want %d", len(seen), total)
		}
		for id, times := range seen {
			if times != 1 {
				f.Errorf("%v was leased %d times", id, times)
			}
		}
		if got := f.stats(q); got.Total != 0 {
			f.Errorf("the queue holds %d items, want none", got.Total)
		}
	}},
	{"D02_OfManySettlementsOneIsApplied", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		for round := range 10 {
			leased := f.produceAndLease(q, pull(1))
			var applied atomic.Int32
			f.wantNoErrors(together(8, func(i int) error {
				s := complete(leased)
				switch i % 4 {
				case 1:
					s = retry(leased, leaseTTL)
				case 2:
					s = release(leased)
					s.Delay = leaseTTL
				case 3:
					s = bury(leased, dead)
				}
				answer, err := f.store.Settle(f.Context(), []queue.SettleGroup{{Entries: []queue.Settlement{s}}})
				if err != nil {
					return fmt.Errorf("Settle: %w", err)
				}
				if answer.Groups[0][0].Status == queue.Applied {
					applied.Add(1)
				}
				return nil
			}))
			if got := applied.Load(); got != 1 {
				f.Errorf("round %d: %d settlements of one lease were applied, want 1", round, got)
			}
		}
	}},
	{"D12_OfManyMovesAndLeasesOneTakesTheItem", func(f *fixture) {
		q, other, dead := f.queue(), f.queue(), f.queue()
		for round := range 10 {
			it := f.buried(q, dead)
			var took atomic.Int32
			f.wantNoErrors(together(9, func(i int) error {
				if i%3 == 0 {
					answer, err := f.store.Lease(f.Context(), []queue.LeaseCall{{Queue: dead, Takers: []queue.Taker{pull(1)}}})
					if err != nil {
						return fmt.Errorf("Lease: %w", err)
					}
					took.Add(int32(len(answer.Calls[0].Takers[0])))
					return nil
				}
				target := q
				if i%3 == 1 {
					target = other
				}
				statuses, err := f.store.Move(f.Context(), []queue.Move{{Key: it.Key, Target: target}})
				if err != nil {
					return fmt.Errorf("Move: %w", err)
				}
				if statuses[0] == queue.Moved {
					took.Add(1)
				}
				return nil
			}))
			if got := took.Load(); got != 1 {
				f.Errorf("round %d: %d took the item, want 1", round, got)
			}
			if copies := f.find(it.ID); len(copies) != 1 {
				f.Errorf("round %d: %d copies live, want 1", round, len(copies))
			}
			for _, at := range []queue.Number{q, other, dead} {
				f.purgeAll(queue.PurgeRequest{Queue: at, Limit: 10})
			}
		}
	}},
	{"I06_OfManyProducesUnderOneKeyOneInserts", func(f *fixture) {
		q := f.queue()
		items := make([]queue.NewItem, 50)
		for i := range items {
			items[i] = f.keyed(q, "k", "body")
		}
		results := make([]queue.Produced, len(items))
		f.wantNoErrors(together(len(items), func(i int) error {
			answer, err := f.store.Produce(f.Context(), []queue.ProduceGroup{{Items: items[i : i+1]}})
			if err != nil {
				return fmt.Errorf("Produce: %w", err)
			}
			if answer.Groups[0].Err != nil {
				return fmt.Errorf("Produce: %w", answer.Groups[0].Err)
			}
			results[i] = answer.Groups[0].Items[0]
			return nil
		}))
		fresh := 0
		for _, p := range results {
			if p.ID != results[0].ID {
				f.Errorf("got id %v and %v, want one", p.ID, results[0].ID)
			}
			if !p.Duplicate {
				fresh++
			}
		}
		f.wantIDs("queue", f.list(q), results[0].ID)
		if fresh != 1 {
			f.Errorf("%d produces inserted, want 1", fresh)
		}
	}},
	{"Documents_OfManyPutsAtOneRevisionOneWins", func(f *fixture) {
		q := f.queue()
		revision := f.put(document(1, "a", 0))
		items := make([]queue.NewItem, 16)
		for i := range items {
			items[i] = f.item(q)
		}
		errs := together(len(items), func(i int) error {
			_, err := f.store.Put(f.Context(), document(1, "a", revision), items[i])
			return err
		})
		won := 0
		for i, err := range errs {
			if err == nil {
				won++
				f.wantIDs("produced by the winner", f.list(q), items[i].ID)
			}
		}
		if won != 1 {
			f.Errorf("%d puts won, want 1", won)
		}
	}},
	{"Journal_LeasingGoesOnWhileTidyDrops", func(f *fixture) {
		const old = 4000
		q := f.queue()
		for range old / 1000 {
			f.fill(q, 1000)
			var entries []queue.Settlement
			for _, it := range f.lease(q, 1000) {
				s := complete(it)
				s.Record = attempt("a", "old")
				s.Record.Response = nil
				entries = append(entries, s)
			}
			f.apply(entries...)
		}
		f.clock.Advance(time.Hour)
		f.fill(q, 200)
		// One call drops a page, so that nothing is held up for longer.
		more, err := f.store.Tidy(f.Context(), time.Minute)
		if err != nil {
			f.Fatal(err)
		}
		left := len(f.read(storage.RecordQuery{Namespace: 1, Limit: 1000}))
		if !more || left < old/2 || left == old {
			f.Fatalf("%d of %d records are left after one call, more %v, want a page less", left, old, more)
		}
		f.wantNoErrors(together(2, func(i int) error {
			if i == 0 {
				for more := true; more; {
					var err error
					if more, err = f.store.Tidy(f.Context(), time.Minute); err != nil {
						return fmt.Errorf("Tidy: %w", err)
					}
				}
				return nil
			}
			for range 200 {
				answer, err := f.store.Lease(f.Context(), []queue.LeaseCall{{Queue: q, Takers: []queue.Taker{push(1)}}})
				if err != nil {
					return fmt.Errorf("Lease: %w", err)
				}
				if got := answer.Calls[0].Takers[0]; len(got) != 1 {
					return fmt.Errorf("leased %d items, want 1", len(got))
				}
			}
			return nil
		}))
		f.wantVerdicts("left", f.read(storage.RecordQuery{Namespace: 1, Limit: 1000}))
	}},
	{"Concurrency_EveryVerbBesideEveryOther", func(f *fixture) {
		// The race detector is the judge; answers are checked by the other cases.
		q, dead := f.queue(), f.queue()
		f.fill(q, 200)
		batches := make([][]queue.NewItem, 20)
		for i := range batches {
			batches[i] = []queue.NewItem{f.item(q), f.item(q)}
		}
		ctx := f.Context()
		consume := func() error {
			for i := range 20 {
				answer, err := f.store.Lease(ctx, []queue.LeaseCall{{Queue: q, Takers: []queue.Taker{pull(5)}}})
				if err != nil {
					return err
				}
				for _, it := range answer.Calls[0].Takers[0] {
					s := []queue.Settlement{complete(it), retry(it, 0), release(it), bury(it, dead)}[i%4]
					if _, err := f.store.Extend(ctx, []queue.Extension{extension(it, leaseTTL)}); err != nil {
						return err
					}
					if _, err := f.store.Settle(ctx, []queue.SettleGroup{{Entries: []queue.Settlement{s}}}); err != nil {
						return err
					}
				}
			}
			return nil
		}
		inspect := func() error {
			for range 20 {
				page, err := f.store.ListItems(ctx, queue.ListRequest{Queue: dead, Limit: 10, Content: true})
				if err != nil {
					return err
				}
				var moves []queue.Move
				for _, it := range page.Items {
					moves = append(moves, queue.Move{Key: it.Key, Target: q})
				}
				if _, err := f.store.Move(ctx, moves); err != nil {
					return err
				}
				if _, err := f.store.Stats(ctx, nil); err != nil {
					return err
				}
				if _, _, err := sweepAll(ctx, f.store, 50); err != nil {
					return err
				}
				if _, err := f.store.NextDue(ctx); err != nil {
					return err
				}
				f.clock.Advance(leaseTTL / 4)
			}
			return nil
		}
		produce := func() error {
			for _, items := range batches {
				if _, err := f.store.Produce(ctx, []queue.ProduceGroup{{Items: items}}); err != nil {
					return err
				}
				if _, err := f.store.Find(ctx, []queue.ID{items[0].ID}, true); err != nil {
					return err
				}
			}
			return nil
		}
		work := []func() error{consume, consume, inspect, produce}
		f.wantNoErrors(together(len(work), func(i int) error { return work[i]() }))
	}},
}
