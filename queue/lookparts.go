package queue

// A look is at one partition of a queue, so that all items of an answer are from one: the
// fullest first, and then the others, one after the other. Whoever is to be told that there
// is nothing has been there while each was looked at.

// within are the bits of the first n partitions.
func within(n int32) uint64 { return anywhere >> (MaxPartitions - n) }

// mayHold says whether a look at the line's queue may find something. Where there is one
// partition, whoever marks the line knows.
func (ln *line) mayHold() bool {
	n := ln.queue.extent()
	return n == 1 || ln.unseen&within(n) != 0
}

// choose says which partition a look is at, and takes it as seen. l.mu is held, here and in
// what follows.
func (l *leaser) choose(lk *look) {
	ln := lk.line
	n := ln.queue.extent()
	lk.partitions = n
	if n > 1 {
		l.countLocked(ln.queue)
		among := ln.unseen & within(n)
		if among == 0 {
			among = within(n) // partitions were taken away just now
		}
		lk.partition = ln.queue.spread.choose(among, n)
	}
	ln.unseen &^= 1 << lk.partition
}

// tookFrom is told what a look at one of n partitions brought, and says whether there are
// others to look at before the queue has run dry.
func (ln *line) tookFrom(partition, n int32, items int, drained bool) (goesOn bool) {
	if !drained {
		ln.unseen |= 1 << partition
	}
	if n == 1 {
		return false
	}
	ln.queue.spread.took(partition, items, drained)
	return ln.unseen&within(n) != 0
}

// sawNothing takes note that a look at one of n partitions found nothing more, and returns
// the arrival up to which those in line had a look at every one.
func (ln *line) sawNothing(lk *look, n int32) uint64 {
	if n == 1 {
		return lk.last
	}
	for int32(len(ln.seen)) < n {
		ln.seen = append(ln.seen, 0)
	}
	ln.seen[lk.partition] = max(ln.seen[lk.partition], lk.last)
	seenBy := ln.seen[0]
	for _, arrival := range ln.seen[1:n] {
		seenBy = min(seenBy, arrival)
	}
	return seenBy
}
