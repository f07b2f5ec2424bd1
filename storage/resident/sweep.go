package resident

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/posthaste-io/posthaste/queue"
)

// A sweep walks in three stages: what lapsed, by partition and deadline; what
// expired and is in memory; what expired and is not. A cursor is the stage and
// the place in it.
const (
	sweepLapsed = iota + 1
	sweepExpired
	sweepCold
)

type sweepPlace struct {
	stage byte
	partitionKey
	// position is by deadline in the first stage, by expiry in the second.
	position
	// key is of the expiry space, in the third.
	key []byte
}

const (
	sweepPlaceSize = 8 + 4 + 8 + 8
	expiryKeySize  = 1 + 8 + coldTailSize
)

func (w sweepPlace) cursor() string {
	if w.stage == sweepCold {
		return cursor(cursorSweep, append([]byte{w.stage}, w.key...))
	}
	return cursor(cursorSweep, appendPosition([]byte{w.stage}, w.queue, w.number, w.position))
}

func parseSweepPlace(text string) (w sweepPlace, err error) {
	if text == "" {
		return sweepPlace{stage: sweepLapsed}, nil
	}
	b, err := parseCursor(text, cursorSweep)
	if err != nil {
		return w, err
	}
	switch {
	case len(b) == 1+sweepPlaceSize && (b[0] == sweepLapsed || b[0] == sweepExpired):
		w.partitionKey = partitionKey{queue.Number(be.Uint64(b[1:])), int32(be.Uint32(b[9:]))}
		w.position = position{int64(be.Uint64(b[13:])), be.Uint64(b[21:])}
	case len(b) == 1+expiryKeySize && b[0] == sweepCold && b[1] == spaceExpiry:
		w.key = b[1:]
	default:
		return w, errCursor
	}
	w.stage = b[0]
	return w, nil
}

// sweepVisits bounds what one page looks at: live leases of expired items need
// nothing, and there may be many.
const sweepVisits = 8 * chunk

// sweep is a page in the making.
type sweep struct {
	*Store
	now   int64
	limit int
	place sweepPlace
	page  queue.SweepPage
	seen  int
	full  bool
}

// Sweep implements [queue.Store].
func (s *Store) Sweep(ctx context.Context, req queue.SweepRequest) (queue.SweepPage, error) {
	place, err := parseSweepPlace(req.Cursor)
	if err != nil {
		return queue.SweepPage{}, err
	}
	now, err := s.begin(ctx, reads)
	if err != nil {
		return queue.SweepPage{}, err
	}
	w := &sweep{Store: s, now: now, limit: max(1, req.Limit), place: place}
	w.page.Now = instant(now)
	if w.place.stage == sweepLapsed {
		w.lapsed()
	}
	if w.place.stage == sweepExpired && !w.full {
		w.expired()
	}
	if w.place.stage == sweepCold && !w.full {
		err = w.expiredCold()
	}
	if w.full {
		w.page.Next = w.place.cursor()
	}
	if err != nil {
		s.mu.Unlock()
		return queue.SweepPage{}, err
	}
	return w.page, s.look(ctx)
}

// step stops the walk before what is at a place, if the page is full there.
func (w *sweep) step(at sweepPlace) bool {
	if len(w.page.Items) == w.limit || w.seen == sweepVisits {
		w.full = true
		w.place = at
		return false
	}
	w.seen++
	return true
}

func (w *sweep) enter(stage byte) { w.place = sweepPlace{stage: stage} }

func (w *sweep) lapsed() {
	start, _ := slices.BinarySearchFunc(w.sorted, w.place.partitionKey, func(p *partition, k partitionKey) int { return p.key().compare(k) })
	for _, p := range w.sorted[start:] {
		from := position{}
		if p.key() == w.place.partitionKey {
			from = w.place.position
		}
		p.held.Ascend(w.pivot(from), func(r ref) bool {
			e := w.entries.get(r.slot)
			if e.at > w.now {
				return false
			}
			if !w.step(sweepPlace{stage: sweepLapsed, partitionKey: p.key(), position: e.position()}) {
				return false
			}
			it := w.view(e)
			charge(&it.Attempts, &it.Recoveries, it.LapseCounts)
			w.page.Items = append(w.page.Items, it)
			return true
		})
		if w.full {
			return
		}
	}
	w.enter(sweepExpired)
}

func (w *sweep) expired() {
	w.expiring.Ascend(w.pivot(w.place.position), func(r ref) bool {
		if r.at > w.now {
			return false
		}
		e := w.entries.get(r.slot)
		if !w.step(sweepPlace{stage: sweepExpired, position: position{r.at, e.seq}}) {
			return false
		}
		if !e.is(held) { // under a live lease, or in the first stage
			w.page.Items = append(w.page.Items, w.view(e))
		}
		return true
	})
	if !w.full {
		w.enter(sweepCold)
	}
}

func (w *sweep) expiredCold() error {
	if w.away == 0 {
		return nil
	}
	from := w.place.key
	if from == nil {
		from = []byte{spaceExpiry}
	}
	to := be.AppendUint64([]byte{spaceExpiry}, uint64(w.now)+1)
	var keys [][]byte
	err := w.disk.Scan(Range{From: from, To: to, Reread: true, KeysOnly: true}, func(key, _ []byte) bool {
		if len(key) != expiryKeySize {
			return true
		}
		if len(keys)+len(w.page.Items) == w.limit || w.seen == sweepVisits {
			w.full = true
			w.place = sweepPlace{stage: sweepCold, key: bytes.Clone(key)}
			return false
		}
		w.seen++
		if place, ok := parseColdTail(key[1+8:]); ok && w.find(place.key) == 0 {
			keys = append(keys, append([]byte{spaceCold}, key[1+8:]...))
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("scan expiries: %w", err)
	}
	for _, key := range keys {
		l, err := w.readCold(key)
		if err != nil {
			return err
		}
		w.page.Items = append(w.page.Items, l.item)
	}
	return nil
}
