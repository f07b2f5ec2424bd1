package api

import (
	"sync/atomic"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// budget bounds the bytes of request bodies or of answers that are in memory at one
// time, so that many large calls are refused instead of filling it.
type budget struct {
	// what says in a refusal of what there is too much.
	what string
	// reason is what in one word, for metrics.
	reason string
	limit  int64
	used   atomic.Int64
}

// take reserves n bytes or answers [queue.OverloadedError].
func (b *budget) take(n int64) error { return b.takeBelow(b.limit, n) }

// takeBelow is take for those who may not have the whole of it.
func (b *budget) takeBelow(limit, n int64) error {
	if b.used.Add(n) > limit {
		b.used.Add(-n)
		return &queue.OverloadedError{What: b.what, Reason: b.reason, RetryAfter: time.Second}
	}
	return nil
}

func (b *budget) give(n int64) { b.used.Add(-n) }
