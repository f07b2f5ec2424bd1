package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
)

// Settle implements [queue.Store]. The batch is one statement, or, where two of its
// groups are about one place, several in one transaction: the later ones have to see
// what the earlier ones did. Where queues have ordering keys another one comes first,
// which takes their locks.
func (s *Store) Settle(ctx context.Context, groups []queue.SettleGroup) (queue.SettleAnswer, error) {
	rounds := settleRounds(groups)
	queues, binds := settledQueues(groups)
	for try := 0; ; try++ {
		answer, err := commit(ctx, s, unit[queue.SettleAnswer]{
			run: func(ctx context.Context, conn *pgxpool.Conn, marker uuid.UUID) (queue.SettleAnswer, error) {
				bound := binds || s.keyed.any(queues)
				stored, locks, err := s.sendSettlement(ctx, conn, marker, rounds, bound)
				if isUndone(err) && !bound {
					stored, locks, err = s.sendSettlement(ctx, conn, marker, rounds, true)
				}
				if locks > 0 {
					s.keyed.note(queues)
				}
				if err != nil {
					return queue.SettleAnswer{}, err
				}
				return s.settled(groups, stored)
			},
			replay: func(_ context.Context, _ *pgxpool.Conn, stored []byte) (queue.SettleAnswer, error) {
				return s.settled(groups, stored)
			},
		})
		// A copy came to the dead-letter queue between the look for one that has to give
		// way and the move: look again.
		state, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || state.Code != "23505" || try == retries {
			return answer, err
		}
	}
}

// settledQueues are those that entries are settled in. binds says that something is produced
// that has an ordering key.
func settledQueues(groups []queue.SettleGroup) (queues map[queue.Number]bool, binds bool) {
	queues = map[queue.Number]bool{}
	for i := range groups {
		for j := range groups[i].Entries {
			e := &groups[i].Entries[j]
			queues[e.Key.Queue] = true
			binds = binds || slices.ContainsFunc(e.Produce, func(it queue.NewItem) bool { return it.OrderingKey != "" })
		}
	}
	return queues, binds
}

// appendKeys appends the ordering key of a new item in each of its queues.
func appendKeys(queues []int64, keys []string, it *queue.NewItem) ([]int64, []string) {
	if it.OrderingKey == "" {
		return queues, keys
	}
	for c := range it.Places() {
		queues = append(queues, int64(it.Place(c).Queue))
		keys = append(keys, it.OrderingKey)
	}
	return queues, keys
}

// sendSettlement sends a batch, if bound with the locks of its ordering keys, which it
// counts: those that bind its items, and those of what it produces.
func (s *Store) sendSettlement(ctx context.Context, conn *pgxpool.Conn, marker uuid.UUID, rounds []settleRound, bound bool) (
	stored []byte, locks int, err error,
) {
	var batch pgx.Batch
	if bound {
		var all found
		var queues []int64
		var keys []string
		for _, round := range rounds {
			for _, group := range round.groups {
				for i := range group.Entries {
					e := &group.Entries[i]
					for _, key := range places(e) {
						all.add(key)
					}
					for j := range e.Produce {
						queues, keys = appendKeys(queues, keys, &e.Produce[j])
					}
				}
			}
		}
		batch.Queue(s.text(lockFoundSQL), append(all.args(), queues, keys)...)
	}
	for i, round := range rounds {
		s.queueSettlement(&batch, marker, round, i == 0, bound)
	}
	if bound {
		return lockedAnswer(ctx, conn, &batch)
	}
	stored, err = lastAnswer(ctx, conn, &batch)
	return stored, 0, err
}

// lastAnswer sends statements that each return the answers so far, and returns those
// of the last one.
func lastAnswer(ctx context.Context, conn *pgxpool.Conn, batch *pgx.Batch) (stored []byte, err error) {
	err = pipeline(ctx, conn, batch, func(results pgx.BatchResults) error {
		return readAnswer(results, batch.Len(), &stored)
	})
	return stored, err
}

