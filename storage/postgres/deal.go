package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
)

// deal goes round the takers with n items, one after the other, as one deals cards, and
// returns who gets the first, the second, …, counted from 1. Whoever cannot take an
// item wants no more; where nobody can the deal ends.
func deal(takers []queue.Taker, n int, size func(int) int) []int32 {
	turns := make([]int32, 0, n)
	given, bytes := make([]int, len(takers)), make([]int, len(takers))
	// playing are those who want more, in the order of their turns.
	playing := make([]int32, len(takers))
	for i := range playing {
		playing[i] = int32(i)
	}
	next := 0
	for k := 0; k < n && len(playing) > 0; {
		next %= len(playing)
		i := playing[next]
		t := &takers[i]
		if given[i] >= t.Limit || given[i] > 0 && t.MaxBytes > 0 && bytes[i]+size(k) > t.MaxBytes {
			playing = append(playing[:next], playing[next+1:]...)
			continue
		}
		given[i]++
		bytes[i] += size(k)
		turns = append(turns, i+1)
		next++
		k++
	}
	return turns
}

// byLimits deals as if items had no size.
func byLimits(takers []queue.Taker, n int) []int32 {
	return deal(takers, n, func(int) int { return 0 })
}

// lookAndDeal leases for a call where budgets decide who gets what: it locks the
// items, deals, and leases, in one transaction of a few round trips. It is seldom
// needed: items have to be large for their number.
func (s *Store) lookAndDeal(ctx context.Context, c *claim) (time.Time, error) {
	return commit(ctx, s, unit[time.Time]{
		run: func(ctx context.Context, conn *pgxpool.Conn, marker uuid.UUID) (time.Time, error) {
			err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return s.dealWithin(ctx, tx, marker, c) })
			return c.now, err
		},
		replay: s.replayClaims([]*claim{c}),
	})
}

func (s *Store) dealWithin(ctx context.Context, tx pgx.Tx, marker uuid.UUID, c *claim) error {
	at, fixed := s.clock.params()
	peek := &pgx.Batch{}
	peek.Queue(probingSQL)
	peek.Queue(s.text(markFirstSQL), at, fixed, marker)
	peek.Queue(s.text(peekSQL), at, fixed, int64(c.call.Queue), c.call.Partition, c.outset.from, c.wanted)
	results := tx.SendBatch(ctx, peek)
	ids, homes, sizes, err := readPeek(results)
	if cerr := results.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	c.turns = deal(c.call.Takers, len(ids), func(k int) int { return int(sizes[k]) })
	n := len(c.turns)
	rows, err := tx.Query(ctx, s.text(dealtSQL), c.args(at, fixed, ids[:n], homes[:n], marker)...)
	if err != nil {
		return err
	}
	return c.read(rows)
}

func readPeek(results pgx.BatchResults) (ids [][16]byte, homes []int64, sizes []int32, err error) {
	for range 2 {
		if _, err := results.Exec(); err != nil {
			return nil, nil, nil, err
		}
	}
	rows, err := results.Query()
	if err != nil {
		return nil, nil, nil, err
	}
	var (
		id   [16]byte
		home int64
		size int32
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &home, &size}, func() error {
		ids, homes, sizes = append(ids, id), append(homes, home), append(sizes, size)
		return nil
	})
	return ids, homes, sizes, err
}
