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
	// Err is why this release cannot read the value, where answers have such ones; it names it.
	Err error
}

// Due is what has fallen due of a collection of values.
type Due[T any] struct {
	// Values are in the order of their times, earliest first, with those that cannot be read.
	Values []Versioned[T]
	// Next is the earliest time that is still to come, zero if there is none.
	Next time.Time
	// Now is the store's time, by which that was judged.
	Now time.Time
}