// lockedAnswer is lastAnswer where the first statement takes locks, and tells how many.
func lockedAnswer(ctx context.Context, conn *pgxpool.Conn, batch *pgx.Batch) (stored []byte, locks int, err error) {
	err = pipeline(ctx, conn, batch, func(results pgx.BatchResults) error {
		if err := results.QueryRow().Scan(&locks); err != nil {
			return err
		}
		return readAnswer(results, batch.Len()-1, &stored)
	})
	return stored, locks, err
}

func readAnswer(results pgx.BatchResults, n int, stored *[]byte) error {
	for range n {
		if err := results.QueryRow().Scan(stored); err != nil {
			return err
		}
	}
	return nil
}

// settleRound are groups that no two of are about one place.
type settleRound struct {
	groups []queue.SettleGroup
	// place and group are those of the first entry and of the first group.
	place, group int
}

// settleRounds cuts a batch into rounds, most times one.
func settleRounds(groups []queue.SettleGroup) []settleRound {
	rounds := make([]settleRound, 1)
	named := map[queue.Key]int{} // the last group that did
	place := 0
	for i := range groups {
		last := &rounds[len(rounds)-1]
		if meets(groups[i].Entries, named, last.group) {
			rounds = append(rounds, settleRound{place: place, group: i})
			last = &rounds[len(rounds)-1]
		}
		for j := range groups[i].Entries {
			for _, key := range allPlaces(&groups[i].Entries[j]) {
				named[key] = i
			}
		}
		last.groups = append(last.groups, groups[i])
		place += len(groups[i].Entries)
	}
	return rounds
}

// meets says whether entries are about a place that a group since then is about, too.
func meets(entries []queue.Settlement, named map[queue.Key]int, since int) bool {
	for i := range entries {
		for _, key := range allPlaces(&entries[i]) {
			if group, found := named[key]; found && group >= since {
				return true
			}
		}
	}
	return false
}

// places are where an entry's item is and where it may be buried.
func places(e *queue.Settlement) []queue.Key {
	if e.DeadQueue == 0 || e.Outcome != queue.Bury && e.Outcome != queue.Retry {
		return []queue.Key{e.Key}
	}
	return []queue.Key{e.Key, {ID: e.Key.ID, Queue: e.DeadQueue, Home: e.Key.Home}}
}

// allPlaces are also those of the items that an entry produces.
func allPlaces(e *queue.Settlement) []queue.Key {
	all := places(e)
	for i := range e.Produce {
		it := &e.Produce[i]
		for c := range it.Places() {
			to := it.Place(c).Queue
			all = append(all, queue.Key{ID: it.ID, Queue: to, Home: to})
		}
	}
	return all
}

// settlements are the arrays of settleColumns.
type settlements struct {
	leases
	groups                 []int32
	again, notLive, undead []bool
	counts                 []bool
	outcomes               []int16
	wanted                 []*time.Time
	delays                 []*int64
	maxAttempts            []int32
	deadQueues             []int64
	reasons                []string
	lastStatuses           []int32
	lastErrors             []string
	fresh                  []int64
	turns                  []int32
	records                records
	keys                   keys
	items                  insertion
	itemTurns              []int32
	guards                 guards
	// produces says that there are items, also ones without a place.
	produces bool
	// turn numbers entries and items in their order, from 1.
	turn int32
}

// queueSettlement appends a round's statement.
func (s *Store) queueSettlement(batch *pgx.Batch, marker uuid.UUID, round settleRound, first, bound bool) {
	var all settlements
	place := round.place
	for i, group := range round.groups {
		seen, produced := make(map[queue.Key]bool, len(group.Entries)), map[queue.Key]bool{}
		for j := range group.Entries {
			e := &group.Entries[j]
			all.add(e, place, round.group+i, seen[e.Key], produced)
			seen[e.Key] = true
			place++
		}
	}
	at, fixed := s.clock.params()
	args := append([]any{at, fixed, marker}, all.args()...)
	if all.produces {
		args = append(args, all.itemArgs()...)
	}
	batch.Queue(s.text(settleTexts[index(first)][index(all.produces)][index(bound)]), args...)
}

