package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Redrive moves items out of a dead-letter queue, with a fresh budget: to the tail of
// the queue from which each was buried, or of the target that the call names. They keep
// their ids. A paused target takes them too. With a topic as the target each is copied to
// all who want it, as if it was produced there; what nobody wants is skipped and stays.
//
// With Every they become due one after the other, counted from when each is moved; until
// then they are scheduled, and may be cancelled or cleared as such.
//
// An item that dies again while the call runs stays where it is then. A call whose time
// is nearly up answers what it has done, with More: the same call again goes on, and where
// items are spread begins with one that is due at once. A dry run counts in the same way,
// and what it counts may change before it is done in earnest.
//
// Errors: [InvalidError], for a queue that is no dead-letter queue, too;
// [TooLargeError]; [ErrNotFound]; [OverloadedError]; those of [Store]. After an error some
// items may have been moved; a repeat is safe.
func (b *Broker) Redrive(ctx context.Context, call RedriveCall) (Redriven, error) {
	r, err := b.newRedrive(ctx, &call)
	if err != nil {
		return Redriven{}, err
	}
	if err := r.selectBound(ctx); err != nil {
		return Redriven{}, fmt.Errorf("redrive %s: %w", call.Queue, err)
	}
	timeUp, err := inPages(ctx, func() (more bool, err error) { return r.step(ctx) })
	if err != nil {
		return r.done, fmt.Errorf("redrive %s: %w", call.Queue, err)
	}
	if r.bound && !call.DryRun {
		b.Wake(r.dead.number) // who took the place of a head may go
	}
	r.done.More = r.done.More || timeUp || r.cut
	if r.done.Moved > 0 && !call.DryRun {
		b.log.Info("items redriven", "queue", call.Queue, "items", r.done.Moved, "skipped", r.done.Skipped, "more", r.done.More)
	}
	return r.done, nil
}

// redrivePage bounds one look at a dead-letter queue, and one move.
const redrivePage = 1000

// redrive is one call on its way through a dead-letter queue.
type redrive struct {
	b    *Broker
	call *RedriveCall
	dead *knownQueue
	// from and target are nil where the call does not name them.
	from   *knownQueue
	target *knownQueue

	// ids are those of the call that are still to be looked for.
	ids []ID
	// list is the next page, for a call that names no ids; began is when the first one
	// was read. now is the store's time at the newest look.
	list       ListRequest
	began, now time.Time

	// origins are the queues that items came from, read anew by this call: another node may
	// have deleted them.
	origins map[Number]bool

	// place is that of the next item in the spread: how many times Every it waits.
	place int

	// bound says that ordering keys bind what is in the queue: see [redrive.selectBound]. stuck
	// are those of which an item stays, and what is behind it with it.
	bound bool
	stuck map[string]bool
	// cut says that more was to be selected than the limit or the time has room for.
	cut bool
	// fanned are the items that were copied to a topic by this call.
	fanned map[ID]bool

	done Redriven
}

func (b *Broker) newRedrive(ctx context.Context, call *RedriveCall) (*redrive, error) {
	switch {
	case call.Limit < 1 || call.Limit > MaxRedrive:
		return nil, Invalid("limit", "is %d; want 1 to %d", call.Limit, MaxRedrive)
	case call.Every < 0 || call.Every > MaxSpread/time.Duration(call.Limit):
		return nil, Invalid("rate", "spreads %d items over more than %s; take fewer with limit, or a higher rate", call.Limit, MaxSpread)
	case len(call.IDs) > DefaultMaxItems:
		return nil, &TooLargeError{Field: "filter.item_ids", Limit: DefaultMaxItems, Unit: "ids"}
	}
	// Read again, so that what another node made of the queue counts.
	dead, err := b.known.reread(ctx, call.Namespace, call.Queue)
	if err != nil {
		return nil, err
	}
	if s := dead.settings(); !s.DeadLetter {
		return nil, Invalid("queue_name", "is %s, which is not a dead-letter queue; what it buries is in %s", call.Queue, s.deadName())
	}
	r := &redrive{b: b, call: call, dead: dead, ids: distinct(call.IDs), origins: map[Number]bool{}}
	r.list = ListRequest{Queue: dead.number, Limit: redrivePage}
	if call.Kind != "" {
		r.list.Limit, r.list.Content = kindPage, true
	}
	if r.from, err = r.queueOf(ctx, "filter.from", call.From); err != nil {
		return nil, err
	}
	if r.target, err = r.queueOf(ctx, "target", call.Target); err != nil {
		return nil, err
	}
	if r.toTopic() {
		if call.Target == dead.settings().SubscribesTo {
			return nil, Invalid("target", "is %s, which copies into %s itself; name another", call.Target, call.Queue)
		}
		r.list.Limit, r.list.Content = kindPage, true // what is copied, and what filters judge
	}
	if r.target != nil && r.target.settings().DeadLetter {
		return nil, Invalid("target", "is %s, which is a dead-letter queue; name one that is not", call.Target)
	}
	return r, nil
}

