package e2e_test

import (
	"fmt"
	"testing"

	"github.com/posthaste-io/posthaste/test/harness"
)

// Whatever else brings items reaches a topic as a produce does: each item in every queue, once,
// under one id.
func TestTopics_AreReachedByAllThatBringsItems(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			server := harness.Start(t, harness.Options{Store: store.url(t), Args: loopback})
			c, ends := newClient(t, server.URL), newCrowd(t)
			c.call("topics.create", object{"topic": "events"}, nil)
			c.call("subscriptions.create", object{"name": "pushed", "topic": "events", "url": ends.URL + "/ok/pushed"}, nil)
			c.call("subscriptions.create", object{"name": "pull", "topic": "events"}, nil)
			all := map[string]bool{}
			// take leases n items of a kind, and maybe others, from the subscription that pulls.
			take := func(kind string, n int) map[string]bool {
				t.Helper()
				taken := map[string]bool{}
				eventually(t, fmt.Sprint(n, " items of kind ", kind), func() bool {
					var receipts []string
					for _, it := range c.lease("events~pull", 100) {
						if all[it.ItemID] {
							t.Errorf("item %s came twice", it.ItemID)
						}
						all[it.ItemID] = true
						receipts = append(receipts, it.Receipt)
						if it.Kind == kind {
							taken[it.ItemID] = true
						}
					}
					if len(receipts) > 0 {
						c.call("queue.complete", object{"receipts": receipts}, nil)
					}
					return len(taken) >= n
				})
				return taken
			}

			c.call("schedules.create", object{"name": "beat", "cron": "@every 1s", "queue_name": "events", "item": object{"kind": "beat"}}, nil)
			take("beat", 2)
			c.call("schedules.delete", object{"name": "beat"}, nil)

			const many = 40
			c.call("queues.create", object{"queue_name": "work"}, nil)
			var items []object
			for i := range many {
				items = append(items, object{"kind": "job", "on_done": "events", "ordering_key": fmt.Sprint("key-", i%4)})
			}
			c.produce("work", items...)
			dead := map[string]bool{}
			for done := 0; done < many; {
				for i, it := range c.lease("work", 100) {
					done++
					if i%2 == 0 {
						c.call("queue.complete", object{"receipts": []string{it.Receipt}}, nil)
						continue
					}
					dead[it.ItemID] = true
					c.call("queue.bury", object{"receipts": []string{it.Receipt}, "reason": "broken"}, nil)
				}
			}
			if got := len(take("item.done", many)); got != many {
				t.Errorf("%d ends were told, want %d", got, many)
			}

			var reply struct{ Moved, Skipped int }
			c.call("queue.redrive", object{"queue_name": "work~dead", "target": "events", "filter": object{"reason": "broken"}}, &reply)
			if reply.Moved != len(dead) || reply.Skipped != 0 {
				t.Errorf("redriven: got %+v, want %d moved", reply, len(dead))
			}
			for id := range take("job", len(dead)) {
				if !dead[id] {
					t.Errorf("item %s was never buried", id)
				}
			}
			if got := c.stats("work~dead").Total; got != 0 {
				t.Errorf("%d items are left in the dead-letter queue, want none", got)
			}
			eventually(t, "all were pushed as well", func() bool { return ends.missing("/ok/pushed", all) == "" })
		})
	}
}
