package storagetest

import (
	"context"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// Produce implements [queue.HotStore].
func (f *Faulty) Produce(ctx context.Context, groups []queue.ProduceGroup) (queue.ProduceAnswer, error) {
	return through(ctx, f, Produce, func() (queue.ProduceAnswer, error) { return f.Backend.Produce(ctx, groups) })
}

// Lease implements [queue.HotStore].
func (f *Faulty) Lease(ctx context.Context, calls []queue.LeaseCall) (queue.LeaseAnswer, error) {
	return through(ctx, f, Lease, func() (queue.LeaseAnswer, error) { return f.Backend.Lease(ctx, calls) })
}

// Settle implements [queue.HotStore].
func (f *Faulty) Settle(ctx context.Context, groups []queue.SettleGroup) (queue.SettleAnswer, error) {
	return through(ctx, f, Settle, func() (queue.SettleAnswer, error) { return f.Backend.Settle(ctx, groups) })
}

// Extend implements [queue.HotStore].
func (f *Faulty) Extend(ctx context.Context, entries []queue.Extension) (queue.ExtendAnswer, error) {
	return through(ctx, f, Extend, func() (queue.ExtendAnswer, error) { return f.Backend.Extend(ctx, entries) })
}

// NextDue implements [queue.HotStore].
func (f *Faulty) NextDue(ctx context.Context) (queue.DueAnswer, error) {
	return through(ctx, f, NextDue, func() (queue.DueAnswer, error) { return f.Backend.NextDue(ctx) })
}

// Sweep implements [queue.ColdStore].
func (f *Faulty) Sweep(ctx context.Context, req queue.SweepRequest) (queue.SweepPage, error) {
	return through(ctx, f, Sweep, func() (queue.SweepPage, error) { return f.Backend.Sweep(ctx, req) })
}

// Tidy implements [queue.ColdStore].
func (f *Faulty) Tidy(ctx context.Context, keep time.Duration) (bool, error) {
	return through(ctx, f, Tidy, func() (bool, error) { return f.Backend.Tidy(ctx, keep) })
}

// Find implements [queue.ColdStore].
func (f *Faulty) Find(ctx context.Context, ids []queue.ID, content bool) ([]queue.Item, error) {
	return through(ctx, f, Find, func() ([]queue.Item, error) { return f.Backend.Find(ctx, ids, content) })
}

// ListItems implements [queue.ColdStore].
func (f *Faulty) ListItems(ctx context.Context, req queue.ListRequest) (queue.ListPage, error) {
	return through(ctx, f, ListItems, func() (queue.ListPage, error) { return f.Backend.ListItems(ctx, req) })
}

// Move implements [queue.ColdStore].
func (f *Faulty) Move(ctx context.Context, entries []queue.Move) ([]queue.MoveStatus, error) {
	return through(ctx, f, Move, func() ([]queue.MoveStatus, error) { return f.Backend.Move(ctx, entries) })
}

// Purge implements [queue.ColdStore].
func (f *Faulty) Purge(ctx context.Context, req queue.PurgeRequest) (queue.PurgeAnswer, error) {
	return through(ctx, f, Purge, func() (queue.PurgeAnswer, error) { return f.Backend.Purge(ctx, req) })
}

// ListKeys implements [queue.ColdStore].
func (f *Faulty) ListKeys(ctx context.Context, req queue.KeysRequest) (queue.KeysPage, error) {
	return through(ctx, f, ListKeys, func() (queue.KeysPage, error) { return f.Backend.ListKeys(ctx, req) })
}

// Stats implements [queue.ColdStore].
func (f *Faulty) Stats(ctx context.Context, queues []queue.Number) ([]queue.Stats, error) {
	return through(ctx, f, Stats, func() ([]queue.Stats, error) { return f.Backend.Stats(ctx, queues) })
}

// Get implements [storage.Documents].
func (f *Faulty) Get(ctx context.Context, key storage.DocumentKey) (storage.Document, error) {
	return through(ctx, f, GetDocument, func() (storage.Document, error) { return f.Backend.Get(ctx, key) })
}

// Put implements [storage.Documents].
func (f *Faulty) Put(ctx context.Context, doc storage.Document, items ...queue.NewItem) (uint64, error) {
	return through(ctx, f, PutDocument, func() (uint64, error) { return f.Backend.Put(ctx, doc, items...) })
}

// List implements [storage.Documents].
func (f *Faulty) List(ctx context.Context, kind string, ns queue.Namespace, after string, limit int) ([]storage.Document, error) {
	return through(ctx, f, ListDocuments, func() ([]storage.Document, error) { return f.Backend.List(ctx, kind, ns, after, limit) })
}

// Records implements [storage.Journal].
func (f *Faulty) Records(ctx context.Context, q storage.RecordQuery) (storage.RecordPage, error) {
	return through(ctx, f, ReadJournal, func() (storage.RecordPage, error) { return f.Backend.Records(ctx, q) })
}

// Delete implements [storage.Documents].
func (f *Faulty) Delete(ctx context.Context, key storage.DocumentKey, revision uint64) error {
	_, err := through(ctx, f, DeleteDocument, func() (struct{}, error) {
		return struct{}{}, f.Backend.Delete(ctx, key, revision)
	})
	return err
}

// Due implements [storage.Documents].
func (f *Faulty) Due(ctx context.Context, kind string, limit int) (storage.DueDocuments, error) {
	return through(ctx, f, DueDocuments, func() (storage.DueDocuments, error) { return f.Backend.Due(ctx, kind, limit) })
}

// Change implements [storage.Documents].
func (f *Faulty) Change(ctx context.Context, changes []queue.DocumentChange) ([]uint64, error) {
	return through(ctx, f, ChangeDocuments, func() ([]uint64, error) { return f.Backend.Change(ctx, changes) })
}