// queueOf finds a queue that the call names beside its own, if it does.
func (r *redrive) queueOf(ctx context.Context, field, name string) (*knownQueue, error) {
	if name == "" {
		return nil, nil
	}
	q, err := r.b.known.rereadEither(ctx, r.call.Namespace, name)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, Invalid(field, "is %s, which does not exist", name)
	case err == nil && field != "target" && q.settings().Topic != nil:
		return nil, Invalid(field, "is %s, a topic, where nothing is buried; name one subscription's queue, %s~<subscription>", name, name)
	case err == nil && q.number == r.dead.number:
		return nil, Invalid(field, "is the queue itself")
	}
	return q, err
}

// step does a page, and says whether there are more to be done.
func (r *redrive) step(ctx context.Context) (more bool, err error) {
	var items []Item
	if r.bound || len(r.ids) > 0 {
		items, err = r.find(ctx)
		more = len(r.ids) > 0
	} else {
		items, more, err = r.read(ctx)
	}
	if err != nil {
		return false, err
	}
	for len(items) > 0 && r.done.Moved < r.call.Limit {
		var batch []Item
		if batch, items = r.choose(items); len(batch) == 0 {
			break
		}
		if err := r.move(ctx, batch); err != nil {
			return false, err
		}
	}
	if r.done.Moved == r.call.Limit {
		r.done.More = more || len(items) > 0
		return false, nil
	}
	return more, nil
}

// read returns the next page of the queue, and whether others follow.
func (r *redrive) read(ctx context.Context) (items []Item, more bool, err error) {
	page, err := r.b.store.ListItems(ctx, r.list)
	if err != nil {
		return nil, false, err
	}
	r.now = page.Now
	if r.began.IsZero() {
		r.began = page.Now
	}
	return page.Items, r.list.next(page.Next, r.dead.extent()), nil
}

// find returns those of the next ids that are in the queue, in its order.
func (r *redrive) find(ctx context.Context) ([]Item, error) {
	ids := r.ids[:min(len(r.ids), r.list.Limit)]
	if r.ids = r.ids[len(ids):]; len(ids) == 0 {
		return nil, nil
	}
	found, err := r.b.store.Find(ctx, ids, r.list.Content)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(it Item) bool { return it.Queue != r.dead.number })
	if r.now, err = r.b.storeNow(ctx, r.dead.number); err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b Item) int { return inOrder(&a, &b) })
	return found, nil
}

// choose returns the first items that are to be moved, as many as the limit has room
// for, and what it did not look at.
func (r *redrive) choose(items []Item) (chosen, rest []Item) {
	room := r.call.Limit - r.done.Moved
	going := map[string]bool{} // keys of which an item goes before
	for i := range items {
		if !r.wants(&items[i]) {
			continue
		}
		if it := &items[i]; r.isBound(it) {
			if r.isStuck(it) || !r.mayGo(it, going) {
				r.stay(it)
				continue
			}
			going[it.OrderingKey] = true
		}
		chosen = append(chosen, items[i])
		if len(chosen) == room {
			return chosen, items[i+1:]
		}
	}
	return chosen, nil
}

// wants judges an item by the filter.
func (r *redrive) wants(it *Item) bool {
	if r.call.Kind != "" && it.Kind != r.call.Kind {
		return false
	}
	if it.Dead == nil {
		// It was produced here, so it has none of what these ask for.
		return r.call.Reason == "" && r.call.Before.IsZero() && r.from == nil
	}
	switch {
	case !r.began.IsZero() && it.Dead.At.After(r.began):
		return false // it may be one that was moved, and died again
	case r.call.Reason != "" && it.Dead.Reason != r.call.Reason:
		return false
	case !r.call.Before.IsZero() && !it.Dead.At.Before(r.call.Before):
		return false
	default:
		return r.from == nil || it.Dead.From == r.from.number
	}
}

