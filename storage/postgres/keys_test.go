package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
)

// wantHeads fails unless of each key that binds, the first item and no other has a finite
// position.
func (w *world) wantHeads() {
	w.Helper()
	if n := w.count(`select count(*) from (
		select available_at < ` + foreverSQL + ` as finite, row_number() over (partition by queue, ordering_key order by seq) as nth
		from {s}.items where ordering_key <> '' and dead_from is null
	) i where finite <> (nth = 1)`); n > 0 {
		w.Errorf("%d items with a key stand where they should not", n)
	}
}

// lockKey takes the lock of a key in a transaction of somebody else, which the returned
// function commits after a statement.
func (w *world) lockKey(q queue.Number, key string) (commit func(text string, args ...any)) {
	w.Helper()
	tx, err := w.pool().Begin(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(w.Context())) }) // it was committed, unless the test failed
	if _, err := tx.Exec(w.Context(), w.store.text(lockKeysSQL), []int64{int64(q)}, []string{key}); err != nil {
		w.Fatal(err)
	}
	return func(text string, args ...any) {
		w.Helper()
		if _, err := tx.Exec(w.Context(), w.store.text(text), args...); err != nil {
			w.Fatal(err)
		}
		if err := tx.Commit(w.Context()); err != nil {
			w.Fatal(err)
		}
	}
}

func TestKeys_AProducerSeesWhatASettlementBeforeItDid(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q := queue.NewNumber(1, 1)
	first, second := keyed(q, "k"), keyed(q, "k")
	w.produce(group(first))
	commit := w.lockKey(q, "k")
	var produced sync.WaitGroup
	var answer queue.ProduceAnswer
	produced.Go(func() { answer = w.produce(group(second)) })
	w.untilOneWaits()
	commit(`delete from {s}.items where id = $1`, [16]byte(first.ID))
	produced.Wait()
	if got := answer.Groups[0].Items[0].DueAt; !got.Equal(w.clock()) {
		t.Errorf("due at %v, want now: it is the head", got)
	}
	w.wantHeads()
}

func TestKeys_ASettlementSeesWhatAProducerBeforeItDid(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q := queue.NewNumber(1, 1)
	w.produce(group(keyed(q, "k")))
	head := w.lease(call(q, taker(1)))[0].Takers[0][0]
	commit := w.lockKey(q, "k")
	var settled sync.WaitGroup
	settled.Go(func() {
		w.settle(queue.SettleGroup{Entries: []queue.Settlement{settlementOf(head, queue.Complete, 0)}})
	})
	w.untilOneWaits()
	next := queue.NewID()
	commit(`insert into {s}.items (id, queue, home, partition, created_at, updated_at, first_due_at, due_at, available_at, size, attributes, body, ordering_key)
		values ($1, $2, $2, 0, $3, $3, $3, $3, `+foreverSQL+`, 0, $4, '', 'k')`, [16]byte(next), int64(q), w.clock(), emptyAttributes)
	settled.Wait()
	if got := w.lease(call(q, taker(2)))[0].Takers[0]; len(got) != 1 || got[0].ID != next {
		t.Errorf("leased %d items, want the next one", len(got))
	}
}

