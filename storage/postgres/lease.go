package postgres

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
)

// claim is one call's part in a batch, and what came of it.
type claim struct {
	index  int // the call's
	call   queue.LeaseCall
	wanted int // by all takers
	outset outset
	// turns are the takers of the first, second, … item, counted from 1; empty if
	// there is but one taker.
	turns []int32

	now    time.Time
	result queue.LeaseResult
	// spilled says that there are items, and that budgets decide who gets which: none
	// was leased.
	spilled bool
	// last is where the last leased item stood, zero if there was none.
	last time.Time
	// keyed says that an item has an ordering key.
	keyed bool
}

// Lease implements [queue.Store].
//
// An item whose content is damaged is leased before anybody reads it. It stays held by
// a taker that never sees it and lapses, again and again, until a limit buries it.
func (s *Store) Lease(ctx context.Context, calls []queue.LeaseCall) (queue.LeaseAnswer, error) {
	claims := make([]*claim, len(calls))
	for i, call := range calls {
		claims[i] = &claim{index: i, call: call}
		for _, t := range call.Takers {
			claims[i].wanted += t.Limit
		}
	}
	// In one order for all nodes.
	slices.SortFunc(claims, func(a, b *claim) int {
		return cmp.Or(cmp.Compare(a.call.Queue, b.call.Queue), cmp.Compare(a.call.Partition, b.call.Partition))
	})
	now, err := commit(ctx, s, unit[time.Time]{
		run: func(ctx context.Context, conn *pgxpool.Conn, marker uuid.UUID) (time.Time, error) {
			return s.claim(ctx, conn, marker, claims)
		},
		replay: s.replayClaims(claims),
	})
	if err != nil {
		return queue.LeaseAnswer{}, fmt.Errorf("lease: %w", err)
	}
	if dealt, err := s.dealSpilled(ctx, claims); err != nil {
		return queue.LeaseAnswer{}, fmt.Errorf("lease: %w", err)
	} else if dealt.After(now) {
		now = dealt
	}
	answer := queue.LeaseAnswer{Now: s.clock.saw(now), Calls: make([]queue.LeaseResult, len(calls))}
	for _, c := range claims {
		s.heads.finish(c.outset, c.reached())
		if c.keyed {
			s.keyed.note(map[queue.Number]bool{c.call.Queue: true})
		}
		answer.Calls[c.index] = c.result
	}
	return answer, nil
}

// claim leases for all calls in one pipeline.
func (s *Store) claim(ctx context.Context, conn *pgxpool.Conn, marker uuid.UUID, claims []*claim) (now time.Time, err error) {
	if len(claims) == 0 {
		return s.askNow(ctx, conn)
	}
	at, fixed := s.clock.params()
	batch := &pgx.Batch{}
	batch.Queue(probingSQL)
	for _, c := range claims {
		// Under a test's clock each claim looks from the beginning: how long ago the
		// last walk was does not depend on how fast the test runs.
		if c.outset = (outset{}); !fixed {
			c.outset = s.heads.start(place{c.call.Queue, c.call.Partition})
		}
		takers := c.call.Takers
		if c.turns = []int32{}; len(takers) > 1 {
			c.turns = byLimits(takers, c.wanted)
		}
		budgets := make([]int64, len(takers))
		for i := range takers {
			budgets[i] = int64(takers[i].MaxBytes)
		}
		batch.Queue(s.text(claimSQL), append(c.args(at, fixed, c.outset.from, c.wanted, marker), budgets)...)
	}
	err = pipeline(ctx, conn, batch, func(results pgx.BatchResults) error {
		if _, err := results.Exec(); err != nil {
			return err
		}
		for _, c := range claims {
			rows, err := results.Query()
			if err != nil {
				return err
			}
			if err := c.read(rows); err != nil {
				return err
			}
			now = c.now // the last one's is the latest
		}
		return nil
	})
	return now, err
}

// args are the parameters of claimSQL and dealtSQL but for the budgets.
func (c *claim) args(at time.Time, fixed bool, fifth, sixth any, marker uuid.UUID) []any {
	takers := c.call.Takers
	owners, flags, ttls := make([]string, len(takers)), make([]bool, len(takers)), make([]int64, len(takers))
	for i, t := range takers {
		owners[i], flags[i], ttls[i] = t.Owner, t.LapseCounts, t.TTL.Microseconds()
	}
	return []any{at, fixed, int64(c.call.Queue), c.call.Partition, fifth, sixth, marker, c.index, owners, flags, ttls, c.turns}
}

