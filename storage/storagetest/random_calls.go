package storagetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// partition is one of the two that queues have here.
func (c *comparison) partition() int32 { return pick[int32](c.rng, 0, 0, 1) }

// randomItem returns an item for a queue; a third has one of a few keys.
func (c *comparison) randomItem(q queue.Number) queue.NewItem {
	item := queue.NewItem{
		ID:          c.ids.next(c.clock.Now()),
		Queue:       q,
		Partition:   c.partition(),
		Delay:       pick(c.rng, 0, 0, 0, time.Millisecond, queue.Soon, time.Second, time.Minute),
		ExpireTTL:   pick(c.rng, 0, 0, time.Second, 20*time.Minute),
		MaxAttempts: pick[int32](c.rng, 0, 0, 0, -1, 1, 2),
	}
	if chance(c.rng, 10) {
		// It comes from elsewhere.
		item.Attempts = c.rng.Int32N(3)
		item.ExpiresAt = c.clock.Now().Add(time.Duration(c.rng.IntN(4)-1) * 10 * time.Minute)
	}
	item.Payload = []byte(strings.Repeat("x", c.rng.IntN(40)))
	if chance(c.rng, 10) {
		item.DueAt = c.clock.Now().Add(time.Duration(c.rng.IntN(4)-1) * 30 * time.Second)
	}
	if chance(c.rng, 20) {
		item.Kind, item.Headers = "kind", map[string]string{"X-A": "a"}
	}
	if chance(c.rng, 40) {
		item.OrderingKey = pick(c.rng, "o1", "o2", "o3")
	}
	if chance(c.rng, 30) {
		body := pick(c.rng, "a", "a", "b")
		item.Payload = []byte(body)
		item.Dedupe = &queue.Dedupe{
			Scope: q, Call: chance(c.rng, 20), Key: pick(c.rng, "k1", "k2", "k3", "k4"), Hash: [32]byte{body[0]},
			TTL: 15*time.Minute + 7*time.Microsecond,
		}
	}
	return item
}

func (c *comparison) produce() error {
	groups := make([]queue.ProduceGroup, 1+c.rng.IntN(3))
	guards := make([][2]*queue.DocumentGuard, len(groups))
	for i := range groups {
		guards[i] = c.randomGuard()
		for range c.rng.IntN(5) {
			item := c.randomItem(pick(c.rng, c.queues...))
			if chance(c.rng, 25) {
				c.fanOut(&item)
			}
			groups[i].Items = append(groups[i].Items, item)
			// An item may come again, to another queue.
			if other := c.queues[0]; chance(c.rng, 10) && item.Queue != other && item.Topic == 0 {
				item.Queue = other
				groups[i].Items = append(groups[i].Items, item)
			}
		}
	}
	return c.both(func(side int, b storage.Backend) (string, error) {
		for i := range groups {
			guardAll(groups[i].Items, guards[i][side])
		}
		answer, err := b.Produce(c.ctx, groups)
		if err != nil {
			return "", err
		}
		var s strings.Builder
		fmt.Fprintln(&s, "now", clockTime(answer.Now))
		for i, group := range answer.Groups {
			at := -1
			if mismatch, ok := errors.AsType[*queue.MismatchError](group.Err); ok {
				at = mismatch.Index
			}
			fmt.Fprintf(&s, "group %d: error %v at %d, overtaken %v\n", i, group.Err != nil, at, errors.Is(group.Err, queue.ErrOvertaken))
			for _, p := range group.Items {
				fmt.Fprintln(&s, p.ID, p.Duplicate, clockTime(p.DueAt))
			}
		}
		return s.String(), nil
	})
}

// guardAll gives items a guard, or none.
func guardAll(items []queue.NewItem, g *queue.DocumentGuard) {
	for i := range items {
		items[i].Guard = g
	}
}

// fanOut makes an item one of a topic, with any number of copies, which may share a payload
// that is large.
func (c *comparison) fanOut(item *queue.NewItem) {
	item.Topic = item.Queue
	if chance(c.rng, 50) {
		item.Payload = append(item.Payload, strings.Repeat("y", 500)...)
	}
	for _, q := range c.queues {
		if chance(c.rng, 50) {
			item.Copies = append(item.Copies, queue.Copy{Queue: q, ExpireTTL: pick(c.rng, 0, time.Second, time.Hour)})
		}
	}
}

