package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// settleRequest is one caller's call, with the queues that it may bury into or tell.
type settleRequest struct {
	group  SettleGroup
	pinned pinSet
}

// Settle ends leases: all of the call's, or none. The answer has the receipts' order.
//
// Every receipt that is refused is named by a [*StaleError]; one whose item is in
// another namespace looks like one whose item never was. Burying in a dead-letter
// queue is [ErrAlreadyDead], and a retry there has no limit. Queue and partition of
// the call, if given, must be those of every receipt. What is completed is kept in the
// journal where its queue has KeepEnded, and a result is refused where it has not, unless
// it is told to somebody.
//
// Where an item, or its subscription, has on_done, the end of it is told in the same
// transaction; see [Done].
//
// Other errors: [InvalidError], for a receipt given twice, too; [TooLargeError];
// [FanOutError], where several ends are told to topics with many subscriptions;
// [OverloadedError]; [ErrShuttingDown]; those of [Store]. After [ErrUnknownOutcome]
// a repeat answers [ErrStale] or [ErrNotFound] if it was done.
func (b *Broker) Settle(ctx context.Context, call SettleCall) ([]Settled, error) {
	if err := b.checkSettle(ctx, &call); err != nil {
		return nil, err
	}
	targets, doomed, err := b.targets(ctx, &call)
	if err != nil {
		return nil, err
	}
	if !doomed {
		if err := b.notify(ctx, &call, targets, toldEnds(&call)); err != nil {
			return nil, err
		}
		if err := b.park(ctx, &call, targets); err != nil {
			return nil, err
		}
	}
	// The entries that reached their limits while no dead-letter queue was known, or while
	// nobody knew that there is an end to tell: they are not answered so again.
	var needDead []int
	for round := 1; ; {
		req, err := b.settlements(ctx, &call, targets, doomed, needDead)
		if err != nil {
			return nil, err
		}
		told := req.pinned.queues
		settled, err := b.settles.do(ctx, burdenOf(req.group.Entries), req)
		if err != nil {
			if err = toldTooMuch(err, req.group.Entries); err != nil {
				return nil, fmt.Errorf("settle: %w", err)
			}
			b.warnUntold(targets[0].notice, "its copies for the topic do not fit into one transaction")
			targets[0].notice = nil
			continue
		}
		if settled[0].Status == Overtaken { // then all are
			if round++; round > topicRounds {
				return nil, overtakenTooOften("the topic that is told")
			}
			if err := b.rereadTopics(ctx, told); err != nil {
				return nil, err
			}
			continue
		}
		over := indexesOf(settled, OverLimit)
		if doomed || len(over) == 0 {
			if err := judge(settled, targets); err != nil {
				return nil, err
			}
			for i := range settled {
				settled[i].Parked = targets[i].parked && !settled[i].Buried
			}
			return settled, nil
		}
		if err := b.notify(ctx, &call, targets, over); err != nil {
			return nil, err
		}
		needDead = append(needDead, over...)
	}
}

// toldEnds are the entries that end their items for certain, and somebody is told. A retry
// does so at its limit only, which the store knows.
func toldEnds(call *SettleCall) (ends []int) {
	for i := range call.Entries {
		if e := &call.Entries[i]; e.Outcome != Retry && e.tells() {
			ends = append(ends, i)
		}
	}
	return ends
}

// checkSettle judges what can be judged without the items.
func (b *Broker) checkSettle(ctx context.Context, call *SettleCall) error {
	if len(call.Entries) == 0 {
		return Invalid("receipts", "none given; want 1 to %d", DefaultMaxItems)
	}
	if len(call.Entries) > DefaultMaxItems {
		return &TooLargeError{Field: "receipts", Limit: DefaultMaxItems, Unit: "receipts"}
	}
	receipts := make([]Receipt, len(call.Entries))
	for i := range call.Entries {
		receipts[i] = call.Entries[i].Receipt
		if err := checkEntry(&call.Entries[i]); err != nil {
			return atEntry("receipts", i, err)
		}
	}
	if err := checkTwice(receipts); err != nil {
		return err
	}
	return b.checkPlace(ctx, call.Namespace, call.Queue, call.Partition, receipts)
}