// read takes in what leaseSQL answers.
func (c *claim) read(rows pgx.Rows) error {
	defer rows.Close()
	c.begin()
	for rows.Next() {
		var picked bool
		if raw := rows.RawValues(); raw[2] == nil {
			skip := make([]any, len(raw))
			skip[0], skip[1] = &c.now, &picked
			if err := rows.Scan(skip...); err != nil {
				return err
			}
			c.spilled = picked
			continue
		}
		var place, taker int32
		var lapsed bool
		it, err := scanItem(rows, &c.now, &picked, &place, &taker, &c.last, &lapsed)
		if lapsed {
			c.result.Lapsed++
		}
		if err := c.give(it, err, taker); err != nil {
			return err
		}
	}
	return rows.Err()
}

// begin forgets what an earlier try did.
func (c *claim) begin() {
	c.result = queue.LeaseResult{Takers: make([][]queue.Item, len(c.call.Takers))}
	c.spilled, c.last = false, time.Time{}
}

// give adds an item that was read, or could not be.
func (c *claim) give(it queue.Item, err error, taker int32) error {
	switch {
	case errors.Is(err, errDamaged):
		c.result.Corrupt++
	case err != nil:
		return err
	default:
		c.result.Takers[taker-1] = append(c.result.Takers[taker-1], it)
		c.keyed = c.keyed || it.OrderingKey != ""
	}
	return nil
}

// reached is the position below which the claim left nothing, or zero.
func (c *claim) reached() time.Time {
	if c.wanted == 0 {
		return time.Time{} // nobody looked
	}
	if c.last.IsZero() && !c.spilled {
		return c.now
	}
	return c.last
}

// dealSpilled leases for the calls that need more than one statement.
func (s *Store) dealSpilled(ctx context.Context, claims []*claim) (now time.Time, err error) {
	for _, c := range claims {
		if !c.spilled {
			continue
		}
		now, err = s.lookAndDeal(ctx, c)
		if err == nil {
			continue
		}
		if len(claims) == 1 {
			return now, err
		}
		// The others' items are leased, and have to be given out. These takers get
		// nothing for now.
		s.log.Warn("items could not be dealt; their takers got none", "queue", c.call.Queue.Own(), "error", err)
		c.begin()
		c.spilled = true
	}
	return now, nil
}

// markedLine is what a marker keeps of a call: for each item in order 16 bytes of id, 8
// of home, 8 of the token's counter.
type markedLine struct {
	Call int    `json:"call"`
	Keys string `json:"keys"`
}

const markedKey = 32

// replayClaims reads again what was leased by a commit that nobody saw. What lapsed
// and was leased by somebody else since is left out.
func (s *Store) replayClaims(claims []*claim) func(context.Context, *pgxpool.Conn, []byte) (time.Time, error) {
	return func(ctx context.Context, conn *pgxpool.Conn, answer []byte) (time.Time, error) {
		var lines []markedLine
		if err := json.Unmarshal(answer, &lines); err != nil {
			return time.Time{}, fmt.Errorf("marker: %w", err)
		}
		now, err := s.askNow(ctx, conn)
		if err != nil {
			return now, err
		}
		for _, c := range claims {
			c.begin()
			// Nobody knows where the items stood, nor whether there were others.
			c.now, c.outset = now, outset{}
			for _, line := range lines {
				if line.Call != c.index {
					continue
				}
				if err := s.readAgain(ctx, conn, c, line.Keys); err != nil {
					return now, err
				}
			}
		}
		return now, nil
	}
}

func (s *Store) askNow(ctx context.Context, conn *pgxpool.Conn) (now time.Time, err error) {
	err = conn.QueryRow(ctx, `with `+clockSQL+` select now from clock`, clockArgs(&s.clock)...).Scan(&now)
	return now, err
}

func clockArgs(c *clock) []any {
	at, fixed := c.params()
	return []any{at, fixed}
}

func (s *Store) readAgain(ctx context.Context, conn *pgxpool.Conn, c *claim, keys string) error {
	b, err := base64.StdEncoding.DecodeString(keys) // which passes over the line breaks
	if err != nil || len(b)%markedKey != 0 {
		return fmt.Errorf("marker: keys are damaged: %w", err)
	}
	var ids [][16]byte
	var homes, counters []int64
	for ; len(b) > 0; b = b[markedKey:] {
		ids = append(ids, [16]byte(b))
		homes = append(homes, int64(binary.BigEndian.Uint64(b[16:])))
		counters = append(counters, int64(binary.BigEndian.Uint64(b[24:])))
	}
	rows, err := conn.Query(ctx, s.text(againSQL), int64(c.call.Queue), ids, homes, counters)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var place int32
		it, err := scanItem(rows, &place)
		taker := int32(1)
		if len(c.turns) > 0 {
			taker = c.turns[place-1]
		}
		if err := c.give(it, err, taker); err != nil {
			return err
		}
	}
	return rows.Err()
}
