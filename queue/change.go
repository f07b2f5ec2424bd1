package queue

import "time"

// DocumentChange is what becomes of one of several documents that a store changes or makes
// together: all of them, or none.
type DocumentChange struct {
	// DocumentGuard names the document and the revision that it must have; 0 is that there
	// is none.
	DocumentGuard
	// WakeAt and Value are what it has from then on; the value may not be changed any more.
	WakeAt time.Time
	Value  []byte
}