func checkTwice(receipts []Receipt) error {
	if len(receipts) < 2 {
		return nil
	}
	seen := make(map[Receipt]int, len(receipts))
	for i, r := range receipts {
		r = r.lease()
		if first, twice := seen[r]; twice {
			return Invalid(fmt.Sprintf("receipts[%d]", i), "is the same as receipts[%d]; give each receipt once", first)
		}
		seen[r] = i
	}
	return nil
}

// checkPlace judges the queue and the partition that a call names beside receipts.
// Those of other namespaces have no place.
func (b *Broker) checkPlace(ctx context.Context, ns Namespace, name string, partition *int32, receipts []Receipt) error {
	if partition != nil {
		for i, r := range receipts {
			if r.Key.Queue.Namespace() == ns && r.Partition != *partition {
				return Invalid("partition", "is %d, but receipts[%d] is of partition %d", *partition, i, r.Partition)
			}
		}
	}
	if name == "" {
		return nil
	}
	q, err := b.known.either(ctx, ns, name)
	if err != nil {
		return err
	}
	number := q.number
	if s := q.settings(); s.Topic != nil {
		// Who leased while it was a queue goes on to name that.
		if number = s.Topic.KeyScope; number == 0 {
			return topicError(s)
		}
	}
	for i, r := range receipts {
		if r.Key.Queue.Namespace() == ns && r.Key.Queue != number {
			return Invalid("queue_name", "is %s, but receipts[%d] is of another queue", name, i)
		}
	}
	return nil
}

func checkEntry(e *SettleEntry) error {
	switch e.Outcome {
	case Complete, Retry, Release, Bury:
	default:
		return Invalid("", "has no outcome")
	}
	if err := checkDue("retry_at", "delay", e.DueAt, e.Delay); err != nil {
		return err
	}
	if len(e.Reason) > MaxLastError {
		return Invalid("reason", "is longer than %d bytes", MaxLastError)
	}
	if !isStorable(e.Reason) {
		return Invalid("reason", "is not UTF-8 without NUL")
	}
	if e.MaxAttempts < -1 {
		return Invalid("max_attempts", "is %d; want -1 for no limit, 0 for the queue's, or more", e.MaxAttempts)
	}
	return checkResult(e)
}

// target is what is known of a receipt before the store is asked.
type target struct {
	// queue and settings are there for outcomes that depend on them: Retry and Bury.
	queue    *knownQueue
	settings *Settings
	// record is what the entry leaves in the journal if it brings nothing itself, or nil.
	record *Record
	// limit is the one of attempts that is in force if the entry does not say, or 0.
	limit int32
	// notice is there once it is known that the entry ends its item, and somebody is told.
	notice *notice
	// parked says that the item is not to be tried again by itself.
	parked bool
	// refused says why the entry cannot be done, whatever its lease: [ErrNotFound],
	// [ErrAlreadyDead] or nil.
	refused error
}

// targets looks at the receipts of a call, and says whether one of them is refused,
// and the call with it.
func (b *Broker) targets(ctx context.Context, call *SettleCall) (targets []target, doomed bool, err error) {
	targets = make([]target, len(call.Entries))
	for i := range call.Entries {
		targets[i], err = b.target(ctx, call.Namespace, &call.Entries[i])
		if err != nil {
			return nil, false, atEntry("receipts", i, err)
		}
		doomed = doomed || targets[i].refused != nil
	}
	return targets, doomed, nil
}

