package queue

import "time"

// DocumentChange is what becomes of one of several documents that a store changes
// together: all of them, or none.
type DocumentChange struct {
	// DocumentGuard names the document and the revision that it must have; 0 is that there
	// is none.
	DocumentGuard
	// Delete removes it. Otherwise Value and WakeAt are what it has from then on; the value
	// may not be changed any more.
	Delete bool
	WakeAt time.Time
	Value  []byte
}
