package storagetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// changeDocuments changes some documents together, most often as one who knows them all.
func (c *comparison) changeDocuments() error {
	var docs []storage.Document
	for _, i := range c.rng.Perm(8)[:c.rng.IntN(4)] {
		doc := document(queue.Namespace(1+i/4), string("abcd"[i%4]), 0)
		doc.Value = []byte(fmt.Sprint("value ", c.rng.IntN(100)))
		if chance(c.rng, 50) {
			doc.WakeAt = c.clock.Now().Add(time.Duration(c.rng.IntN(60)) * time.Second)
		}
		docs = append(docs, doc)
	}
	// One of them as somebody who does not know that it is there, or that it is not.
	ignorant := -1
	if chance(c.rng, 20) {
		ignorant = c.rng.IntN(4)
	}
	var sides [2][]queue.DocumentChange
	for i, doc := range docs {
		for side := range sides {
			doc.Revision = c.revisions[doc.DocumentKey][side]
			if i == ignorant {
				doc.Revision = 0
			}
			sides[side] = append(sides[side], changeOf(doc))
		}
	}
	var newest [2][]uint64
	var refused error
	err := c.both(func(side int, b storage.Backend) (string, error) {
		newest[side], refused = b.Change(c.ctx, sides[side])
		for _, known := range []error{queue.ErrExists, queue.ErrRevision, queue.ErrNotFound} {
			if errors.Is(refused, known) {
				return known.Error(), nil
			}
		}
		return "done", refused
	})
	if err != nil || refused != nil {
		return err
	}
	for i, doc := range docs {
		c.revisions[doc.DocumentKey] = [2]uint64{newest[0][i], newest[1][i]}
	}
	return nil
}