// move moves items, at most a page, and counts them.
func (r *redrive) move(ctx context.Context, items []Item) error {
	if r.toTopic() {
		return r.fanOut(ctx, items)
	}
	targets := map[Number]*knownQueue{} // nil for one that is gone
	defer func() {
		for _, q := range targets {
			if q != nil {
				q.unpin()
			}
		}
	}()
	moves := make([]Move, 0, len(items))
	var of []*Item
	for i := range items {
		to, err := r.pinTarget(ctx, &items[i], targets)
		if err != nil {
			return err
		}
		if to == nil {
			r.stay(&items[i])
			continue
		}
		of = append(of, &items[i])
		moves = append(moves, Move{
			Key: items[i].Key, Target: to.number, ExpireTTL: to.settings().ExpireTTL,
			Delay: time.Duration(r.place+len(moves)) * r.call.Every,
		})
	}
	if len(moves) == 0 {
		return nil
	}
	if err := r.b.placeMoves(ctx, moves, targets); err != nil {
		return err
	}
	if err := r.giveBack(ctx, items); err != nil {
		return err
	}
	move := r.b.store.Move
	if r.call.DryRun {
		move = r.tryMove
	}
	statuses, err := move(ctx, moves)
	if err != nil {
		return err
	}
	for i, status := range statuses {
		if status == Moved {
			r.done.Moved++
		} else {
			r.stay(of[i])
		}
	}
	return r.tellDue(ctx, moves, statuses)
}

// tellDue wakes the targets of what was moved, or says when it is due.
func (r *redrive) tellDue(ctx context.Context, moves []Move, statuses []MoveStatus) error {
	now := r.now
	if r.call.Every > 0 {
		// After the move, so that nothing is looked for before it is due.
		var err error
		if now, err = r.b.storeNow(ctx, r.dead.number); err != nil {
			return err
		}
	}
	var wakes wakes
	first := r.place
	for i := range moves {
		if statuses[i] != Moved {
			continue
		}
		due := now.Add(moves[i].Delay)
		if r.call.Every > 0 {
			r.place, r.done.Until = first+i+1, due
		}
		switch {
		case r.call.DryRun:
		case moves[i].Delay < Soon:
			wakes.addParts(moves[i].Target, 1<<moves[i].Partition)
		default:
			r.b.onDue(moves[i].Target, due)
		}
	}
	r.b.leases.wake(wakes)
	return nil
}

// pinTarget returns where an item is to go, or nil if that is gone. Each target is
// pinned once.
func (r *redrive) pinTarget(ctx context.Context, it *Item, targets map[Number]*knownQueue) (*knownQueue, error) {
	var n Number
	switch {
	case r.target != nil:
		n = r.target.number
	case it.Dead != nil:
		n = it.Dead.From
	}
	if n.Namespace() != r.call.Namespace {
		return nil, nil
	}
	if to, known := targets[n]; known {
		return to, nil
	}
	to, err := r.b.pin(ctx, func() (*knownQueue, error) { return r.origin(ctx, n) })
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("target: %w", err)
	}
	targets[n] = to
	return to, nil
}

// origin returns a queue by its number, from its document the first time.
func (r *redrive) origin(ctx context.Context, n Number) (*knownQueue, error) {
	q, err := r.b.known.numbered(ctx, n)
	if err != nil || r.origins[n] {
		return q, err
	}
	if q, err = r.b.known.rereadNumbered(ctx, n); err != nil {
		return nil, err
	}
	r.origins[n] = true
	return q, nil
}

// giveBack ends the leases of items that have lapsed, as the next lease would: what is
// held is not moved, and nobody may ever lease from a dead-letter queue again.
func (r *redrive) giveBack(ctx context.Context, items []Item) error {
	var groups []SettleGroup
	for i := range items {
		if it := &items[i]; it.State(r.now) == Lapsed {
			groups = append(groups, SettleGroup{Entries: []Settlement{{
				Key: it.Key, Token: it.Token, Guard: NotLive, Outcome: Release, Undead: true,
			}}})
		}
	}
	if len(groups) == 0 || r.call.DryRun {
		return nil
	}
	// Whether one was still as it was found does not matter: the move finds out.
	_, err := r.b.store.Settle(ctx, groups)
	return err
}

// tryMove answers what the store's Move would.
func (r *redrive) tryMove(ctx context.Context, moves []Move) ([]MoveStatus, error) {
	ids := make([]ID, len(moves))
	for i := range moves {
		ids[i] = moves[i].Key.ID
	}
	found, err := r.b.store.Find(ctx, distinct(ids), false)
	if err != nil {
		return nil, err
	}
	held := make(map[Key]bool, len(found))
	for i := range found {
		held[found[i].Key] = found[i].State(r.now) == Leased
	}
	statuses := make([]MoveStatus, len(moves))
	for i := range moves {
		key := moves[i].Key
		isHeld, lives := held[key]
		key.Queue = moves[i].Target
		_, taken := held[key]
		switch {
		case !lives || isHeld:
			statuses[i] = MoveGone
		case taken:
			statuses[i] = MoveTaken
		default:
			statuses[i] = Moved
		}
	}
	return statuses, nil
}