// randomGuard returns, most often, no guard; else one on a document that may not be there,
// at times with another revision, as each side knows it.
func (c *comparison) randomGuard() (guards [2]*queue.DocumentGuard) {
	if chance(c.rng, 60) {
		return guards
	}
	key := randomDocument(c.rng).DocumentKey
	var off uint64
	if chance(c.rng, 30) {
		off = 1_000_000
	}
	for side := range guards {
		guards[side] = &queue.DocumentGuard{
			Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, Revision: c.revisions[key][side] + off,
		}
	}
	return guards
}

func (c *comparison) lease() error {
	var calls []queue.LeaseCall
	for i := range 2 * len(c.queues) {
		if !chance(c.rng, 40) {
			continue
		}
		call := queue.LeaseCall{Queue: c.queues[i/2], Partition: int32(i % 2)}
		for i := range 1 + c.rng.IntN(3) {
			call.Takers = append(call.Takers, queue.Taker{
				Limit:       c.rng.IntN(4),
				MaxBytes:    pick(c.rng, 0, 0, 1, 50),
				TTL:         pick(c.rng, time.Second, 30*time.Second, time.Minute, time.Hour),
				Owner:       fmt.Sprint("owner ", i),
				LapseCounts: chance(c.rng, 50),
			})
		}
		calls = append(calls, call)
	}
	var answers [2]queue.LeaseAnswer
	err := c.both(func(side int, b storage.Backend) (string, error) {
		answer, err := b.Lease(c.ctx, calls)
		if err != nil {
			return "", err
		}
		answers[side] = answer
		var s strings.Builder
		fmt.Fprintln(&s, "now", clockTime(answer.Now))
		for _, call := range answer.Calls {
			fmt.Fprintln(&s, "lapsed", call.Lapsed)
			for i, items := range call.Takers {
				for _, it := range items {
					fmt.Fprintln(&s, "taker", i, describeFree(it), describeContent(it.Content))
				}
			}
		}
		return s.String(), nil
	})
	if err != nil {
		return err
	}
	for i, call := range answers[model].Calls {
		for j, items := range call.Takers {
			for k, it := range items {
				twin := answers[judged].Calls[i].Takers[j][k]
				kept := copyKey{it.ID, it.Home}
				if last := c.counters[kept]; twin.Token.Counter <= last {
					return fmt.Errorf("item %v: token counter went from %d to %d, want it to rise", it.ID, last, twin.Token.Counter)
				}
				c.counters[kept] = twin.Token.Counter
				c.receipts = append(c.receipts, pairedReceipt{it.Key, [2]queue.Token{twin.Token, it.Token}})
			}
		}
	}
	// Old ones are kept for a while, to be refused.
	if old := len(c.receipts) - 40; old > 0 {
		c.receipts = c.receipts[old:]
	}
	return nil
}

// pickReceipts returns up to n receipts of as many items.
func (c *comparison) pickReceipts(n int) []pairedReceipt {
	var picked []pairedReceipt
	seen := map[queue.Key]bool{}
	for range n {
		if len(c.receipts) == 0 {
			break
		}
		if r := pick(c.rng, c.receipts...); !seen[r.key] {
			seen[r.key] = true
			picked = append(picked, r)
		}
	}
	return picked
}

func (c *comparison) settle() error {
	var groups [2][]queue.SettleGroup
	for range 1 + c.rng.IntN(3) {
		var group [2]queue.SettleGroup
		for _, r := range c.pickReceipts(1 + c.rng.IntN(3)) {
			s := c.randomSettlement(r.key)
			guards := c.randomGuard()
			for side := range group {
				s.Token = r.tokens[side]
				s.Produce = slices.Clone(s.Produce)
				guardAll(s.Produce, guards[side])
				group[side].Entries = append(group[side].Entries, s)
			}
		}
		for side := range groups {
			groups[side] = append(groups[side], group[side])
		}
	}
	return c.both(func(side int, b storage.Backend) (string, error) {
		answer, err := b.Settle(c.ctx, groups[side])
		return describeSettled(answer), err
	})
}

