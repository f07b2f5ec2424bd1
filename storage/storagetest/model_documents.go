package storagetest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// Get implements [storage.Documents].
func (m *Model) Get(ctx context.Context, key storage.DocumentKey) (storage.Document, error) {
	_, end, err := m.begin(ctx)
	if err != nil {
		return storage.Document{}, err
	}
	defer end()
	doc, found := m.documents[key]
	if !found {
		return storage.Document{}, queue.ErrNotFound
	}
	return cloneDocument(doc), nil
}

// Put implements [storage.Documents].
func (m *Model) Put(ctx context.Context, doc storage.Document, items ...queue.NewItem) (revision uint64, err error) {
	now, end, err := m.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	stored, found := m.documents[doc.DocumentKey]
	switch {
	case found && doc.Revision == 0:
		return 0, queue.ErrExists
	case !found && doc.Revision != 0:
		return 0, queue.ErrNotFound
	case stored.Revision != doc.Revision:
		return 0, queue.ErrRevision
	}
	if err := m.checkGuards(items); err != nil {
		return 0, err
	}
	// One count for all documents, so that a name used again starts above its past.
	m.revision++
	doc = cloneDocument(doc)
	doc.Revision = m.revision
	if !doc.WakeAt.IsZero() {
		doc.WakeAt = instant(doc.WakeAt)
	}
	m.documents[doc.DocumentKey] = doc
	for _, item := range items {
		m.insert(item, now)
	}
	return doc.Revision, nil
}

// Delete implements [storage.Documents].
func (m *Model) Delete(ctx context.Context, key storage.DocumentKey, revision uint64) error {
	_, end, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	stored, found := m.documents[key]
	switch {
	case !found:
		return queue.ErrNotFound
	case stored.Revision != revision:
		return queue.ErrRevision
	}
	delete(m.documents, key)
	return nil
}

// List implements [storage.Documents].
func (m *Model) List(ctx context.Context, kind string, ns queue.Namespace, after string, limit int) ([]storage.Document, error) {
	_, end, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var docs []storage.Document
	for key, doc := range m.documents {
		if key.Kind == kind && key.Namespace == ns && key.Name > after {
			docs = append(docs, cloneDocument(doc))
		}
	}
	slices.SortFunc(docs, func(a, b storage.Document) int { return cmp.Compare(a.Name, b.Name) })
	return docs[:min(limit, len(docs))], nil
}

// Due implements [storage.Documents].
func (m *Model) Due(ctx context.Context, kind string, limit int) (storage.DueDocuments, error) {
	now, end, err := m.begin(ctx)
	if err != nil {
		return storage.DueDocuments{}, err
	}
	defer end()
	var due []storage.Document
	var next time.Time
	for key, doc := range m.documents {
		switch {
		case key.Kind != kind || doc.WakeAt.IsZero():
		case !doc.WakeAt.After(now):
			due = append(due, cloneDocument(doc))
		case next.IsZero() || doc.WakeAt.Before(next):
			next = doc.WakeAt
		}
	}
	slices.SortFunc(due, func(a, b storage.Document) int {
		return cmp.Or(a.WakeAt.Compare(b.WakeAt), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return storage.DueDocuments{Documents: due[:min(limit, len(due))], Next: next, Now: now}, nil
}

func cloneDocument(doc storage.Document) storage.Document {
	doc.Value = slices.Clone(doc.Value)
	return doc
}
