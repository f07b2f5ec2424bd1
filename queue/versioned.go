package queue

import "time"

// Versioned is a stored value with the revision that a change of it must name.
type Versioned[T any] struct {
	Namespace Namespace
	Name      string
	Revision  uint64
	// WakeAt is when it falls due, or zero.
	WakeAt time.Time
	Value  T
}

// Due is what has fallen due of a collection of values.
type Due[T any] struct {
	// Values are in the order of their times, earliest first.
	Values []Versioned[T]
	// Unreadable fell due as well.
	Unreadable []Unreadable
	// Next is the earliest time that is still to come, zero if there is none.
	Next time.Time
	// Now is the store's time, by which that was judged.
	Now time.Time
}

// Len is how many fell due.
func (d *Due[T]) Len() int { return len(d.Values) + len(d.Unreadable) }

// Unreadable names a stored value that this release cannot read.
type Unreadable struct {
	Namespace Namespace
	Name      string
	Revision  uint64
	WakeAt    time.Time
	// Err says why, and names it.
	Err error
}