func (b *Broker) target(ctx context.Context, ns Namespace, e *SettleEntry) (to target, err error) {
	switch err = b.checkReceipt(ctx, ns, e.Receipt); {
	case err != nil:
	case e.Outcome == Complete:
		to.record, err = b.ending(ctx, e)
	case e.Outcome == Retry || e.Outcome == Bury:
		if to.queue, err = b.known.numbered(ctx, e.Receipt.Key.Queue); err != nil {
			break
		}
		to.settings = to.queue.settings()
		if to.settings.DeadLetter && e.Outcome == Bury {
			to.refused = ErrAlreadyDead
		}
		if to.limit, err = b.limitOf(ctx, to.queue, e); err == nil {
			to.record, err = b.laterOutcome(ctx, to.queue, e)
		}
	case e.Receipt.Pushed:
		var q *knownQueue
		if q, err = b.known.numbered(ctx, e.Receipt.Key.Queue); err == nil {
			to.record, err = b.laterOutcome(ctx, q, e)
		}
	}
	if errors.Is(err, ErrNotFound) {
		return target{refused: ErrNotFound}, nil
	}
	return to, err
}

// nothing is a settlement of an item that is nowhere. The store refuses it, and what
// stands beside it, but says of each whether it would have been done.
var nothing = Settlement{Outcome: Complete}

// settlements makes a call into what the store is asked for. A doomed one is asked
// for as well, without the means to be applied: whoever is told what is refused
// wants to know of all of it.
func (b *Broker) settlements(ctx context.Context, call *SettleCall, targets []target, doomed bool, needDead []int) (req settleRequest, err error) {
	defer func() {
		if err != nil {
			req.pinned.unpin()
		}
	}()
	limit := responseLimit(call.Entries, targets)
	req.group.Entries = make([]Settlement, len(call.Entries))
	for i := range call.Entries {
		e, to := &call.Entries[i], &targets[i]
		s := &req.group.Entries[i]
		if to.refused == ErrNotFound {
			*s = nothing
			continue
		}
		*s = settlement(e, to, limit)
		if doomed {
			continue // no queue is made for it, and nobody told
		}
		var dead *knownQueue
		if to.queue != nil && !s.Undead {
			// Most retries do not reach their limit, so the queue is neither read nor made
			// for them; the store says if it is needed.
			if certain := e.Outcome == Bury || slices.Contains(needDead, i); certain {
				dead, err = b.pinDead(ctx, to.queue, &req.pinned)
			} else if !e.tells() { // that one must not be buried before it is known
				dead = b.peekDead(to.queue, &req.pinned)
			}
			if err != nil {
				return req, fmt.Errorf("dead-letter queue of %s: %w", to.queue.name, err)
			}
		}
		if dead != nil {
			s.DeadQueue = dead.number
		}
		if to.notice == nil {
			continue
		}
		done := to.notice.end(s, dead, answerOf(e))
		done.shorten(limit)
		if s.Produce, err = b.tell(ctx, to.notice, &done, &req.pinned); err != nil {
			return req, err
		}
	}
	return req, checkTold(req.group.Entries)
}

// settlement is an entry without the queues that it leads to. Of an attempt's response it
// keeps at most limit bytes.
func settlement(e *SettleEntry, to *target, limit int) Settlement {
	s := Settlement{
		Key: e.Receipt.Key, Token: e.Receipt.Token, Outcome: e.Outcome,
		DueAt: e.DueAt, Delay: e.Delay, Reason: e.Reason, Last: cleanLast(e.Last),
		Counts: e.Counts && e.Outcome == Bury,
	}
	if e.Record != nil && !e.Unlogged {
		s.Record = cleanRecord(e.Record)
		s.Record.Response = s.Record.Response[:min(len(s.Record.Response), limit)]
	}
	if to.record != nil {
		s.Record = to.record
	}
	switch {
	case to.queue == nil:
		return s
	case to.settings.DeadLetter:
		s.Undead = true
		return s
	}
	if to.parked {
		s.DueAt, s.Delay = time.Time{}, parkedFor
	}
	s.MaxAttempts = cmp.Or(e.MaxAttempts, to.limit, to.settings.MaxAttempts)
	if e.Outcome == Retry && s.Reason == "" {
		s.Reason = ReasonMaxAttempts
	}
	return s
}

