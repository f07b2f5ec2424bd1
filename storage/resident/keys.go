package resident

import (
	"encoding/binary"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// Keys. The first byte is the space; numbers are big-endian, times microseconds.
// Every queue number begins with its namespace's, see [queue.Number].
//
//	s  id 16, queue 8, home 8                              state of an item in memory
//	b  home 8, body 8                                      content, written once
//	m  topic 8, id 16, body 8                              content that copies share
//	o  as m                                                it may have lost the last of them
//	c  queue 8, partition 4, at 8, seq 8, id 16, home 8    state of an item that is not
//	p  id 16, queue 8, home 8                              the c key of such an item
//	x  expires 8, then as c                                when such an item expires
//	k  scope 8, call 1, key                                dedupe key
//	t  until 8, then as k                                  when it is forgotten
//	d  kind, 0, namespace 4, name                          document
//	j  namespace 4, at 8, number 8                         journal record
//	i  namespace 4, id 16, at 8, number 8                  records of an item
//	u  namespace 4, subscription, 0, at 8, number 8        records of a subscription
//
// Content has a name of its own, so that bury and redrive, which change an item's
// queue, leave it where it is. Values of x, o, t, i and u are empty; the others
// begin with a format byte.
const (
	spaceState        = 's'
	spaceContent      = 'b'
	spaceShared       = 'm'
	spaceSuspect      = 'o'
	spaceCold         = 'c'
	spacePointer      = 'p'
	spaceExpiry       = 'x'
	spaceDedupe       = 'k'
	spaceForget       = 't'
	spaceDocument     = 'd'
	spaceRecord       = 'j'
	spaceItem         = 'i'
	spaceSubscription = 'u'
)

var be = binary.BigEndian

// arena hands out byte slices from blocks, since a commit makes many small keys
// and drops them together.
type arena struct{ block []byte }

const arenaBlock = 16 << 10

// bytes returns an empty slice with room for n, which nothing else will use.
func (a *arena) bytes(n int) []byte {
	if n > arenaBlock/4 {
		return make([]byte, 0, n)
	}
	if cap(a.block)-len(a.block) < n {
		a.block = make([]byte, 0, arenaBlock)
	}
	start := len(a.block)
	a.block = a.block[:start+n]
	return a.block[start : start : start+n]
}

func appendItemKey(b []byte, space byte, k queue.Key) []byte {
	b = append(b, space)
	b = append(b, k.ID[:]...)
	b = be.AppendUint64(b, uint64(k.Queue))
	return be.AppendUint64(b, uint64(k.Home))
}

const itemKeySize = 1 + 16 + 8 + 8

func parseItemKey(b []byte) (k queue.Key, ok bool) {
	if len(b) != itemKeySize {
		return k, false
	}
	copy(k.ID[:], b[1:])
	k.Queue = queue.Number(be.Uint64(b[17:]))
	k.Home = queue.Number(be.Uint64(b[25:]))
	return k, true
}

// contentName tells an item's content from all that its id and home have, or had: a body is
// a number that was never given out before.
type contentName struct {
	topic queue.Number // whose copies share it; 0 is the item's own
	body  uint64
}

func appendContentKey(b []byte, of queue.Key, name contentName) []byte {
	if name.topic != 0 {
		return appendSharedKey(b, spaceShared, of.ID, name)
	}
	b = append(b, spaceContent)
	b = be.AppendUint64(b, uint64(of.Home))
	return be.AppendUint64(b, name.body)
}

// contentKeySize is that of the longer kind.
const contentKeySize = sharedKeySize

func appendSharedKey(b []byte, space byte, id queue.ID, name contentName) []byte {
	b = append(b, space)
	b = be.AppendUint64(b, uint64(name.topic))
	b = append(b, id[:]...)
	return be.AppendUint64(b, name.body)
}

const sharedKeySize = 1 + 8 + 16 + 8

func parseSharedKey(b []byte) (id queue.ID, name contentName, ok bool) {
	if len(b) != sharedKeySize {
		return id, name, false
	}
	copy(id[:], b[9:])
	return id, contentName{queue.Number(be.Uint64(b[1:])), be.Uint64(b[25:])}, true
}

// coldPlace is what a key of the cold space says.
type coldPlace struct {
	key  queue.Key
	part int32
	position
}

const coldKeySize = 1 + coldTailSize

const coldTailSize = 8 + 4 + 8 + 8 + 16 + 8

func appendColdKey(b []byte, c coldPlace) []byte {
	return appendColdTail(append(b, spaceCold), c)
}

func appendColdTail(b []byte, c coldPlace) []byte {
	b = appendPosition(b, c.key.Queue, c.part, c.position)
	b = append(b, c.key.ID[:]...)
	return be.AppendUint64(b, uint64(c.key.Home))
}

func appendPosition(b []byte, number queue.Number, part int32, pos position) []byte {
	b = be.AppendUint64(b, uint64(number))
	b = be.AppendUint32(b, uint32(part))
	b = be.AppendUint64(b, uint64(pos.at))
	return be.AppendUint64(b, pos.seq)
}

func parseColdTail(b []byte) (c coldPlace, ok bool) {
	if len(b) != coldTailSize {
		return c, false
	}
	c.key.Queue = queue.Number(be.Uint64(b))
	c.part = int32(be.Uint32(b[8:]))
	c.at = int64(be.Uint64(b[12:]))
	c.seq = be.Uint64(b[20:])
	copy(c.key.ID[:], b[28:])
	c.key.Home = queue.Number(be.Uint64(b[44:]))
	return c, true
}

func appendExpiryKey(b []byte, expires int64, c coldPlace) []byte {
	b = append(b, spaceExpiry)
	b = be.AppendUint64(b, uint64(expires))
	return appendColdTail(b, c)
}

func appendDedupeKey(b []byte, d *queue.Dedupe) []byte {
	return appendDedupeTail(append(b, spaceDedupe), d)
}

func appendDedupeTail(b []byte, d *queue.Dedupe) []byte {
	b = be.AppendUint64(b, uint64(d.Scope))
	b = append(b, flag(d.Call))
	return append(b, d.Key...)
}

func appendForgetKey(b []byte, until int64, d *queue.Dedupe) []byte {
	b = append(b, spaceForget)
	b = be.AppendUint64(b, uint64(until))
	return appendDedupeTail(b, d)
}

func appendDocumentKey(b []byte, k storage.DocumentKey) []byte {
	b = append(b, spaceDocument)
	b = append(b, k.Kind...)
	b = append(b, 0)
	b = be.AppendUint32(b, uint32(k.Namespace))
	return append(b, k.Name...)
}

// line is a record's place in the journal.
type line struct {
	ns     queue.Namespace
	at     int64
	number uint64
}

const lineTailSize = 8 + 8

func appendRecordKey(b []byte, l line) []byte {
	b = append(b, spaceRecord)
	b = be.AppendUint32(b, uint32(l.ns))
	return appendLineTail(b, l)
}

func appendLineTail(b []byte, l line) []byte {
	b = be.AppendUint64(b, uint64(l.at))
	return be.AppendUint64(b, l.number)
}

func appendItemIndex(b []byte, ns queue.Namespace, id queue.ID) []byte {
	b = append(b, spaceItem)
	b = be.AppendUint32(b, uint32(ns))
	return append(b, id[:]...)
}

func appendSubscriptionIndex(b []byte, ns queue.Namespace, name string) []byte {
	b = append(b, spaceSubscription)
	b = be.AppendUint32(b, uint32(ns))
	b = append(b, name...)
	return append(b, 0)
}

// parseLineTail reads the place from the end of any key of the journal.
func parseLineTail(ns queue.Namespace, key []byte) line {
	tail := key[len(key)-lineTailSize:]
	return line{ns: ns, at: int64(be.Uint64(tail)), number: be.Uint64(tail[8:])}
}

// after returns the first key behind all that begin with prefix.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}