func describeSettled(answer queue.SettleAnswer) string {
	var s strings.Builder
	fmt.Fprintln(&s, "now", clockTime(answer.Now))
	for i, group := range answer.Groups {
		for _, settled := range group {
			fmt.Fprintln(&s, "group", i, statusName(settled.Status), settled.Buried, clockTime(settled.AvailableAt))
		}
	}
	return s.String()
}

// randomSettlement is what a broker could say about an item; in a dead-letter
// queue it buries nothing.
func (c *comparison) randomSettlement(key queue.Key) queue.Settlement {
	s := queue.Settlement{
		Key:         key,
		Outcome:     pick(c.rng, queue.Complete, queue.Complete, queue.Retry, queue.Retry, queue.Retry, queue.Release, queue.Bury),
		DeadQueue:   c.dead,
		Reason:      "reason",
		MaxAttempts: pick[int32](c.rng, 0, -1, 1, 2, 3),
	}
	if key.Queue == c.dead {
		s.Undead = true
		if s.Outcome == queue.Bury {
			s.Outcome = queue.Release
		}
	}
	switch s.Outcome {
	case queue.Retry:
		if chance(c.rng, 20) {
			s.DeadQueue = 0
		}
		s.Delay = pick(c.rng, 0, time.Second, time.Minute)
		if chance(c.rng, 10) {
			s.DueAt = c.clock.Now().Add(time.Duration(c.rng.IntN(5)-2) * time.Second)
		}
		s.Last = pick(c.rng, queue.Last{}, queue.Last{Status: 500, Error: "boom"})
	case queue.Release:
		s.Delay = pick(c.rng, 0, 0, 0, time.Second)
	case queue.Bury:
		s.Counts = chance(c.rng, 50)
		s.Last = pick(c.rng, queue.Last{}, queue.Last{Status: 400})
	}
	if chance(c.rng, 50) {
		s.Record = attempt(pick(c.rng, "s1", "s2"), "verdict")
	}
	if chance(c.rng, 20) {
		item := c.randomItem(pick(c.rng, c.queues...))
		if chance(c.rng, 50) {
			c.fanOut(&item)
		}
		s.Produce = []queue.NewItem{item}
	}
	return s
}

func (c *comparison) extend() error {
	var entries [2][]queue.Extension
	for _, r := range c.pickReceipts(1 + c.rng.IntN(4)) {
		e := queue.Extension{Key: r.key, TTL: pick(c.rng, time.Second, time.Minute, time.Hour)}
		if chance(c.rng, 30) {
			e.Handover = &queue.Handover{Owner: "endpoint", LapseCounts: chance(c.rng, 50)}
			if chance(c.rng, 50) {
				e.Handover.Record = attempt("s1", "deferred")
			}
		}
		for side := range entries {
			e.Token = r.tokens[side]
			entries[side] = append(entries[side], e)
		}
	}
	return c.both(func(side int, b storage.Backend) (string, error) {
		answer, err := b.Extend(c.ctx, entries[side])
		var s strings.Builder
		fmt.Fprintln(&s, "now", clockTime(answer.Now))
		for _, e := range answer.Entries {
			fmt.Fprintln(&s, statusName(e.Status), clockTime(e.Deadline))
		}
		return s.String(), err
	})
}

// sweepAndBury walks both stores and buries some of what they return.
func (c *comparison) sweepAndBury() error {
	var entries [2][]queue.Settlement
	limit := 1 + c.rng.IntN(20)
	mask := c.rng.Uint64()
	err := c.both(func(side int, b storage.Backend) (string, error) {
		items, _, err := sweepAll(c.ctx, b, limit)
		if err != nil {
			return "", err
		}
		sortByKey(items)
		for i, it := range items {
			if it.Queue == c.dead || mask>>(i%64)&1 == 0 {
				continue
			}
			s := buryUnheld(it, c.dead, "swept")
			s.Record = &queue.Record{Type: queue.EndingRecord, Verdict: "swept"}
			entries[side] = append(entries[side], s)
		}
		return describeSwept(items), nil
	})
	if err != nil {
		return err
	}
	return c.both(func(side int, b storage.Backend) (string, error) {
		answer, err := b.Settle(c.ctx, []queue.SettleGroup{{Entries: entries[side]}})
		return describeSettled(answer), err
	})
}