func index(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// add appends an entry. again says that its group named the item before; produced are the
// places of items that its group has produced.
func (all *settlements) add(e *queue.Settlement, place, group int, again bool, produced map[queue.Key]bool) {
	all.leases.add(place, e.Key, e.Token)
	all.groups = append(all.groups, int32(group))
	all.again = append(all.again, again)
	all.notLive = append(all.notLive, e.Guard == queue.NotLive)
	all.outcomes = append(all.outcomes, int16(e.Outcome))
	all.wanted = append(all.wanted, optional(e.DueAt.UTC()))
	var delay *int64
	if e.Delay != 0 {
		delay = new(e.Delay.Microseconds())
	}
	all.delays = append(all.delays, delay)
	all.maxAttempts = append(all.maxAttempts, e.MaxAttempts)
	all.undead = append(all.undead, e.Undead)
	all.counts = append(all.counts, e.Counts && e.Outcome == queue.Bury)
	all.deadQueues = append(all.deadQueues, int64(e.DeadQueue))
	all.reasons = append(all.reasons, e.Reason)
	all.lastStatuses = append(all.lastStatuses, e.Last.Status)
	all.lastErrors = append(all.lastErrors, e.Last.Error)
	// No receipt has this one: the next lease makes another, which is hard to guess.
	all.fresh = append(all.fresh, int64(rand.Uint64()))
	all.turn++
	all.turns = append(all.turns, all.turn)
	all.records.add(e.Record)
	for i := range e.Produce {
		it := &e.Produce[i]
		all.guards.add(group, it.Guard)
		row, n := all.items.addPlaces(it, place, produced)
		for range n {
			all.turn++
			all.itemTurns = append(all.itemTurns, all.turn)
		}
		all.keys.add(it, row, n, place)
		all.produces = true
	}
}

func (all *settlements) args() []any {
	args := append(all.leases.args(), all.groups, all.again, all.notLive, all.outcomes, all.wanted, all.delays, all.maxAttempts,
		all.undead, all.deadQueues, all.reasons, all.lastStatuses, all.lastErrors, all.fresh, all.turns, all.counts)
	return append(args, all.records.args()...)
}

// itemArgs follow args where there are items.
func (all *settlements) itemArgs() []any {
	return slices.Concat([]any{all.turn, all.itemTurns}, all.guards.groupArgs(), all.keys.args(), all.items.args())
}

// leases are the arrays of entryColumns.
type leases struct {
	places                           []int32
	ids                              [][16]byte
	queues, homes, counters, randoms []int64
}

func (l *leases) add(place int, key queue.Key, token queue.Token) {
	l.places = append(l.places, int32(place))
	l.ids = append(l.ids, key.ID)
	l.queues = append(l.queues, int64(key.Queue))
	l.homes = append(l.homes, int64(key.Home))
	l.counters = append(l.counters, int64(token.Counter))
	l.randoms = append(l.randoms, int64(token.Random))
}

func (l *leases) args() []any {
	return []any{l.places, l.ids, l.queues, l.homes, l.counters, l.randoms}
}

// keys are the arrays of keyColumns.
type keys struct {
	rows          []int64
	copies        []int32
	entries       []int32
	scopes        []int64
	calls         []bool
	names, hashes [][]byte
	items         [][16]byte
	queues, ttls  []int64
}

// add appends an item's key, if it has one that is to be kept. row is that of its first
// place, 0 if that is not new, and n how many places are.
func (k *keys) add(it *queue.NewItem, row, n, entry int) bool {
	d := it.Dedupe
	if d == nil || row == 0 && it.Places() > 0 {
		return false
	}
	k.rows = append(k.rows, int64(row))
	k.copies = append(k.copies, int32(n))
	k.entries = append(k.entries, int32(entry))
	k.scopes = append(k.scopes, int64(d.Scope))
	k.calls = append(k.calls, d.Call)
	k.names = append(k.names, []byte(d.Key))
	k.hashes = append(k.hashes, d.Hash[:])
	k.items = append(k.items, it.ID)
	var first queue.Number // none has the number 0
	if it.Places() > 0 {
		first = it.Place(0).Queue
	}
	k.queues = append(k.queues, int64(first))
	k.ttls = append(k.ttls, d.TTL.Microseconds())
	return true
}

func (k *keys) args() []any {
	return []any{k.rows, k.copies, k.entries, k.scopes, k.calls, k.names, k.hashes, k.items, k.queues, k.ttls}
}

// settled makes the answer of what the statements left in the marker, the first time
// as well as in a replay. Entries that it does not name are complete.
//
// It also tells the claims of what can be leased now. That is after the commit: a claim
// that sees less has begun before.
func (s *Store) settled(groups []queue.SettleGroup, stored []byte) (queue.SettleAnswer, error) {
	now, said, promotions, err := readAnswers(stored)
	if err != nil {
		return queue.SettleAnswer{}, err
	}
	answer := queue.SettleAnswer{Now: s.clock.saw(now), Groups: make([][]queue.Settled, len(groups))}
	var flat []*queue.Settled
	var entries []*queue.Settlement
	for i := range groups {
		answer.Groups[i] = make([]queue.Settled, len(groups[i].Entries))
		for j := range answer.Groups[i] {
			answer.Groups[i][j].Status = queue.Applied
			flat = append(flat, &answer.Groups[i][j])
			entries = append(entries, &groups[i].Entries[j])
		}
	}
	for _, o := range said {
		if o.place >= len(flat) {
			return queue.SettleAnswer{}, fmt.Errorf("marker answers entry %d of %d", o.place, len(flat))
		}
		*flat[o.place] = queue.Settled{Status: o.status, Buried: o.buried, AvailableAt: o.at}
		if o.status == queue.Applied && !o.at.IsZero() {
			in := entries[o.place].Key.Queue
			if o.buried || entries[o.place].Outcome == queue.Bury {
				in = entries[o.place].DeadQueue
			}
			s.placed(in, o.partition, o.at, answer.Now)
		}
	}
	for i, e := range entries {
		if flat[i].Status != queue.Applied {
			continue
		}
		for j := range e.Produce {
			s.placedAll(&e.Produce[j], answer.Now)
		}
	}
	s.promoted(promotions, answer.Now)
	return answer, nil
}

// placed takes note that something was put at a position, and tells whoever waits, here
// and on other nodes, if it can be leased now.
func (s *Store) placed(q queue.Number, partition int32, at, now time.Time) {
	s.heads.lower(q, partition, at)
	if !at.After(now) {
		s.hints.add(place{q, partition}, at)
	}
}

// placedAll is placed for a new item, which may be where it was already or behind another:
// a word too many does no harm.
func (s *Store) placedAll(it *queue.NewItem, now time.Time) {
	due := dueAt(it, now)
	for c := range it.Places() {
		to := it.Place(c)
		s.placed(to.Queue, to.Partition, due, now)
	}
}

// outcome is what a marker says about an entry, as the array [place, status, buried,
// at, partition]. at is in microseconds, or null.
type outcome struct {
	place     int
	status    queue.SettleStatus
	buried    bool
	at        time.Time
	partition int32
}

// UnmarshalJSON implements [json.Unmarshaler].
func (o *outcome) UnmarshalJSON(b []byte) error {
	var at *int64
	if err := json.Unmarshal(b, &[]any{&o.place, &o.status, &o.buried, &at, &o.partition}); err != nil {
		return err
	}
	if at != nil {
		o.at = time.UnixMicro(*at).UTC()
	}
	return nil
}

// readAnswers joins the answers of a batch's statements; now is the last one's.
func readAnswers(stored []byte) (now time.Time, said []outcome, promotions []promotion, err error) {
	var answers []struct {
		Now      int64       `json:"now"`
		Entries  []outcome   `json:"entries"`
		Promoted []promotion `json:"promoted"`
	}
	if err := json.Unmarshal(stored, &answers); err != nil {
		return now, nil, nil, fmt.Errorf("marker: %w", err)
	}
	for _, a := range answers {
		now = time.UnixMicro(a.Now)
		said = append(said, a.Entries...)
		promotions = append(promotions, a.Promoted...)
	}
	return now, said, promotions, nil
}
