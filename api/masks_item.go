package api

import (
	"strings"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// isMaskedItem says whether what a schedule is to produce has a mask where a value should
// be; nil has none.
func isMaskedItem(it *queue.ProduceItem) bool {
	return it != nil && (hasMask(it.Headers) || it.Target != nil && strings.Contains(it.Target.URL, mask))
}

// sameTarget says whether what was given for one target may be sent to the other.
func sameTarget(a, b *queue.Target) bool {
	if a == nil || b == nil {
		return a == b
	}
	return subscriptions.SameHost(b.URL, a.URL)
}

// unmaskItem puts what is kept where an item has masks. A mask that stands for nothing is
// refused, lest it be produced.
func unmaskItem(it, kept *queue.ProduceItem) (err error) {
	if hasMask(it.Headers) && !sameTarget(it.Target, kept.Target) {
		return queue.Invalid("item.headers", "have %s, and the kept values were given for another host than that of item.target; give the values", mask)
	}
	if it.Headers, err = unmaskHeaders("item.headers", it.Headers, kept.Headers); err != nil {
		return err
	}
	if it.Target == nil || !strings.Contains(it.Target.URL, mask) {
		return nil
	}
	var url string
	if kept.Target != nil {
		url = kept.Target.URL
	}
	return unmaskURL("item.target.url", &it.Target.URL, url)
}
