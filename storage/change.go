package storage

import (
	"fmt"

	"github.com/posthaste-io/posthaste/queue"
)

// MaxChanges bounds one call of [Documents.Change], in documents.
const MaxChanges = 100

// CheckChanges judges a call of [Documents.Change] by itself, for backends.
func CheckChanges(changes []queue.DocumentChange) error {
	if len(changes) > MaxChanges {
		return &queue.TooLargeError{Field: "changes", Limit: MaxChanges, Unit: "documents"}
	}
	seen := make(map[DocumentKey]bool, len(changes))
	for i := range changes {
		key := KeyOf(&changes[i])
		if seen[key] {
			return fmt.Errorf("%s %s is changed twice in one call", key.Kind, key.Name)
		}
		seen[key] = true
	}
	return nil
}

// KeyOf is the document that a change is about.
func KeyOf(c *queue.DocumentChange) DocumentKey {
	return DocumentKey{Kind: c.Kind, Namespace: c.Namespace, Name: c.Name}
}

// ChangeError adds the document to the reason for which it keeps a change of several from
// being done.
func ChangeError(c *queue.DocumentChange, reason error) error {
	return fmt.Errorf("%s %s: %w", c.Kind, c.Name, reason)
}