// A node that never saw a queue's keys finds out, and does nothing by halves before.
func TestKeys_ANodeThatKnowsOfNoKeysFindsThem(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q, dead := queue.NewNumber(1, 1), queue.NewNumber(1, 2)
	forget := func() { w.store.keyed = keyedQueues{} }
	w.produce(group(keyed(q, "a"), keyed(q, "a"), keyed(q, "a"), keyed(q, "b"), keyed(q, "b"), fresh(q, "", "")))
	items := w.lease(call(q, taker(9)))[0].Takers[0]
	if len(items) != 3 {
		t.Fatalf("leased %d, want 3", len(items))
	}
	if !w.store.keyed.any(map[queue.Number]bool{q: true}) {
		t.Error("a lease of items with keys is forgotten")
	}
	forget()
	// No lock is needed for what goes nowhere.
	w.settle(queue.SettleGroup{Entries: []queue.Settlement{settlementOf(items[0], queue.Release, 0)}},
		queue.SettleGroup{Entries: []queue.Settlement{settlementOf(items[2], queue.Complete, 0)}})
	if w.store.keyed.any(map[queue.Number]bool{q: true}) {
		t.Error("a release of a head was sent again with locks")
	}
	w.settle(queue.SettleGroup{Entries: []queue.Settlement{settlementOf(items[1], queue.Bury, dead)}})
	if !w.store.keyed.any(map[queue.Number]bool{q: true}) {
		t.Error("that a queue has keys is not remembered")
	}
	w.wantHeads()
	forget()
	behind := w.list(queue.ListRequest{Queue: q, States: []queue.State{queue.Behind}, Limit: 9})
	later := queue.Settlement{Key: behind[0].Key, Token: behind[0].Token, Guard: queue.NotLive, Outcome: queue.Release, Delay: time.Minute}
	answer := w.settle(queue.SettleGroup{Entries: []queue.Settlement{later}})
	if got := answer.Groups[0][0]; got.Status != queue.Applied || !got.AvailableAt.Equal(queue.Forever) {
		t.Errorf("got %+v, want that it stays behind", got)
	}
	w.wantHeads()
	w.wantCounted()
}

// What a head leaves behind may be settled in the same batch, before it or after.
func TestKeys_TheNextMayBeSettledTogetherWithItsHead(t *testing.T) {
	t.Parallel()
	for _, headFirst := range []bool{true, false} {
		for _, groups := range []int{1, 2} {
			w := setupWorld(t, true)
			q := queue.NewNumber(1, 1)
			w.produce(group(keyed(q, "k"), keyed(q, "k"), keyed(q, "k")))
			head := w.lease(call(q, taker(1)))[0].Takers[0][0]
			next := w.list(queue.ListRequest{Queue: q, States: []queue.State{queue.Behind}, Limit: 9})[0]
			entries := []queue.Settlement{
				settlementOf(head, queue.Complete, 0),
				{Key: next.Key, Token: next.Token, Guard: queue.NotLive, Outcome: queue.Release, Delay: time.Minute},
			}
			told := w.clock().Add(time.Minute)
			if !headFirst {
				slices.Reverse(entries)
				told = queue.Forever
			}
			var answer []queue.Settled
			if groups == 1 {
				answer = w.settle(queue.SettleGroup{Entries: entries}).Groups[0]
			} else {
				answer = slices.Concat(w.settle(queue.SettleGroup{Entries: entries[:1]}, queue.SettleGroup{Entries: entries[1:]}).Groups...)
			}
			if got := answer[slices.IndexFunc(entries, func(e queue.Settlement) bool { return e.Key == next.Key })]; !got.AvailableAt.Equal(told) {
				t.Errorf("head first %v, %d groups: told %v, want %v", headFirst, groups, got.AvailableAt, told)
			}
			w.wantHeads()
			if at := w.first(q); at.ID != next.ID || !at.AvailableAt.Equal(w.clock().Add(time.Minute)) {
				t.Errorf("head first %v, %d groups: the head stands at %v, want the next in a minute", headFirst, groups, at.AvailableAt)
			}
		}
	}
}

func TestKeys_PurgeGoesOnPageByPage(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q := queue.NewNumber(1, 1)
	for range 5 {
		w.produce(group(keyed(q, "a"), keyed(q, "b"), keyed(q, "a"), fresh(q, "", "")))
	}
	for left := 20; left > 0; left -= 3 {
		answer, err := w.store.Purge(t.Context(), queue.PurgeRequest{Queue: q, Limit: 3})
		if want := (queue.PurgeAnswer{Purged: min(3, left), More: left > 3}); err != nil || answer != want {
			t.Fatalf("%d are left: got %+v, %v, want %+v", left, answer, err, want)
		}
		w.wantHeads()
	}
	w.wantCounted()
}

