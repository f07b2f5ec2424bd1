package storagetest

import (
	"context"
	"errors"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

var lifeCases = []testCase{
	{"Life_ClosedStoreIsUnavailable", func(f *fixture) {
		q := f.queue()
		leased := f.produceAndLease(q, pull(1))
		item, key := f.item(q), document(1, "a", 0).DocumentKey
		f.close()
		ctx, s := f.Context(), f.store
		errs := map[string]error{}
		_, errs["Produce"] = s.Produce(ctx, []queue.ProduceGroup{{Items: []queue.NewItem{item}}})
		_, errs["Lease"] = s.Lease(ctx, []queue.LeaseCall{{Queue: q, Takers: []queue.Taker{pull(1)}}})
		_, errs["Settle"] = s.Settle(ctx, []queue.SettleGroup{{Entries: []queue.Settlement{complete(leased)}}})
		_, errs["Extend"] = s.Extend(ctx, []queue.Extension{extension(leased, leaseTTL)})
		_, errs["NextDue"] = s.NextDue(ctx)
		_, errs["Sweep"] = s.Sweep(ctx, queue.SweepRequest{Limit: 10})
		_, errs["Tidy"] = s.Tidy(ctx, time.Hour)
		_, errs["Find"] = s.Find(ctx, []queue.ID{leased.ID}, true)
		_, errs["ListItems"] = s.ListItems(ctx, queue.ListRequest{Queue: q, Limit: 10})
		_, errs["Move"] = s.Move(ctx, []queue.Move{{Key: leased.Key, Target: f.queue()}})
		_, errs["Purge"] = s.Purge(ctx, queue.PurgeRequest{Queue: q, Limit: 10})
		_, errs["ListKeys"] = s.ListKeys(ctx, queue.KeysRequest{Queue: q, Limit: 10})
		_, errs["Stats"] = s.Stats(ctx, nil)
		_, errs["Get"] = s.Get(ctx, key)
		_, errs["Put"] = s.Put(ctx, document(1, "a", 0))
		errs["Delete"] = s.Delete(ctx, key, 1)
		_, errs["List"] = s.List(ctx, "kind", 1, "", 10)
		_, errs["Due"] = s.Due(ctx, "kind", 10)
		_, errs["Records"] = s.Records(ctx, storage.RecordQuery{Namespace: 1, Limit: 10})
		for verb, err := range errs {
			if !errors.Is(err, queue.ErrUnavailable) {
				f.Errorf("%s: got %v, want ErrUnavailable", verb, err)
			}
		}
	}},
	{"Life_OpenStoreIsWell", func(f *fixture) {
		f.fill(f.queue(), 1)
		select {
		case <-f.store.Failed():
			f.Error("Failed is closed")
		default:
		}
		if err := f.store.Err(); err != nil {
			f.Errorf("Err: %v", err)
		}
	}},
	{"Life_EndedContextAppliesAllOrNothing", func(f *fixture) {
		q := f.queue()
		leased := f.produceAndLease(q, pull(1))
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		item := f.item(q)
		_, err := f.store.Produce(ctx, []queue.ProduceGroup{{Items: []queue.NewItem{item}}})
		if err != nil && !errors.Is(err, context.Canceled) {
			f.Errorf("Produce: got %v, want context.Canceled or nothing", err)
		}
		if got, want := len(f.find(item.ID)), 1; (got == want) != (err == nil) {
			f.Errorf("Produce answered %v, and %d items live", err, got)
		}
		_, err = f.store.Settle(ctx, []queue.SettleGroup{{Entries: []queue.Settlement{complete(leased)}}})
		if err != nil && !errors.Is(err, context.Canceled) {
			f.Errorf("Settle: got %v, want context.Canceled or nothing", err)
		}
		if got, want := len(f.find(leased.ID)), 0; (got == want) != (err == nil) {
			f.Errorf("Settle answered %v, and %d items live", err, got)
		}
		_, err = f.store.Put(ctx, document(1, "a", 0))
		_, getErr := f.store.Get(f.Context(), document(1, "a", 0).DocumentKey)
		if (err == nil) != (getErr == nil) {
			f.Errorf("Put answered %v, and then Get %v", err, getErr)
		}
	}},
	{"Life_EmptyCallsAreAnswered", func(f *fixture) {
		f.produceGroups()
		f.produceGroups(queue.ProduceGroup{})
		f.settleGroups()
		f.settleGroups(queue.SettleGroup{})
		f.leaseCalls()
		f.leaseFor(f.queue())
		f.extend()
		f.move()
		if got := f.purge(queue.PurgeRequest{Queue: f.queue(), Limit: 10}); got != (queue.PurgeAnswer{}) {
			f.Errorf("Purge: got %+v, want nothing", got)
		}
	}},
	{"Life_AnswersCarryTheStoresTime", func(f *fixture) {
		q := f.queue()
		f.clock.Advance(time.Minute)
		ctx, now := f.Context(), f.clock.Now()
		produced, err1 := f.store.Produce(ctx, []queue.ProduceGroup{{Items: []queue.NewItem{f.item(q)}}})
		leased, err2 := f.store.Lease(ctx, []queue.LeaseCall{{Queue: q, Takers: []queue.Taker{pull(1)}}})
		if err := errors.Join(err1, err2); err != nil {
			f.Fatal(err)
		}
		it := leased.Calls[0].Takers[0][0]
		extended, err1 := f.store.Extend(ctx, []queue.Extension{extension(it, time.Hour)})
		settled, err2 := f.store.Settle(ctx, []queue.SettleGroup{{Entries: []queue.Settlement{release(it)}}})
		listed, err3 := f.store.ListItems(ctx, queue.ListRequest{Queue: q, Limit: 1})
		swept, err4 := f.store.Sweep(ctx, queue.SweepRequest{Limit: 1})
		due, err5 := f.store.NextDue(ctx)
		if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
			f.Fatal(err)
		}
		for verb, got := range map[string]time.Time{
			"Produce": produced.Now, "Lease": leased.Now, "Extend": extended.Now, "Settle": settled.Now,
			"ListItems": listed.Now, "Sweep": swept.Now, "NextDue": due.Now,
		} {
			f.wantTime(verb, got, now)
		}
	}},
}
