package storagetest

import (
	"maps"
	"slices"

	"github.com/posthaste-io/posthaste/queue"
)

// cloneItem returns a copy that shares nothing with the original.
func cloneItem(it *queue.Item) queue.Item {
	c := *it
	c.Content = cloneContent(&it.Content)
	if it.Dead != nil {
		dead := *it.Dead
		c.Dead = &dead
	}
	return c
}

func cloneContent(content *queue.Content) queue.Content {
	c := *content
	c.Headers = maps.Clone(content.Headers)
	c.Payload = slices.Clone(content.Payload)
	if content.Target != nil {
		target := *content.Target
		c.Target = &target
	}
	return c
}

func cloneRecord(r queue.Record) queue.Record {
	r.Response = slices.Clone(r.Response)
	return r
}
