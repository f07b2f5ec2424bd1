package queue

import (
	"fmt"

	"github.com/google/uuid"
)

// ID names an item for its whole life: a UUIDv7, made before the first write,
// kept by bury, redrive and copies, and sent as webhook-id with every attempt.
type ID [16]byte

// NewID returns a fresh id. Safe for concurrent use; ids made by one process
// rise in the order in which they were made.
func NewID() ID {
	return ID(uuid.Must(uuid.NewV7()))
}

// ParseID reads the canonical form, 36 characters in lower case.
func ParseID(s string) (ID, error) {
	id, err := uuid.Parse(s)
	if err != nil || id.String() != s {
		return ID{}, fmt.Errorf("not an item id: %.40q", s)
	}
	return ID(id), nil
}

// String returns the canonical form, such as 0190163d-8694-739b-aea5-966c26f8ad91.
func (id ID) String() string { return uuid.UUID(id).String() }

// IsZero reports whether the id was never set.
func (id ID) IsZero() bool { return id == ID{} }

// Namespace is a tenant's number. Numbers are never reused.
type Namespace uint32

// DefaultNamespace is the one that exists from the start.
const DefaultNamespace Namespace = 1

// Number names a queue for ever: its namespace's number in the upper 32 bits,
// its own in the lower. Numbers are never reused, so no key of a deleted queue
// can meet a new one, and no key is without its namespace.
type Number uint64

// NewNumber joins a namespace and a queue's own number, counted from 1.
func NewNumber(ns Namespace, own uint32) Number {
	return Number(uint64(ns)<<32 | uint64(own))
}

// Namespace returns the tenant that the queue belongs to.
func (n Number) Namespace() Namespace { return Namespace(n >> 32) }

// Own returns the queue's number within its namespace.
func (n Number) Own() uint32 { return uint32(n) }

// Key is an item's place of residence. Home is the queue where produce put it,
// so that copies of one item can meet in one dead-letter queue, and redrive
// knows the way back.
type Key struct {
	ID    ID
	Queue Number
	Home  Number
}

// Token fences an item. Counter rises at every lease and at every settlement and
// never falls; Random makes a token unguessable, and different should a counter
// repeat after a restore. Both must match: equality fences, order alone does not.
type Token struct {
	Counter uint64
	Random  uint64
}
