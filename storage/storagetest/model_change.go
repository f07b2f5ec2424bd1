package storagetest

import (
	"context"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// Change implements [storage.Documents].
func (m *Model) Change(ctx context.Context, changes []queue.DocumentChange) ([]uint64, error) {
	if err := storage.CheckChanges(changes); err != nil {
		return nil, err
	}
	_, end, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	for i := range changes {
		c := &changes[i]
		stored, found := m.documents[storage.KeyOf(c)]
		switch {
		case found && c.Revision == 0:
			return nil, storage.ChangeError(c, queue.ErrExists)
		case !found && c.Revision != 0:
			return nil, storage.ChangeError(c, queue.ErrNotFound)
		case found && stored.Revision != c.Revision:
			return nil, storage.ChangeError(c, queue.ErrRevision)
		}
	}
	revisions := make([]uint64, len(changes))
	for i := range changes {
		c := &changes[i]
		key := storage.KeyOf(c)
		m.revision++
		doc := cloneDocument(storage.Document{DocumentKey: key, Revision: m.revision, WakeAt: c.WakeAt, Value: c.Value})
		if !doc.WakeAt.IsZero() {
			doc.WakeAt = instant(doc.WakeAt)
		}
		m.documents[key] = doc
		revisions[i] = m.revision
	}
	return revisions, nil
}