func (c *comparison) move() error {
	buried, err := listAll(c.ctx, c.sides[model], queue.ListRequest{Queue: c.dead, Limit: 1000})
	if err != nil {
		return err
	}
	var moves []queue.Move
	for _, it := range buried {
		if it.Dead == nil || !chance(c.rng, 50) {
			continue
		}
		target := it.Home
		if chance(c.rng, 30) || target == c.dead {
			target = c.queues[1]
		}
		moves = append(moves, queue.Move{
			Key: it.Key, Target: target, Partition: c.partition(), ExpireTTL: pick(c.rng, 0, time.Minute),
			Delay: pick(c.rng, 0, 0, queue.Soon-time.Microsecond, queue.Soon, time.Minute),
		})
	}
	return c.both(func(_ int, b storage.Backend) (string, error) {
		statuses, err := b.Move(c.ctx, moves)
		return fmt.Sprint(statuses), err
	})
}

func (c *comparison) purge() error {
	q, partition := pick(c.rng, c.queues...), c.partition()
	req := queue.PurgeRequest{Queue: q, Partition: partition, Limit: 1000, Reason: "cancelled"}
	if chance(c.rng, 50) {
		req.States = []queue.State{pick(c.rng, queue.Ready, queue.Scheduled, queue.Retrying, queue.Leased, queue.Lapsed)}
	} else {
		items, err := listAll(c.ctx, c.sides[model], queue.ListRequest{Queue: q, Partition: partition, Limit: 1000})
		if err != nil {
			return err
		}
		for _, it := range items {
			if chance(c.rng, 30) {
				req.Keys = append(req.Keys, it.Key)
			}
		}
		// A call without keys would be one for the whole queue.
		if len(req.Keys) == 0 {
			return nil
		}
	}
	return c.both(func(_ int, b storage.Backend) (string, error) {
		answer, err := b.Purge(c.ctx, req)
		return fmt.Sprint(answer.Purged, answer.More), err
	})
}

func randomDocument(rng *rand.Rand) storage.Document {
	return document(queue.Namespace(1+rng.IntN(2)), pick(rng, "a", "b", "c", "d"), 0)
}

func (c *comparison) changeDocument() error {
	doc := randomDocument(c.rng)
	doc.Value = []byte(fmt.Sprint("value ", c.rng.IntN(100)))
	if chance(c.rng, 50) {
		doc.WakeAt = c.clock.Now().Add(time.Duration(c.rng.IntN(60)) * time.Second)
	}
	revisions := c.revisions[doc.DocumentKey]
	if chance(c.rng, 20) {
		revisions = [2]uint64{} // As one who does not know that it is there.
	}
	remove := revisions[model] != 0 && chance(c.rng, 25)
	var items []queue.NewItem
	if chance(c.rng, 40) {
		item := c.randomItem(pick(c.rng, c.queues...))
		if chance(c.rng, 50) {
			c.fanOut(&item)
		}
		items = append(items, item)
	}
	guards := c.randomGuard()
	var newest [2]uint64
	var refused error
	err := c.both(func(side int, b storage.Backend) (string, error) {
		if remove {
			refused = b.Delete(c.ctx, doc.DocumentKey, revisions[side])
		} else {
			doc.Revision = revisions[side]
			guardAll(items, guards[side])
			newest[side], refused = b.Put(c.ctx, doc, items...)
		}
		for _, known := range []error{queue.ErrExists, queue.ErrRevision, queue.ErrNotFound, queue.ErrOvertaken} {
			if errors.Is(refused, known) {
				return known.Error(), nil
			}
		}
		return "done", refused
	})
	if err == nil && refused == nil {
		c.revisions[doc.DocumentKey] = newest
	}
	return err
}
