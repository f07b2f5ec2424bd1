package resident

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/tidwall/btree"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// documents are all in memory: they are few and small beside items, and read for
// every call that names a queue.
type documents struct {
	byName *btree.BTreeG[*document]
	byWake *btree.BTreeG[*document] // those that wake
}

type document struct {
	storage.Document
	wake   int64
	commit *Commit // which wrote it
}

func newDocuments() documents {
	options := btree.Options{NoLocks: true}
	byName := func(a, b *document) bool { return compareKeys(a.DocumentKey, b.DocumentKey) < 0 }
	byWake := func(a, b *document) bool {
		if c := cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.wake, b.wake)); c != 0 {
			return c < 0
		}
		return byName(a, b)
	}
	return documents{btree.NewBTreeGOptions(byName, options), btree.NewBTreeGOptions(byWake, options)}
}

func compareKeys(a, b storage.DocumentKey) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func (d *documents) get(key storage.DocumentKey) *document {
	found, _ := d.byName.Get(&document{Document: storage.Document{DocumentKey: key}})
	return found
}

func (d *documents) remove(doc *document) {
	d.byName.Delete(doc)
	if doc.wake != 0 {
		d.byWake.Delete(doc)
	}
}

func (d *documents) add(doc *document) {
	d.byName.Set(doc)
	if doc.wake != 0 {
		d.byWake.Set(doc)
	}
}

// copy is a document that the caller may keep.
func (d *document) copy() storage.Document {
	c := d.Document
	c.Value = bytes.Clone(c.Value)
	return c
}

// Get implements [storage.Documents].
func (s *Store) Get(ctx context.Context, key storage.DocumentKey) (storage.Document, error) {
	if _, err := s.begin(ctx, reads); err != nil {
		return storage.Document{}, err
	}
	found := s.documents.get(key)
	if found == nil {
		return storage.Document{}, s.lookAt(ctx, s.last, queue.ErrNotFound)
	}
	return found.copy(), s.lookAt(ctx, found.commit, nil)
}

// lookAt ends a verb that changed nothing and depends on one commit alone, with
// an answer that is an error.
func (s *Store) lookAt(ctx context.Context, commit *Commit, answer error) error {
	s.mu.Unlock()
	if err := waitToRead(ctx, commit); err != nil {
		return err
	}
	return answer
}

// Put implements [storage.Documents].
func (s *Store) Put(ctx context.Context, doc storage.Document, items ...queue.NewItem) (revision uint64, err error) {
	arrivals, size, err := s.prepare(items, "items")
	if err != nil {
		return 0, err
	}
	if bound := s.options.MaxContent; bound > 0 && len(doc.Value)+itemOverhead > bound {
		return 0, &queue.TooLargeError{Field: "value", Limit: bound, Unit: "bytes"}
	}
	if err := s.checkSize(size+len(doc.Value)+len(doc.Kind)+len(doc.Name)+itemOverhead, "items"); err != nil {
		return 0, err
	}
	// A document is small, and settling may need one: the dead-letter queue of what
	// is buried.
	in := writes
	if len(items) > 0 {
		in = grows
	}
	now, err := s.begin(ctx, in)
	if err != nil {
		return 0, err
	}
	stored := s.documents.get(doc.DocumentKey)
	if err := checkRevision(stored, doc.Revision); err != nil {
		return 0, s.lookAt(ctx, s.last, err)
	}
	if err := s.checkGuards(arrivals); err != nil {
		return 0, s.lookAt(ctx, s.last, err)
	}
	for i := range arrivals {
		if _, err := s.insert(arrivals[i], now); err != nil {
			return 0, s.abandon(err)
		}
	}
	if stored != nil {
		s.documents.remove(stored)
	}
	doc.Value = bytes.Clone(doc.Value)
	fresh := s.newDocument(doc)
	s.seal()
	fresh.commit = s.last
	if err := s.leave(ctx); err != nil {
		return 0, err
	}
	return fresh.Revision, nil
}