// answerOf is what led to an entry, whether it is kept or not.
func answerOf(e *SettleEntry) *Record {
	if e.Record != nil {
		return cleanRecord(e.Record)
	}
	return &Record{Response: e.Result}
}

// storeSettle is the settling batcher's call of the store.
func (b *Broker) storeSettle(ctx context.Context, batch []settleRequest) ([][]Settled, error) {
	groups := make([]SettleGroup, len(batch))
	for i := range batch {
		groups[i] = batch[i].group
	}
	answer, err := b.store.Settle(ctx, groups)
	if err != nil {
		return nil, err
	}
	// Here, not where the caller gets its answer: it may have left.
	var wakes wakes
	for i, group := range groups {
		for j := range group.Entries {
			s, settled := &group.Entries[j], &answer.Groups[i][j]
			switch {
			case settled.Status != Applied:
			case s.Outcome == Complete, s.Outcome == Bury, settled.Buried:
				b.endings.wake(s.Key.ID)
				if s.Outcome != Complete {
					wakes.add(s.DeadQueue)
				}
				if b.ordered.has(s.Key.Queue) {
					wakes.add(s.Key.Queue) // the next of its key may go
				}
			case settled.AvailableAt.After(answer.Now):
				b.onDue(s.Key.Queue, settled.AvailableAt)
			default:
				wakes.add(s.Key.Queue)
			}
			if settled.Status == Applied {
				wakes.addProduced(s)
			}
		}
	}
	b.leases.wake(wakes)
	return answer.Groups, nil
}

// wakes are queues to wake. Runs of the same queue, which are common, count once.
type wakes []wake

// wake is a queue on which something may be leased, and in which partitions: a bit for
// each.
type wake struct {
	queue Number
	parts uint64
}

// anywhere is all partitions.
const anywhere = ^uint64(0)

func (w *wakes) add(n Number) { w.addParts(n, anywhere) }

func (w *wakes) addParts(n Number, parts uint64) {
	if k := len(*w); k > 0 && (*w)[k-1].queue == n {
		(*w)[k-1].parts |= parts
		return
	}
	*w = append(*w, wake{n, parts})
}

func indexesOf(settled []Settled, status SettleStatus) (found []int) {
	for i := range settled {
		if settled[i].Status == status {
			found = append(found, i)
		}
	}
	return found
}

// judge is nil if everything was applied.
func judge(settled []Settled, targets []target) error {
	var refused refusals
	for i := range settled {
		switch settled[i].Status {
		case Stale:
			refused.add(i, ErrStale)
		case Gone:
			refused.add(i, ErrNotFound)
		case OverLimit:
			// Held, and to be buried without a queue to be buried in: refused if there can
			// be none, and good but for the others' sake if there was none yet.
			if reason := targets[i].refused; reason != nil {
				refused.add(i, reason)
			}
		}
	}
	return refused.err()
}

// refusals are receipts with their reasons, by index.
type refusals map[int]error

func (r *refusals) add(i int, reason error) {
	if *r == nil {
		*r = refusals{}
	}
	(*r)[i] = reason
}

func (r refusals) err() error {
	if len(r) == 0 {
		return nil
	}
	return &StaleError{Entries: r}
}

// burdenOf is what a call is to the batcher. It is on the queue of its first receipt:
// most are on one alone.
func burdenOf(entries []Settlement) burden {
	of := burden{queue: entries[0].Key.Queue, entries: len(entries)}
	for i := range entries {
		if r := entries[i].Record; r != nil {
			of.bytes += len(r.Response) + len(r.Error)
		}
		told := burdenOfItems(entries[i].Produce)
		of.entries += told.entries
		of.bytes += told.bytes
	}
	return of
}
