package queue

import (
	"runtime"
	"slices"
	"time"
)

// look is one queue's part in a call of the store.
type look struct {
	line   *line
	takers []*waiter
	// queue is that of the line, which may be known by another name when the look ends.
	queue *knownQueue
	// partition is the one that is looked at, of as many as the queue had then.
	partition  int32
	partitions int32
	// last is the arrival of the line's last waiter when the look began.
	last uint64

	result LeaseResult
	now    time.Time
	err    error
	// doomed are, for each taker, how many of its items are not to be given out.
	doomed []int
}

// work gives back and looks, in turns, until there is nothing to do.
func (l *leaser) work() {
	for yielded := false; ; {
		looks, returned := l.gather()
		switch {
		case len(looks) > 0 || len(returned) > 0:
			l.b.release(returned)
			if len(looks) > 0 {
				started := time.Now()
				l.ask(looks)
				l.deal(looks, time.Since(started))
			}
			yielded = false
		case !yielded:
			runtime.Gosched() // as batchers do, and why
			yielded = true
		case l.rest():
			return
		}
	}
}

// gather takes what is to be done now.
func (l *leaser) gather() (looks []*look, returned []Item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	returned, l.returned = l.returned, nil
	room := MaxBatchEntries
	for len(l.marked) > 0 {
		ln := l.marked[0]
		if l.refresh(ln) || ln.queue.isPaused(PausedLease) {
			ln.marked = false
			l.marked = slices.Delete(l.marked, 0, 1)
			continue
		}
		if !ln.mayHold() {
			ln.marked = false
			l.marked = slices.Delete(l.marked, 0, 1)
			continue // all of it was seen meanwhile
		}
		n := ln.fitting(&room)
		if n == 0 && len(ln.waiters) > 0 {
			if len(looks) > 0 {
				break // the next call begins with it
			}
			n = 1
		}
		ln.marked = false
		l.marked = slices.Delete(l.marked, 0, 1)
		if n == 0 {
			continue // nobody waits there any more
		}
		lk := &look{line: ln, queue: ln.queue, takers: slices.Clone(ln.waiters[:n]), last: ln.waiters[len(ln.waiters)-1].arrival}
		for _, w := range lk.takers {
			w.looking = true
		}
		l.choose(lk)
		l.inFlight += n
		looks = append(looks, lk)
	}
	return looks, returned
}

// fitting counts the waiters at the head whose limits fit into what is left of a
// call's room, and takes it.
func (ln *line) fitting(room *int) (n int) {
	for _, w := range ln.waiters[:min(len(ln.waiters), takersPerCall)] {
		if w.limit > *room {
			break
		}
		*room -= w.limit
		n++
	}
	return n
}

// rest ends the loop if there is nothing to do.
func (l *leaser) rest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.marked) > 0 || len(l.returned) > 0 {
		return false
	}
	l.working = false
	if l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
	return true
}

// ask makes the call of the store, or the calls, where one for all failed with an
// error that one queue alone may have caused.
func (l *leaser) ask(looks []*look) {
	takers := 0
	for _, lk := range looks {
		takers += len(lk.takers)
	}
	share := max(bytesPerCall/takers, leastShare)
	calls := make([]LeaseCall, len(looks))
	for i, lk := range looks {
		calls[i] = LeaseCall{Queue: lk.queue.number, Partition: lk.partition, Takers: make([]Taker, len(lk.takers))}
		s := lk.queue.settings()
		for j, w := range lk.takers {
			ttl := w.ttl
			if ttl == 0 {
				ttl = s.LeaseTTL
			}
			calls[i].Takers[j] = Taker{
				Limit: w.limit, MaxBytes: min(w.maxBytes, share), TTL: ttl,
				Owner: w.owner, LapseCounts: !w.push,
			}
		}
	}
	ctx, cancel := l.b.storeContext()
	defer cancel()
	answer, err := l.b.store.Lease(ctx, calls)
	if err != nil && len(looks) > 1 && isUnforeseen(err) {
		half := len(looks) / 2
		l.ask(looks[:half])
		l.ask(looks[half:])
		return
	}
	err = foldDeadline(ctx, err)
	for i, lk := range looks {
		if lk.err = err; err == nil {
			lk.result, lk.now = answer.Calls[i], answer.Now
		}
	}
}

// deal answers those who got something, or whose time is up, or who cannot be
// served, and buries what nobody is to see. Who got nothing waits on.
func (l *leaser) deal(looks []*look, took time.Duration) {
	var doomed []doomedItem
	for _, lk := range looks {
		doomed = append(doomed, lk.sortOut(&l.b.ordered)...)
		// Before anybody has the items: they are not ours any more then.
		lk.tellDeadlines(l.b.onDue)
		if lk.result.Corrupt > 0 {
			l.b.log.Error("items could not be read and were left alone", "queue", lk.queue.name, "items", lk.result.Corrupt)
		}
	}
	l.mu.Lock()
	l.pace += (took - l.pace) / 8
	for _, lk := range looks {
		l.inFlight -= len(lk.takers)
		l.serve(lk)
	}
	for _, ended := range l.curious {
		close(ended)
	}
	l.curious = nil
	l.mu.Unlock()
	if _, err := l.b.bury(doomed, Held); err != nil {
		l.b.log.Warn("items over their limits could not be buried; their leases lapse", "items", len(doomed), "error", err)
	}
}