// An item that was never buried is bound where it is moved from, too.
func TestKeys_AMoveOutOfAQueuePromotesTheNextThere(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q, target := queue.NewNumber(1, 1), queue.NewNumber(1, 2)
	w.produce(group(keyed(q, "k"), keyed(q, "k"), keyed(q, "k"), keyed(target, "k")))
	keys := w.keys(q)
	statuses, err := w.store.Move(t.Context(), []queue.Move{{Key: keys[0], Target: target}, {Key: keys[1], Target: target}})
	if err != nil || statuses[0] != queue.Moved || statuses[1] != queue.Moved {
		t.Fatalf("got %v, %v, want both moved", statuses, err)
	}
	w.wantHeads()
	if n := w.count(`select count(*) from {s}.items where queue = $1 and available_at >= `+foreverSQL, int64(target)); n != 2 {
		t.Errorf("%d stand behind in the target, want both that came", n)
	}
	w.wantCounted()
}

// A promoted item may stand far below where this node's claims begin, and its waiters
// know nothing of it.
func TestKeys_APromotedItemIsLeasedAtOnce(t *testing.T) {
	t.Parallel()
	for _, cut := range append(slices.Clone(cuts), struct {
		name string
		cut  func(*pgtest.Proxy, string) <-chan struct{}
	}{}) {
		t.Run(cut.name, func(t *testing.T) {
			t.Parallel()
			proxy := pgtest.NewProxy(t, pgtest.URL(t))
			w := openWorld(t, Options{URL: proxy.URL(), NoListen: true})
			e := w.listen()
			q := queue.NewNumber(1, 1)
			w.produce(group(keyed(q, "k"), keyed(q, "k")))
			lease := call(q, queue.Taker{Limit: 1, TTL: time.Hour})
			head := w.lease(lease)[0].Takers[0][0]
			for walked := time.Now(); time.Since(walked) < 4*headSlack; { // so that claims begin above
				w.produce(group(fresh(q, "", "body")))
				if got := w.lease(lease)[0].Takers[0]; len(got) != 1 || got[0].OrderingKey != "" {
					t.Fatalf("leased %d, want the one without a key", len(got))
				}
			}
			w.store.heads.of[place{queue: q}].walk = time.Now().Add(time.Hour)
			if cut.cut != nil {
				done := cut.cut(proxy, "promoted as (")
				defer wait(t, "the connection is cut", done)
			}
			w.settle(queue.SettleGroup{Entries: []queue.Settlement{settlementOf(head, queue.Complete, 0)}})
			if got := w.lease(lease)[0].Takers[0]; len(got) != 1 || got[0].OrderingKey != "k" {
				t.Errorf("leased %d, want the next of the key", len(got))
			}
			if !e.has(q) {
				t.Error("nobody was told")
			}
		})
	}
}

// keyRun knows which keys are leased, and what ended in which order.
type keyRun struct {
	mu      sync.Mutex
	running map[string]queue.ID
	ended   map[string][]int
	left    int
	waiting int
}

func (r *keyRun) begin(it queue.Item) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, found := r.running[it.OrderingKey]; found {
		return fmt.Errorf("%s: %v was leased beside %v", it.OrderingKey, it.ID, other)
	}
	r.running[it.OrderingKey] = it.ID
	return nil
}

func (r *keyRun) end(it queue.Item, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, it.OrderingKey)
	if gone {
		var n int
		_, _ = fmt.Sscan(string(it.Payload), &n)
		r.ended[it.OrderingKey] = append(r.ended[it.OrderingKey], n)
		r.left--
		r.waiting--
	}
}

// room waits until few items wait, so that keys become empty again and again.
func (r *keyRun) room(ctx context.Context, n, most int) {
	for ctx.Err() == nil {
		r.mu.Lock()
		if r.waiting < most {
			r.waiting += n
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		runtime.Gosched()
	}
}

func (r *keyRun) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left == 0
}

func TestINV12_TwoNodesKeepTheOrderOfKeys(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	keepTheOrderOfKeys(t, openWorld(t, Options{URL: url}), openWorld(t, Options{URL: url}))
}

func TestP09_NodesKeepTheOrderOfKeysThroughAPooler(t *testing.T) {
	t.Parallel()
	o := Options{URL: pgtest.Bouncer(t, pgtest.URL(t)) + withoutStatements, NoListen: true}
	keepTheOrderOfKeys(t, openWorld(t, o), openWorld(t, o))
}

