package storagetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

var errTest = errors.New("as ordered")

func produceOne(ctx context.Context, s queue.Store) (queue.ID, error) {
	item := queue.NewItem{ID: queue.NewID(), Queue: queue.NewNumber(1, 1)}
	_, err := s.Produce(ctx, []queue.ProduceGroup{{Items: []queue.NewItem{item}}})
	return item.ID, err
}

func exists(t *testing.T, s queue.Store, id queue.ID) bool {
	t.Helper()
	found, err := s.Find(t.Context(), []queue.ID{id}, true)
	if err != nil {
		t.Fatal(err)
	}
	return len(found) > 0
}

func TestFaulty_FailsTheCallThatWasOrdered(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		order   func(f *storagetest.Faulty)
		applied bool
	}{
		"before": {func(f *storagetest.Faulty) { f.FailBefore(storagetest.Produce, 2, errTest) }, false},
		"after":  {func(f *storagetest.Faulty) { f.FailAfter(storagetest.Produce, 2, errTest) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := storagetest.NewModel(time.Now)
			f := storagetest.NewFaulty(model)
			if _, err := produceOne(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			test.order(f)
			for call, want := range []error{nil, errTest, nil} {
				id, err := produceOne(t.Context(), f)
				if !errors.Is(err, want) {
					t.Errorf("call %d: got %v, want %v", call, err, want)
				}
				if got, want := exists(t, model, id), err == nil || test.applied; got != want {
					t.Errorf("call %d: item exists is %v, want %v", call, got, want)
				}
			}
			if got := f.Calls(storagetest.Produce); got != 4 {
				t.Errorf("Calls: got %d, want 4", got)
			}
		})
	}
}

func TestFaulty_DownFailsEveryVerbUntilUp(t *testing.T) {
	t.Parallel()
	f := storagetest.NewFaulty(storagetest.NewModel(time.Now))
	id, err := produceOne(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	f.Down()
	for verb, err := range callAll(t.Context(), f) {
		if !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("%s while down: got %v, want ErrUnavailable", verb, err)
		}
		if got, want := f.Calls(verb), 1; verb != storagetest.Produce && got != want {
			t.Errorf("%s: counted %d calls, want %d", verb, got, want)
		}
	}
	f.Up()
	if !exists(t, f, id) {
		t.Error("the item is gone after Up")
	}
}

func TestFaulty_BlockHoldsCallsUntilOpened(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := storagetest.NewFaulty(storagetest.NewModel(time.Now))
		open := f.Block(storagetest.Produce)
		errs := make(chan error, 2) // One for each call.
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, err := produceOne(ctx, f); errs <- err }()
		go func() { _, err := produceOne(t.Context(), f); errs <- err }()
		if err := f.AwaitCalls(t.Context(), storagetest.Produce, 2); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled call: got %v, want context.Canceled", err)
		}
		open()
		if err := <-errs; err != nil {
			t.Errorf("call that was let through: %v", err)
		}
		stats, err := f.Stats(t.Context(), nil)
		if err != nil || len(stats) != 1 || stats[0].Total != 1 {
			t.Errorf("Stats: got %+v, %v, want the one item that was let through", stats, err)
		}
		if _, err := produceOne(t.Context(), f); err != nil {
			t.Errorf("call after open: %v", err)
		}
	})
}

func TestFaulty_AwaitCallsEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := storagetest.NewFaulty(storagetest.NewModel(time.Now))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTest)
	if err := f.AwaitCalls(ctx, storagetest.Lease, 1); !errors.Is(err, errTest) {
		t.Errorf("AwaitCalls: got %v, want the context's cause", err)
	}
}

// callAll calls every verb of a store once and returns their errors.
func callAll(ctx context.Context, b storage.Backend) map[storagetest.Verb]error {
	errs := map[storagetest.Verb]error{}
	_, errs[storagetest.Produce] = b.Produce(ctx, nil)
	_, errs[storagetest.Lease] = b.Lease(ctx, nil)
	_, errs[storagetest.Settle] = b.Settle(ctx, nil)
	_, errs[storagetest.Extend] = b.Extend(ctx, nil)
	_, errs[storagetest.NextDue] = b.NextDue(ctx)
	_, errs[storagetest.Sweep] = b.Sweep(ctx, queue.SweepRequest{Limit: 1})
	_, errs[storagetest.Tidy] = b.Tidy(ctx, time.Hour)
	_, errs[storagetest.Find] = b.Find(ctx, nil, true)
	_, errs[storagetest.ListItems] = b.ListItems(ctx, queue.ListRequest{Limit: 1})
	_, errs[storagetest.Move] = b.Move(ctx, nil)
	_, errs[storagetest.Purge] = b.Purge(ctx, queue.PurgeRequest{Limit: 1})
	_, errs[storagetest.ListKeys] = b.ListKeys(ctx, queue.KeysRequest{})
	_, errs[storagetest.Stats] = b.Stats(ctx, nil)
	_, errs[storagetest.GetDocument] = b.Get(ctx, storage.DocumentKey{Kind: "k", Name: "n"})
	_, errs[storagetest.PutDocument] = b.Put(ctx, storage.Document{DocumentKey: storage.DocumentKey{Kind: "k", Name: "n"}})
	errs[storagetest.DeleteDocument] = b.Delete(ctx, storage.DocumentKey{Kind: "k", Name: "n"}, 1)
	_, errs[storagetest.ListDocuments] = b.List(ctx, "k", 1, "", 1)
	_, errs[storagetest.DueDocuments] = b.Due(ctx, "k", 1)
	_, errs[storagetest.ReadJournal] = b.Records(ctx, storage.RecordQuery{Limit: 1})
	return errs
}