// serve is deal for one queue. l.mu is held.
func (l *leaser) serve(lk *look) {
	drained, brought, doomed := false, 0, 0
	for i, w := range lk.takers {
		w.looking = false
		var items []Item
		if lk.err == nil {
			items = lk.result.Takers[i]
			drained = drained || len(items)+lk.doomed[i] == 0
			brought += len(items)
			doomed += lk.doomed[i]
		}
		switch {
		case w.gone:
			l.giveBack(items)
		case lk.err != nil:
			l.answer(w, LeaseReply{}, lk.err)
		case len(items) > 0:
			l.answer(w, LeaseReply{Partition: lk.partition, Now: lk.now, Items: items}, nil)
		case l.draining:
			l.answer(w, LeaseReply{}, ErrShuttingDown)
		case w.queue.moved.Load():
			l.answer(w, LeaseReply{}, errMoved)
		case w.queue.isDeleted():
			l.answer(w, LeaseReply{}, errGone(w.queue))
		case w.queue.isPaused(PausedLease):
			l.answer(w, w.reply, nil)
		}
	}
	ln := lk.line
	ln.queue.flow.add(brought)
	// Once, since other settings may come at any time.
	partitions := max(lk.partitions, ln.queue.extent())
	goesOn := ln.tookFrom(lk.partition, partitions, brought+doomed, drained)
	if drained {
		if !goesOn {
			ln.restUntil = time.Now().Add(l.restAfter(ln.queue))
		}
		// One taker found nothing, so there was nothing for anybody else either: for
		// those who only got what is buried, and for those in line behind the takers.
		seenBy := ln.sawNothing(lk, partitions)
		for _, w := range ln.waiters {
			if !w.gone && w.arrival <= seenBy {
				l.foundNothing(w, lk.now)
			}
		}
	}
	l.remove(ln)
	switch {
	case len(ln.waiters) == 0:
	case !drained:
		l.mark(ln) // there may be more, or nobody could tell
	case goesOn:
		l.markNow(ln)
	}
}

// restAfter is how long a queue rests that ran dry.
func (l *leaser) restAfter(q *knownQueue) time.Duration {
	during := q.flow.rate * l.pace.Seconds() // items that come while a look is under way
	part := min(max(during-calm, 0), 1)
	return time.Duration(part * float64(min(restPerLook*l.pace, longestRest)))
}

// flow is how many items a queue gives out.
type flow struct {
	// rate is items a second, of late; at is when that was reckoned.
	rate float64
	at   time.Time
}

// add takes what a look brought into the rate.
func (f *flow) add(items int) {
	now := time.Now()
	since := now.Sub(f.at)
	if f.at.IsZero() || since > 10*rateTime { // the first in a while
		*f = flow{at: now}
		return
	}
	since = max(since, time.Microsecond)
	share := min(float64(since)/float64(rateTime), 1)
	f.rate += (float64(items)/since.Seconds() - f.rate) * share
	f.at = now
}

func (l *leaser) foundNothing(w *waiter, now time.Time) {
	w.looked = true
	w.reply.Now = now
	if w.over {
		l.answer(w, w.reply, nil)
	}
}

// sortOut takes what is over its limits out of the takers' items.
func (lk *look) sortOut(ordered *orderedQueues) (doomed []doomedItem) {
	lk.doomed = make([]int, len(lk.takers))
	if lk.err != nil {
		return nil
	}
	s := lk.queue.settings()
	for i, w := range lk.takers {
		items := lk.result.Takers[i]
		kept := items[:0]
		for j := range items {
			it := &items[j]
			ordered.saw(it.Queue, &it.Content)
			reason := s.reasonToBury(it, w.maxAttempts, lk.now)
			if reason == "" {
				kept = append(kept, *it)
				continue
			}
			doomed = append(doomed, doomedItem{item: *it, read: true, queue: lk.queue, reason: reason})
		}
		clear(items[len(kept):])
		lk.result.Takers[i] = kept
		lk.doomed[i] = len(items) - len(kept)
	}
	return doomed
}

// tellDeadlines tells when leases will lapse, if nothing happens: once for each taker.
func (lk *look) tellDeadlines(onDue func(Number, time.Time)) {
	for _, items := range lk.result.Takers {
		if len(items) > 0 {
			onDue(lk.queue.number, items[0].AvailableAt)
		}
	}
}
