package queue

import (
	"errors"
	"time"
)

// refresh has a line's settings read again if they are too old to give out items by:
// another node may have paused the queue, or deleted it, while nobody came to it here.
// Until then, true says, nobody looks at the line. An idle queue is not read for it.
//
// It is not done by the loop, which works for all queues. l.mu is held.
func (l *leaser) refresh(ln *line) bool {
	if ln.refreshing {
		return true
	}
	known, maxAge := l.b.known, l.b.opts.SettingsAge
	// If that does not work, the line is looked at with what is known.
	if l.draining || len(ln.waiters) == 0 || known.isFresh(ln.queue) || time.Since(ln.refreshedAt) < maxAge {
		return false
	}
	ln.refreshing = true
	queue := ln.queue
	l.refreshes.Go(func() {
		ctx, cancel := l.b.storeContext()
		defer cancel()
		_, err := known.reread(ctx, queue.ns, queue.name)
		l.mu.Lock()
		defer l.mu.Unlock()
		ln.refreshing, ln.refreshedAt = false, time.Now()
		switch {
		case l.lines[queue.number] != ln:
		case errors.Is(err, ErrNotFound) && ln.queue == queue:
			l.dismissLine(ln, errGone(queue)) // one that is used anew is dismissed by the catalog
		default:
			l.markNow(ln)
		}
	})
	return true
}