// newDocument keeps a document under a new revision, in place of the one that was removed.
func (s *Store) newDocument(doc storage.Document) *document {
	// The count of all that happens is above any revision that the name ever had.
	fresh := &document{Document: doc}
	fresh.Revision = s.next()
	if !doc.WakeAt.IsZero() {
		fresh.wake = doc.WakeAt.UnixMicro()
		fresh.WakeAt = instant(fresh.wake)
	}
	s.documents.add(fresh)
	if !s.options.Volatile {
		s.put(appendDocumentKey(nil, doc.DocumentKey), encodeDocument(fresh), false)
	}
	return fresh
}

func checkRevision(stored *document, revision uint64) error {
	switch {
	case stored != nil && revision == 0:
		return queue.ErrExists
	case stored == nil && revision != 0:
		return queue.ErrNotFound
	case stored != nil && stored.Revision != revision:
		return queue.ErrRevision
	default:
		return nil
	}
}

// Delete implements [storage.Documents].
func (s *Store) Delete(ctx context.Context, key storage.DocumentKey, revision uint64) error {
	if _, err := s.begin(ctx, writes); err != nil {
		return err
	}
	stored := s.documents.get(key)
	switch {
	case stored == nil:
		return s.lookAt(ctx, s.last, queue.ErrNotFound)
	case stored.Revision != revision:
		return s.lookAt(ctx, s.last, queue.ErrRevision)
	}
	s.documents.remove(stored)
	if !s.options.Volatile {
		s.del(appendDocumentKey(nil, key), false)
	}
	s.seal()
	return s.leave(ctx)
}

// List implements [storage.Documents].
func (s *Store) List(ctx context.Context, kind string, ns queue.Namespace, after string, limit int) ([]storage.Document, error) {
	if _, err := s.begin(ctx, reads); err != nil {
		return nil, err
	}
	pivot := &document{Document: storage.Document{DocumentKey: storage.DocumentKey{Kind: kind, Namespace: ns, Name: after}}}
	var docs []storage.Document
	s.documents.byName.Ascend(pivot, func(d *document) bool {
		if d.Kind != kind || d.Namespace != ns || len(docs) >= limit {
			return false
		}
		if d.Name > after {
			docs = append(docs, d.copy())
		}
		return true
	})
	return docs, s.look(ctx)
}

// Due implements [storage.Documents].
func (s *Store) Due(ctx context.Context, kind string, limit int) (storage.DueDocuments, error) {
	now, err := s.begin(ctx, reads)
	if err != nil {
		return storage.DueDocuments{}, err
	}
	due := storage.DueDocuments{Now: instant(now)}
	from := func(wake int64) *document {
		return &document{Document: storage.Document{DocumentKey: storage.DocumentKey{Kind: kind}}, wake: wake}
	}
	s.documents.byWake.Ascend(from(minWake), func(d *document) bool {
		if d.Kind != kind || d.wake > now || len(due.Documents) >= limit {
			return false
		}
		due.Documents = append(due.Documents, d.copy())
		return true
	})
	s.documents.byWake.Ascend(from(now+1), func(d *document) bool {
		if d.Kind == kind {
			due.Next = d.WakeAt
		}
		return false
	})
	return due, s.look(ctx)
}

// minWake is before any time that a document can wake at.
const minWake = -1 << 63

func encodeDocument(d *document) []byte {
	b := make([]byte, 0, 24+len(d.Value))
	b = append(b, documentFormat)
	b = binary.AppendUvarint(b, d.Revision)
	b = binary.AppendVarint(b, d.wake)
	return append(b, d.Value...)
}

func decodeDocument(key, value []byte) (*document, error) {
	d := &document{}
	kind, rest, ok := bytes.Cut(key[1:], []byte{0})
	r := reader{b: value}
	if !ok || len(rest) < 4 || r.byte() != documentFormat {
		return nil, fmt.Errorf("document %q: %w", key[1:], errCorrupt)
	}
	d.Kind = string(kind)
	d.Namespace = queue.Namespace(be.Uint32(rest))
	d.Name = string(rest[4:])
	d.Revision = r.uvarint()
	d.wake = r.varint()
	d.WakeAt = optional(d.wake)
	d.Value = bytes.Clone(r.b)
	if r.bad {
		return nil, fmt.Errorf("document %q: %w", key[1:], errCorrupt)
	}
	return d, nil
}
