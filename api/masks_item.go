package api

import (
	"strings"

	"github.com/posthaste-io/posthaste/queue"
)

// isMaskedItem says whether what a schedule is to produce has a mask where a value should
// be; nil has none.
func isMaskedItem(it *queue.ProduceItem) bool {
	return it != nil && (hasMask(it.Headers) || it.Target != nil && strings.Contains(it.Target.URL, mask))
}

// unmaskItem puts what is kept where an item has masks. A mask that stands for nothing is
// refused, lest it be produced.
func unmaskItem(it, kept *queue.ProduceItem) (err error) {
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
