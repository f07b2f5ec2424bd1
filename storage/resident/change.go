package resident

import (
	"bytes"
	"context"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// Change implements [storage.Documents].
func (s *Store) Change(ctx context.Context, changes []queue.DocumentChange) ([]uint64, error) {
	if err := storage.CheckChanges(changes); err != nil {
		return nil, err
	}
	size := 0
	for i := range changes {
		c := &changes[i]
		if bound := s.options.MaxContent; bound > 0 && len(c.Value)+itemOverhead > bound {
			return nil, &queue.TooLargeError{Field: "value", Limit: bound, Unit: "bytes"}
		}
		size += len(c.Value) + len(c.Kind) + len(c.Name) + itemOverhead
	}
	if err := s.checkSize(size, "changes"); err != nil {
		return nil, err
	}
	if _, err := s.begin(ctx, writes); err != nil {
		return nil, err
	}
	for i := range changes {
		if err := checkRevision(s.documents.get(storage.KeyOf(&changes[i])), changes[i].Revision); err != nil {
			return nil, s.lookAt(ctx, s.last, storage.ChangeError(&changes[i], err))
		}
	}
	revisions, fresh := make([]uint64, len(changes)), make([]*document, len(changes))
	for i := range changes {
		c := &changes[i]
		key := storage.KeyOf(c)
		if stored := s.documents.get(key); stored != nil {
			s.documents.remove(stored)
		}
		fresh[i] = s.newDocument(storage.Document{DocumentKey: key, WakeAt: c.WakeAt, Value: bytes.Clone(c.Value)})
		revisions[i] = fresh[i].Revision
	}
	s.seal()
	for _, doc := range fresh {
		doc.commit = s.last
	}
	return revisions, s.leave(ctx)
}
