package queue

// backlog is what waits in a batcher: a line for each queue, and whose turn it is. The
// lines with something in them are a ring, so nothing here takes longer the more there
// are, but for oldest. Its batcher's lock guards it.
type backlog[Req, Res any] struct {
	total tally
	lines map[Number]*ticketLine[Req, Res]
	// last is the line that had the last turn, or nil.
	last *ticketLine[Req, Res]
	// spare is a line to be used again: most queues have one call at a time.
	spare *ticketLine[Req, Res]
}

// tally counts what waits.
type tally struct{ calls, entries, bytes int }

// ticketLine is what waits of one queue, in order of arrival. It may be empty until its
// turn comes.
type ticketLine[Req, Res any] struct {
	tally
	queue       Number
	first, last *ticket[Req, Res]
	after       *ticketLine[Req, Res]
}

// of counts what waits of one queue.
func (w *backlog[Req, Res]) of(queue Number) tally {
	if ln := w.lines[queue]; ln != nil {
		return ln.tally
	}
	return tally{}
}

// add puts a ticket at the end of its queue's line.
func (w *backlog[Req, Res]) add(t *ticket[Req, Res]) {
	ln := w.lines[t.queue]
	if ln == nil {
		ln = w.open(t.queue)
	}
	t.line, t.before = ln, ln.last
	if ln.last == nil {
		ln.first = t
	} else {
		ln.last.next = t
	}
	ln.last = t
	ln.count(t.burden, 1)
	w.total.count(t.burden, 1)
}

// open puts a new line where its turn comes after all others.
func (w *backlog[Req, Res]) open(queue Number) *ticketLine[Req, Res] {
	ln := w.spare
	if w.spare = nil; ln == nil {
		ln = new(ticketLine[Req, Res])
	}
	ln.queue = queue
	if w.last == nil {
		ln.after = ln
	} else {
		ln.after = w.last.after
		w.last.after = ln
	}
	w.last = ln
	if w.lines == nil {
		w.lines = map[Number]*ticketLine[Req, Res]{}
	}
	w.lines[queue] = ln
	return ln
}

// next returns the ticket whose turn it is, or nil if nothing waits.
func (w *backlog[Req, Res]) next() *ticket[Req, Res] {
	for w.last != nil {
		ln := w.last.after
		if ln.first != nil {
			return ln.first
		}
		w.drop(ln)
	}
	return nil
}

// drop takes away the line after the last one, which is empty.
func (w *backlog[Req, Res]) drop(ln *ticketLine[Req, Res]) {
	delete(w.lines, ln.queue)
	if ln == w.last {
		w.last = nil
	} else {
		w.last.after = ln.after
	}
	*ln = ticketLine[Req, Res]{}
	w.spare = ln
}

// pass takes out the ticket that next returned, and gives the turn on.
func (w *backlog[Req, Res]) pass(t *ticket[Req, Res]) {
	w.last = t.line
	w.remove(t)
}

// remove takes a ticket out of its line.
func (w *backlog[Req, Res]) remove(t *ticket[Req, Res]) {
	ln := t.line
	if t.before == nil {
		ln.first = t.next
	} else {
		t.before.next = t.next
	}
	if t.next == nil {
		ln.last = t.before
	} else {
		t.next.before = t.before
	}
	t.line, t.before, t.next = nil, nil, nil
	ln.count(t.burden, -1)
	w.total.count(t.burden, -1)
}

// batchesBefore estimates how many full batches go before a call on a queue that comes
// now: of the other queues as many calls pass before it as wait in its own line.
func (w *backlog[Req, Res]) batchesBefore(queue Number) int {
	if w.total.calls == 0 {
		return 0
	}
	calls := min((w.of(queue).calls+1)*len(w.lines), w.total.calls)
	full := max(w.total.entries/MaxBatchEntries, w.total.bytes/MaxBatchBytes)
	return full * calls / w.total.calls
}

// oldest returns the ticket that came first, or nil.
func (w *backlog[Req, Res]) oldest() (oldest *ticket[Req, Res]) {
	for _, ln := range w.lines {
		if t := ln.first; t != nil && (oldest == nil || t.since.Before(oldest.since)) {
			oldest = t
		}
	}
	return oldest
}

func (n *tally) count(of burden, sign int) {
	n.calls += sign
	n.entries += sign * of.entries
	n.bytes += sign * of.bytes
}
