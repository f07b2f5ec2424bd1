package storagetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// checkEverything compares all that can be read.
func (c *comparison) checkEverything() error {
	for _, check := range []struct {
		what string
		run  func() error
	}{
		{"items", c.checkItems},
		{"stats", c.checkStats},
		{"keys", c.checkKeys},
		{"next due", c.checkNextDue},
		{"sweep", c.checkSweep},
		{"documents", c.checkDocuments},
		{"journal", c.checkJournal},
	} {
		if err := check.run(); err != nil {
			return fmt.Errorf("check of %s: %w", check.what, err)
		}
	}
	return nil
}

func (c *comparison) checkItems() error {
	for i := range 2 * len(c.queues) {
		q, partition := c.queues[i/2], int32(i%2)
		req := queue.ListRequest{Queue: q, Partition: partition, Limit: 1 + c.rng.IntN(30), Content: chance(c.rng, 50)}
		if chance(c.rng, 30) {
			req.States = []queue.State{pick(c.rng, queue.Ready, queue.Scheduled, queue.Retrying, queue.Leased, queue.Lapsed, queue.Behind)}
		}
		items, err := listAll(c.ctx, c.sides[model], queue.ListRequest{Queue: q, Partition: partition, Limit: 1000})
		if err != nil {
			return err
		}
		if len(items) > 0 && chance(c.rng, 30) {
			req.From = pick(c.rng, items...).ID
		}
		err = c.both(func(_ int, b storage.Backend) (string, error) {
			items, err := listAll(c.ctx, b, req)
			if err != nil {
				return "", err
			}
			var s strings.Builder
			for _, it := range items {
				s.WriteString(describeFree(it))
				if req.Content {
					s.WriteString(describeContent(it.Content))
				}
				s.WriteByte('\n')
			}
			return s.String(), nil
		})
		if err != nil {
			return fmt.Errorf("queue %d: %w", q, err)
		}
		if len(items) == 0 {
			continue
		}
		id := pick(c.rng, items...).ID
		err = c.both(func(_ int, b storage.Backend) (string, error) {
			found, err := b.Find(c.ctx, []queue.ID{id}, true)
			if err != nil {
				return "", err
			}
			sortByKey(found)
			var s strings.Builder
			for _, it := range found {
				fmt.Fprintln(&s, describeFree(it), describeContent(it.Content))
			}
			return s.String(), nil
		})
		if err != nil {
			return fmt.Errorf("find %v: %w", id, err)
		}
	}
	return nil
}

func (c *comparison) checkStats() error {
	var means [2][]time.Duration
	err := c.both(func(side int, b storage.Backend) (string, error) {
		stats, err := b.Stats(c.ctx, nil)
		if err != nil {
			return "", err
		}
		slices.SortFunc(stats, func(a, b queue.Stats) int {
			return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Partition, b.Partition))
		})
		var s strings.Builder
		for _, q := range stats {
			means[side] = append(means[side], q.MeanAge, q.MeanHeldAge)
			q.MeanAge, q.MeanHeldAge = 0, 0
			fmt.Fprintf(&s, "%+v\n", q)
		}
		return s.String(), nil
	})
	if err != nil {
		return err
	}
	for i, want := range means[model] {
		if got := means[judged][i]; (got - want).Abs() > meanTolerance {
			return fmt.Errorf("mean age: got %v, want %v", got, want)
		}
	}
	return nil
}

