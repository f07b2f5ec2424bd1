package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// MaxValue bounds [Document.Value], in bytes.
const MaxValue = 1_000_000

// jsonFormat is the first byte of a stored value; JSON follows it. Another
// layout gets another byte.
const jsonFormat = 1

// Collection keeps values of one type as documents of one kind. Its methods name
// nothing of this package, so that a domain package can ask for it with a small
// interface of its own.
//
// Values are stored as JSON, so fields may be added, but not renamed or given
// another meaning; strings must be valid UTF-8.
//
// Errors are those of [Documents], wrapped with the kind and the name. Methods
// may be called concurrently.
type Collection[T any] struct {
	documents Documents
	kind      string
}

// NewCollection returns the collection of a kind, such as "queue".
func NewCollection[T any](documents Documents, kind string) *Collection[T] {
	return &Collection[T]{documents: documents, kind: kind}
}

// Kind is that of the documents.
func (c *Collection[T]) Kind() string { return c.kind }

// Get returns a value and its revision.
func (c *Collection[T]) Get(ctx context.Context, ns queue.Namespace, name string) (value T, revision uint64, err error) {
	doc, err := c.documents.Get(ctx, c.key(ns, name))
	if err != nil {
		return value, 0, c.wrap(name, err)
	}
	if value, err = decode[T](doc.Value); err != nil {
		return value, 0, c.wrap(name, err)
	}
	return value, doc.Revision, nil
}

// Put writes a value if revision is the stored one (0: if there is none), makes
// Due return it from wakeAt on (zero: never), and inserts the items in the same
// transaction. It returns the new revision.
func (c *Collection[T]) Put(ctx context.Context, ns queue.Namespace, name string, value T, revision uint64, wakeAt time.Time, items ...queue.NewItem) (uint64, error) {
	encoded, err := encode(value)
	if err != nil {
		return 0, c.wrap(name, err)
	}
	doc := Document{DocumentKey: c.key(ns, name), Revision: revision, WakeAt: wakeAt, Value: encoded}
	revision, err = c.documents.Put(ctx, doc, items...)
	if err != nil {
		return 0, c.wrap(name, err)
	}
	return revision, nil
}

// Delete removes a value if revision is the stored one.
func (c *Collection[T]) Delete(ctx context.Context, ns queue.Namespace, name string, revision uint64) error {
	if err := c.documents.Delete(ctx, c.key(ns, name), revision); err != nil {
		return c.wrap(name, err)
	}
	return nil
}

// PutChange is what [Documents.Change] is given to have a value put together with others,
// as by Put.
func (c *Collection[T]) PutChange(ns queue.Namespace, name string, value T, revision uint64, wakeAt time.Time) (queue.DocumentChange, error) {
	encoded, err := encode(value)
	if err != nil {
		return queue.DocumentChange{}, c.wrap(name, err)
	}
	guard := queue.DocumentGuard{Kind: c.kind, Namespace: ns, Name: name, Revision: revision}
	return queue.DocumentChange{DocumentGuard: guard, WakeAt: wakeAt, Value: encoded}, nil
}

// Revision returns that of a value, also of one that cannot be read.
func (c *Collection[T]) Revision(ctx context.Context, ns queue.Namespace, name string) (uint64, error) {
	doc, err := c.documents.Get(ctx, c.key(ns, name))
	if err != nil {
		return 0, c.wrap(name, err)
	}
	return doc.Revision, nil
}

// List returns a namespace's values in the order of their names, after the one
// named (or from the first), at most limit. One that cannot be read is an error.
func (c *Collection[T]) List(ctx context.Context, ns queue.Namespace, after string, limit int) ([]queue.Versioned[T], error) {
	values, err := c.ListAll(ctx, ns, after, limit)
	if err != nil {
		return nil, err
	}
	for i := range values {
		if values[i].Err != nil {
			return nil, values[i].Err
		}
	}
	return values, nil
}

// ListAll is List with those values that cannot be read, each with the reason.
func (c *Collection[T]) ListAll(ctx context.Context, ns queue.Namespace, after string, limit int) ([]queue.Versioned[T], error) {
	docs, err := c.documents.List(ctx, c.kind, ns, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", c.kind, err)
	}
	return c.versioned(docs), nil
}

// Due returns values of any namespace whose time has come by the store's clock,
// earliest first. One that cannot be read is told as such, and hides no other.
func (c *Collection[T]) Due(ctx context.Context, limit int) (queue.Due[T], error) {
	found, err := c.documents.Due(ctx, c.kind, limit)
	if err != nil {
		return queue.Due[T]{}, fmt.Errorf("due %s: %w", c.kind, err)
	}
	return queue.Due[T]{Values: c.versioned(found.Documents), Next: found.Next, Now: found.Now}, nil
}

func (c *Collection[T]) key(ns queue.Namespace, name string) DocumentKey {
	return DocumentKey{Kind: c.kind, Namespace: ns, Name: name}
}

func (c *Collection[T]) wrap(name string, err error) error {
	return fmt.Errorf("%s %s: %w", c.kind, name, err)
}

func (c *Collection[T]) versioned(docs []Document) []queue.Versioned[T] {
	values := make([]queue.Versioned[T], len(docs))
	for i, doc := range docs {
		value, err := decode[T](doc.Value)
		if err != nil {
			err = c.wrap(doc.Name, err)
		}
		values[i] = queue.Versioned[T]{
			Namespace: doc.Namespace, Name: doc.Name, Revision: doc.Revision, WakeAt: doc.WakeAt, Value: value, Err: err,
		}
	}
	return values
}

func encode(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	encoded := append([]byte{jsonFormat}, text...)
	if len(encoded) > MaxValue {
		return nil, &queue.TooLargeError{Field: "value", Limit: MaxValue, Unit: "bytes"}
	}
	return encoded, nil
}

func decode[T any](stored []byte) (value T, err error) {
	if len(stored) == 0 {
		return value, errors.New("decode: the stored value is empty")
	}
	if stored[0] != jsonFormat {
		return value, fmt.Errorf("decode: format %d, this release reads %d: written by a newer release, or damaged", stored[0], jsonFormat)
	}
	if err := json.Unmarshal(stored[1:], &value); err != nil {
		return value, fmt.Errorf("decode: %w", err)
	}
	return value, nil
}
