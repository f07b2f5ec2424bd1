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