func (c *comparison) checkKeys() error {
	for _, q := range c.queues {
		req := queue.KeysRequest{Queue: q, After: pick(c.rng, "", "", "o1"), Limit: 1 + c.rng.IntN(3)}
		err := c.both(func(_ int, b storage.Backend) (string, error) {
			page, err := b.ListKeys(c.ctx, req)
			if err != nil {
				return "", err
			}
			var s strings.Builder
			for _, k := range page.Keys {
				fmt.Fprintln(&s, k.Key, k.Behind, describeFree(k.Head))
			}
			return s.String(), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkNextDue checks that the store is never later than the model; it may be
// earlier.
func (c *comparison) checkNextDue() error {
	due := [2]map[partitionKey]time.Time{}
	for side, b := range c.sides {
		answer, err := b.NextDue(c.ctx)
		if err != nil {
			return err
		}
		due[side] = map[partitionKey]time.Time{}
		for _, q := range answer.Queues {
			due[side][partitionKey{q.Queue, q.Partition}] = q.At
		}
	}
	for key, want := range due[model] {
		if got, found := due[judged][key]; !found || got.After(want) {
			return fmt.Errorf("queue %d: got %v, %v, want %v or earlier", key.queue, clockTime(got), found, clockTime(want))
		}
	}
	return nil
}

func (c *comparison) checkSweep() error {
	limit := 1 + c.rng.IntN(20)
	return c.both(func(_ int, b storage.Backend) (string, error) {
		items, _, err := sweepAll(c.ctx, b, limit)
		sortByKey(items)
		return describeSwept(items), err
	})
}

// describeSwept tells what a sweep is for.
func describeSwept(items []queue.Item) string {
	var s strings.Builder
	for _, it := range items {
		fmt.Fprintln(&s, it.ID, it.Queue, it.Home, it.Partition, "held", it.Held, clockTime(it.AvailableAt), "expires", clockTime(it.ExpiresAt),
			"counters", countersOf(it), "max", it.MaxAttempts, "dead", it.Dead != nil)
	}
	return s.String()
}

func sortByKey(items []queue.Item) {
	slices.SortFunc(items, func(a, b queue.Item) int {
		return cmp.Or(slices.Compare(a.ID[:], b.ID[:]), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Home, b.Home))
	})
}

func (c *comparison) checkDocuments() error {
	limit := 1 + c.rng.IntN(5)
	return c.both(func(_ int, b storage.Backend) (string, error) {
		var s strings.Builder
		for ns := range queue.Namespace(3) {
			docs, err := b.List(c.ctx, "kind", ns, "", limit)
			if err != nil {
				return "", err
			}
			for _, doc := range docs {
				fmt.Fprintln(&s, "document", ns, doc.Name, clockTime(doc.WakeAt), string(doc.Value))
			}
		}
		found, err := b.Due(c.ctx, "kind", 100)
		if err != nil {
			return "", err
		}
		due := found.Documents
		slices.SortStableFunc(due, func(a, b storage.Document) int {
			return cmp.Or(a.WakeAt.Compare(b.WakeAt), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		for _, doc := range due {
			fmt.Fprintln(&s, "due", doc.Namespace, doc.Name, clockTime(doc.WakeAt))
		}
		fmt.Fprintln(&s, "next", clockTime(found.Next))
		fmt.Fprintln(&s, "now", clockTime(found.Now))
		return s.String(), nil
	})
}

func (c *comparison) checkJournal() error {
	q := storage.RecordQuery{
		Namespace: queue.Namespace(1 + c.rng.IntN(2)), Subscription: pick(c.rng, "", "", "s1"),
		Backward: chance(c.rng, 30), Limit: 1 + c.rng.IntN(50),
	}
	// The journal only grows; most times its end will do.
	if chance(c.rng, 70) {
		q.From = c.clock.Now().Add(-20 * time.Minute)
	}
	return c.both(func(_ int, b storage.Backend) (string, error) {
		records, err := readAll(c.ctx, b, q)
		if err != nil {
			return "", err
		}
		for i := 1; i < len(records); i++ {
			if step := records[i].At.Compare(records[i-1].At); step != 0 && (step < 0) != q.Backward {
				return "", fmt.Errorf("a record of %v stands behind one of %v", clockTime(records[i].At), clockTime(records[i-1].At))
			}
		}
		// Records of one instant stand in any order.
		slices.SortFunc(records, func(a, b queue.Record) int {
			return cmp.Or(a.At.Compare(b.At), cmp.Compare(describeRecord(a), describeRecord(b)))
		})
		var s strings.Builder
		for _, r := range records {
			fmt.Fprintln(&s, describeRecord(r))
		}
		return s.String(), nil
	})
}