// keepTheOrderOfKeys has two nodes, with several batches each on their way, produce,
// complete, bury and release items of a few keys of two queues.
func keepTheOrderOfKeys(t *testing.T, nodes ...*world) {
	t.Helper()
	queues := []queue.Number{queue.NewNumber(1, 1), queue.NewNumber(1, 2)}
	dead := queue.NewNumber(1, 3)
	const keys, each, producers, workers = 4, 100, 4, 6
	run := &keyRun{running: map[string]queue.ID{}, ended: map[string][]int{}, left: len(queues) * keys * each}
	name := func(q, k int) string { return fmt.Sprint("queue ", q, " key ", k) }
	work := func(ctx context.Context, w *world, n int) error {
		for turn := n; !run.over(); turn++ {
			calls := []queue.LeaseCall{call(queues[turn%2], taker(3)), call(queues[(turn+1)%2], taker(2))}
			answer, err := w.store.Lease(ctx, calls)
			if err != nil {
				return err
			}
			var groups []queue.SettleGroup
			var items []queue.Item
			var gone []bool
			for _, c := range answer.Calls {
				for i, it := range c.Takers[0] {
					if err := run.begin(it); err != nil {
						return err
					}
					outcome := queue.Complete
					switch (turn + i) % 5 {
					case 0:
						outcome = queue.Bury
					case 1:
						outcome = queue.Release
					}
					items, gone = append(items, it), append(gone, outcome != queue.Release)
					groups = append(groups, queue.SettleGroup{Entries: []queue.Settlement{settlementOf(it, outcome, dead)}})
				}
			}
			if turn%7 == 0 {
				w.store.keyed.mu.Lock()
				w.store.keyed.until = nil // as a node that knows nothing
				w.store.keyed.mu.Unlock()
			}
			slices.Reverse(groups) // locks are taken in an order of their own
			for i, it := range items {
				run.end(it, gone[i]) // the next may be leased before the answer is here
			}
			settled, err := w.store.Settle(ctx, groups)
			if err != nil {
				return err
			}
			for _, g := range settled.Groups {
				if g[0].Status != queue.Applied {
					return fmt.Errorf("got status %d, want applied", g[0].Status)
				}
			}
		}
		return nil
	}
	// The items of a key are produced by one producer, of many keys at once.
	produce := func(ctx context.Context, w *world, n int) error {
		for i := range each {
			var g queue.ProduceGroup
			for q := range queues {
				for k := range keys {
					if k%producers != n {
						continue
					}
					it := keyed(queues[q], name(q, k))
					it.Payload = fmt.Append(nil, i)
					g.Items = append(g.Items, it)
				}
			}
			if n%2 == 0 {
				slices.Reverse(g.Items)
			}
			run.room(ctx, len(g.Items), 6)
			if n == 0 && i%4 == 0 { // with more keys than it takes locks of
				for j := range keyLocks {
					g.Items = append(g.Items, keyed(queue.NewNumber(1, 4), fmt.Sprint("filler ", j)))
				}
			}
			if _, err := w.store.Produce(ctx, []queue.ProduceGroup{g}); err != nil {
				return err
			}
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	errs := make(chan error, producers+workers)
	together := func(n int, do func(context.Context, *world, int) error) {
		for i := range n {
			all.Go(func() {
				if err := do(ctx, nodes[i%2], i); err != nil {
					errs <- err
					cancel()
				}
			})
		}
	}
	together(producers, produce)
	together(workers, work)
	all.Wait()
	close(errs)
	for err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	for q := range queues {
		for k := range keys {
			if got := run.ended[name(q, k)]; !slices.IsSorted(got) || len(got) != each {
				t.Errorf("%s ended in the order %v", name(q, k), got)
			}
		}
	}
	nodes[0].wantHeads()
	nodes[0].wantCounted()
	if n := nodes[0].count(`select deadlocks from pg_stat_database where datname = current_database()`); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}
