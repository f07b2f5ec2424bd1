package telemetry

import (
	"context"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// NextDue implements [queue.Store].
func (s *Store) NextDue(ctx context.Context) (queue.DueAnswer, error) {
	return timed(s, "next_due", func() (queue.DueAnswer, error) { return s.Backend.NextDue(ctx) })
}

// Sweep implements [queue.Store].
func (s *Store) Sweep(ctx context.Context, req queue.SweepRequest) (queue.SweepPage, error) {
	return timed(s, "sweep", func() (queue.SweepPage, error) { return s.Backend.Sweep(ctx, req) })
}

// Tidy implements [queue.Store].
func (s *Store) Tidy(ctx context.Context, keep time.Duration) (more bool, err error) {
	return timed(s, "tidy", func() (bool, error) { return s.Backend.Tidy(ctx, keep) })
}

// Find implements [queue.Store].
func (s *Store) Find(ctx context.Context, ids []queue.ID, content bool) ([]queue.Item, error) {
	return timed(s, "find", func() ([]queue.Item, error) { return s.Backend.Find(ctx, ids, content) })
}

// ListItems implements [queue.Store].
func (s *Store) ListItems(ctx context.Context, req queue.ListRequest) (queue.ListPage, error) {
	return timed(s, "list_items", func() (queue.ListPage, error) { return s.Backend.ListItems(ctx, req) })
}

// Move implements [queue.Store].
func (s *Store) Move(ctx context.Context, entries []queue.Move) ([]queue.MoveStatus, error) {
	statuses, err := timed(s, "move", func() ([]queue.MoveStatus, error) { return s.Backend.Move(ctx, entries) })
	for i, status := range statuses {
		if status == queue.Moved {
			s.m.redriven.add(byQueue{queue: entries[i].Key.Queue}, 1)
		}
	}
	return statuses, err
}

// Purge implements [queue.Store].
func (s *Store) Purge(ctx context.Context, req queue.PurgeRequest) (queue.PurgeAnswer, error) {
	answer, err := timed(s, "purge", func() (queue.PurgeAnswer, error) { return s.Backend.Purge(ctx, req) })
	s.m.cancelled.add(byQueue{queue: purgedFrom(&req)}, int64(answer.Purged))
	return answer, err
}

// purgedFrom is the queue that a purge is about, or 0 if its keys are of several: the
// answer does not say which of them were there.
func purgedFrom(req *queue.PurgeRequest) queue.Number {
	if len(req.Keys) == 0 {
		return req.Queue
	}
	from := req.Keys[0].Queue
	for i := range req.Keys {
		if req.Keys[i].Queue != from {
			return 0
		}
	}
	return from
}

// ListKeys implements [queue.Store].
func (s *Store) ListKeys(ctx context.Context, req queue.KeysRequest) (queue.KeysPage, error) {
	return timed(s, "list_keys", func() (queue.KeysPage, error) { return s.Backend.ListKeys(ctx, req) })
}

// Stats implements [queue.Store].
func (s *Store) Stats(ctx context.Context, queues []queue.Number) ([]queue.Stats, error) {
	return timed(s, "stats", func() ([]queue.Stats, error) { return s.Backend.Stats(ctx, queues) })
}

// Get implements [storage.Documents].
func (s *Store) Get(ctx context.Context, key storage.DocumentKey) (storage.Document, error) {
	return timed(s, "get_document", func() (storage.Document, error) { return s.Backend.Get(ctx, key) })
}

// Put implements [storage.Documents].
func (s *Store) Put(ctx context.Context, doc storage.Document, items ...queue.NewItem) (revision uint64, err error) {
	revision, err = timed(s, "put_document", func() (uint64, error) { return s.Backend.Put(ctx, doc, items...) })
	if err == nil {
		s.m.countBrought(items)
	}
	return revision, err
}

// Delete implements [storage.Documents].
func (s *Store) Delete(ctx context.Context, key storage.DocumentKey, revision uint64) error {
	_, err := timed(s, "delete_document", func() (struct{}, error) { return struct{}{}, s.Backend.Delete(ctx, key, revision) })
	return err
}

// Change implements [storage.Documents].
func (s *Store) Change(ctx context.Context, changes []queue.DocumentChange) ([]uint64, error) {
	return timed(s, "change_documents", func() ([]uint64, error) { return s.Backend.Change(ctx, changes) })
}

// List implements [storage.Documents].
func (s *Store) List(ctx context.Context, kind string, ns queue.Namespace, after string, limit int) ([]storage.Document, error) {
	return timed(s, "list_documents", func() ([]storage.Document, error) { return s.Backend.List(ctx, kind, ns, after, limit) })
}

// Due implements [storage.Documents].
func (s *Store) Due(ctx context.Context, kind string, limit int) (storage.DueDocuments, error) {
	return timed(s, "due_documents", func() (storage.DueDocuments, error) { return s.Backend.Due(ctx, kind, limit) })
}

// Records implements [storage.Journal].
func (s *Store) Records(ctx context.Context, q storage.RecordQuery) (storage.RecordPage, error) {
	return timed(s, "read_journal", func() (storage.RecordPage, error) { return s.Backend.Records(ctx, q) })
}

// timed takes the time of a call.
func timed[A any](s *Store, verb string, call func() (A, error)) (A, error) {
	started := time.Now()
	answer, err := call()
	s.m.called(verb, started, err)
	return answer, err
}
