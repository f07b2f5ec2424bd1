package postgres

import (
	"context"
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
)

// A sweep walks in two stages: what lapsed, by deadline, and what expired and is not
// held, by expiry. So nothing is in both, and what is under a live lease in none.
const (
	sweepLapsed = iota + 1
	sweepExpired
)

// The stages begin after the place ($3, $4, $5, $6) and are $7 items long at most.
var sweepSQL = map[byte]string{
	sweepLapsed: `with ` + clockSQL + `
select (select now from clock), ` + itemColumns("i", false) + `
from {s}.items i
where i.held and i.available_at <= (select now from clock)
	and (i.available_at, i.id, i.queue, i.home) > ($3::timestamptz, $4::uuid, $5::bigint, $6::bigint)
order by i.available_at, i.id, i.queue, i.home limit $7`,

	sweepExpired: `with ` + clockSQL + `
select (select now from clock), ` + itemColumns("i", false) + `
from {s}.items i
where i.expires_at is not null and i.expires_at <= (select now from clock) and not i.held
	and (i.expires_at, i.id, i.queue, i.home) > ($3::timestamptz, $4::uuid, $5::bigint, $6::bigint)
order by i.expires_at, i.id, i.queue, i.home limit $7`,
}

// sweepPlace is where a walk goes on: after an item of a stage.
type sweepPlace struct {
	stage byte
	at    spot // the number is not used
	key   queue.Key
}

const sweepPlaceSize = 1 + spotSize + 16 + 8 + 8

func (p sweepPlace) cursor() string {
	b := p.at.append([]byte{p.stage})
	b = append(b, p.key.ID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(p.key.Queue))
	b = binary.BigEndian.AppendUint64(b, uint64(p.key.Home))
	return cursor(cursorSweep, b)
}

func parseSweepPlace(text string) (p sweepPlace, err error) {
	if text == "" {
		return sweepPlace{stage: sweepLapsed, at: start}, nil
	}
	b, err := parseCursor(text, cursorSweep, sweepPlaceSize)
	if err != nil {
		return p, err
	}
	if p.stage = b[0]; p.stage != sweepLapsed && p.stage != sweepExpired {
		return p, errCursor
	}
	p.at, err = readSpot(b[1:])
	b = b[1+spotSize:]
	copy(p.key.ID[:], b)
	p.key.Queue = queue.Number(binary.BigEndian.Uint64(b[16:]))
	p.key.Home = queue.Number(binary.BigEndian.Uint64(b[24:]))
	return p, err
}

// Sweep implements [queue.Store].
func (s *Store) Sweep(ctx context.Context, req queue.SweepRequest) (queue.SweepPage, error) {
	from, err := parseSweepPlace(req.Cursor)
	if err != nil {
		return queue.SweepPage{}, err
	}
	return read(ctx, s, func(ctx context.Context, conn *pgxpool.Conn) (queue.SweepPage, error) {
		var page queue.SweepPage
		place := from
		for {
			at, fixed := s.clock.params()
			// One more than there is room for tells whether there is a next page.
			room := req.Limit - len(page.Items)
			items, now, err := s.items(ctx, conn, sweepSQL[place.stage], at, fixed,
				place.at.at, [16]byte(place.key.ID), int64(place.key.Queue), int64(place.key.Home), room+1)
			if err != nil {
				return queue.SweepPage{}, err
			}
			page.Now = now
			for _, it := range items[:min(room, len(items))] {
				place.key, place.at.at = it.Key, it.ExpiresAt
				if place.stage == sweepLapsed {
					place.at.at = it.AvailableAt
					chargeLapse(&it)
				}
				if it.OrderingKey != "" {
					s.keyed.note(map[queue.Number]bool{it.Queue: true})
				}
				it.Content = queue.Content{}
				page.Items = append(page.Items, it)
			}
			switch {
			case len(items) > room:
				page.Next = place.cursor()
				return page, nil
			case place.stage == sweepExpired:
				return page, nil
			}
			place = sweepPlace{stage: sweepExpired, at: start}
		}
	})
}

// chargeLapse is what a lapse costs.
func chargeLapse(it *queue.Item) {
	if it.LapseCounts {
		it.Attempts++
	} else {
		it.Recoveries++
	}
}
