package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
)

// verb is a writing call that can be done once.
type verb struct {
	name string
	// call returns an error if it was not done, or if the answer is not what the
	// database holds.
	call func(context.Context) error
}

// everyVerb prepares one call of every verb that writes.
func (w *world) everyVerb() []verb {
	w.Helper()
	held, ready, dead := queue.NewNumber(1, 1), queue.NewNumber(1, 2), queue.NewNumber(1, 3)
	target, fourth := queue.NewNumber(1, 4), queue.NewNumber(1, 5)
	leased := w.leased(held, 2)
	waits, moved, purged, made := fresh(ready, "", "waits"), fresh(dead, "", "moved"), fresh(dead, "", "purged"), fresh(fourth, "key", "made")
	w.produce(group(waits, moved, purged))
	old, err := w.store.Put(w.Context(), document("old", 0))
	if err != nil {
		w.Fatal(err)
	}
	name, err := w.store.Put(w.Context(), document("name", 0))
	if err != nil {
		w.Fatal(err)
	}
	record := func(verdict string) *queue.Record {
		return &queue.Record{Type: queue.AttemptRecord, Verdict: verdict, StartedAt: time.Unix(1, 0)}
	}
	key := func(it queue.NewItem) queue.Key { return queue.Key{ID: it.ID, Queue: it.Queue, Home: it.Queue} }
	return []verb{
		{"produce", func(ctx context.Context) error {
			answer, err := w.store.Produce(ctx, []queue.ProduceGroup{group(made)})
			if err != nil {
				return err
			}
			return want(answer.Groups[0].Items[0].ID, made.ID)
		}},
		{"lease", func(ctx context.Context) error {
			answer, err := w.store.Lease(ctx, []queue.LeaseCall{call(ready, taker(2))})
			if err != nil {
				return err
			}
			items := answer.Calls[0].Takers[0]
			if len(items) != 1 {
				return fmt.Errorf("%d items were leased, want 1", len(items))
			}
			return w.isHeld(ctx, items[0])
		}},
		{"settle", func(ctx context.Context) error {
			s := settlementOf(leased[0], queue.Complete, 0)
			s.Record, s.Produce = record("done"), []queue.NewItem{fresh(target, "", "told")}
			answer, err := w.store.Settle(ctx, []queue.SettleGroup{{Entries: []queue.Settlement{s}}})
			if err != nil {
				return err
			}
			return want(answer.Groups[0][0].Status, queue.Applied)
		}},
		{"extend", func(ctx context.Context) error {
			e := queue.Extension{Key: leased[1].Key, Token: leased[1].Token, TTL: time.Hour}
			e.Handover = &queue.Handover{Owner: "heir", Record: record("deferred")}
			answer, err := w.store.Extend(ctx, []queue.Extension{e})
			if err != nil {
				return err
			}
			it := leased[1]
			it.AvailableAt = answer.Entries[0].Deadline
			return errors.Join(want(answer.Entries[0].Status, queue.Applied), w.isHeld(ctx, it))
		}},
		{"move", func(ctx context.Context) error {
			statuses, err := w.store.Move(ctx, []queue.Move{{Key: key(moved), Target: target}})
			if err != nil {
				return err
			}
			return want(statuses[0], queue.Moved)
		}},
		{"purge", func(ctx context.Context) error {
			answer, err := w.store.Purge(ctx, queue.PurgeRequest{Keys: []queue.Key{key(purged)}, Limit: 2})
			if err != nil {
				return err
			}
			return want(answer, queue.PurgeAnswer{Purged: 1})
		}},
		{"put", func(ctx context.Context) error {
			_, err := w.store.Put(ctx, document("new", 0), fresh(fourth, "", "put"))
			return err
		}},
		{"delete", func(ctx context.Context) error {
			return w.store.Delete(ctx, document("old", 0).DocumentKey, old)
		}},
		{"change", func(ctx context.Context) error {
			change := func(doc storage.Document) queue.DocumentChange {
				return queue.DocumentChange{DocumentGuard: queue.DocumentGuard{
					Kind: doc.Kind, Namespace: doc.Namespace, Name: doc.Name, Revision: doc.Revision,
				}, Value: []byte("changed")}
			}
			revisions, err := w.store.Change(ctx, []queue.DocumentChange{
				change(document("made", 0)), change(document("name", name)),
			})
			if err != nil {
				return err
			}
			made, err := w.store.Get(ctx, document("made", 0).DocumentKey)
			changed, err2 := w.store.Get(ctx, document("name", 0).DocumentKey)
			return errors.Join(err, err2, want(revisions[0], made.Revision), want(revisions[1], changed.Revision))
		}},
	}
}

func want[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// isHeld compares a lease that was answered with the one in the database.
func (w *world) isHeld(ctx context.Context, it queue.Item) error {
	found, err := w.store.Find(ctx, []queue.ID{it.ID}, true)
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("%d copies live, want 1", len(found))
	}
	return errors.Join(want(found[0].Receipt(), it.Receipt()), want(found[0].AvailableAt, it.AvailableAt), want(found[0].Deliveries, 1))
}

// wantEveryVerbOnce compares the database with what everyVerb does.
func (w *world) wantEveryVerbOnce() {
	w.Helper()
	for what, test := range map[string]struct {
		text string
		want int
	}{
		"items":                        {`select count(*) from {s}.items`, 6},
		"held items":                   {`select count(*) from {s}.items where held`, 2},
		"deliveries":                   {`select sum(deliveries)::bigint from {s}.items`, 2},
		"items that were moved":        {`select sum(generation)::bigint from {s}.items`, 1},
		"leases that were handed over": {`select count(*) from {s}.items where owner = 'heir'`, 1},
		"records":                      {`select count(*) from {s}.attempts`, 3},
		"documents":                    {`select count(*) from {s}.documents where name = 'new'`, 1},
		"documents that were deleted":  {`select count(*) from {s}.documents where name = 'old'`, 0},
		"documents that were made":     {`select count(*) from {s}.documents where name = 'made'`, 1},
		"documents that were changed":  {`select count(*) from {s}.documents where name = 'name' and value = 'changed'`, 1},
		"idempotency keys":             {`select count(*) from {s}.dedupe`, 1},
	} {
		if got := w.count(test.text); got != test.want {
			w.Errorf("%s: got %d, want %d", what, got, test.want)
		}
	}
	w.wantCounted()
	w.wantNoneIdle()
}

// wantNoneIdle sees to it that no session of the store is left in a transaction. One
// whose call was given up is ended by the server, a moment later.
func (w *world) wantNoneIdle() {
	w.Helper()
	w.eventually("no session is idle in a transaction", func() bool {
		return w.count(`select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'`) == 0
	})
}

// eventually asks until the answer is yes.
func (w *world) eventually(what string, yes func() bool) {
	w.Helper()
	for end := time.Now().Add(20 * time.Second); !yes(); {
		if time.Now().After(end) {
			w.Fatalf("%s: it did not come to that", what)
		}
		select {
		case <-w.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestP01_EveryVerbIsDoneOnceWhereverTheConnectionIsCut(t *testing.T) {
	t.Parallel()
	const asking = "batches (id) values ($1) on conflict do nothing"
	for _, test := range []struct {
		name string
		// order has the connection cut in a batch with a text.
		order func(*pgtest.Proxy, string) (cuts []<-chan struct{})
	}{
		{"before the commit", func(p *pgtest.Proxy, batch string) []<-chan struct{} {
			return []<-chan struct{}{p.CutBefore(batch)}
		}},
		{"after the commit", func(p *pgtest.Proxy, batch string) []<-chan struct{} {
			return []<-chan struct{}{p.CutAfter(batch)}
		}},
		{"before the commit, and after it was asked what became of it", func(p *pgtest.Proxy, batch string) []<-chan struct{} {
			return []<-chan struct{}{p.CutBefore(batch), p.CutAfter(asking)}
		}},
		{"after the commit, and after it was asked what became of it", func(p *pgtest.Proxy, batch string) []<-chan struct{} {
			return []<-chan struct{}{p.CutAfter(batch), p.CutAfter(asking)}
		}},
		{"each time that it is tried again", func(p *pgtest.Proxy, batch string) []<-chan struct{} {
			return []<-chan struct{}{p.CutBefore(batch), p.CutBefore(batch + " (id, at, answer)"), p.CutAfter(batch + " (id, at, answer)")}
		}},
	} {
		for _, mode := range []string{"cache_statement", "exec"} {
			t.Run(test.name+", "+mode, func(t *testing.T) {
				t.Parallel()
				proxy := pgtest.NewProxy(t, pgtest.URL(t))
				w := setupWorldAt(t, proxy.URL()+"&default_query_exec_mode="+mode, true)
				for _, v := range w.everyVerb() {
					cuts := test.order(proxy, "insert into "+w.store.schema+".batches")
					if err := v.call(t.Context()); err != nil {
						t.Errorf("%s: %v", v.name, err)
					}
					for _, cut := range cuts {
						wait(t, v.name+": the connection is cut", cut)
					}
				}
				w.wantEveryVerbOnce()
			})
		}
	}
}

// wait fails the test if what it waits for does not come.
func wait(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: it did not come to that", what)
	}
}

func TestP01_ALeaseInTwoStepsIsDoneOnceWhereverTheConnectionIsCut(t *testing.T) {
	t.Parallel()
	const dealt, committed = "$12::integer[]) with ordinality", "commit\x00"
	for _, test := range []struct {
		name  string
		order func(*pgtest.Proxy) <-chan struct{}
	}{
		{"before the second step", func(p *pgtest.Proxy) <-chan struct{} { return p.CutBefore(dealt) }},
		{"after the second step", func(p *pgtest.Proxy) <-chan struct{} { return p.CutAfter(dealt) }},
		{"before the commit", func(p *pgtest.Proxy) <-chan struct{} { return p.CutBefore(committed) }},
		{"after the commit", func(p *pgtest.Proxy) <-chan struct{} { return p.CutAfter(committed) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			proxy := pgtest.NewProxy(t, pgtest.URL(t))
			w := setupWorldAt(t, proxy.URL(), true)
			q := queue.NewNumber(1, 1)
			for range 6 {
				w.produce(group(fresh(q, "", strings.Repeat("x", 100))))
			}
			bounded := taker(10)
			bounded.MaxBytes = 299
			cut := test.order(proxy)
			got := w.lease(call(q, bounded, taker(10)))[0]
			wait(t, "the connection is cut", cut)
			for i, n := range []int{2, 4} {
				if len(got.Takers[i]) != n {
					t.Errorf("taker %d: got %d items, want %d", i, len(got.Takers[i]), n)
				}
				for _, it := range got.Takers[i] {
					if err := w.isHeld(t.Context(), it); err != nil {
						t.Errorf("taker %d: %v", i, err)
					}
				}
			}
			w.wantCounted()
			w.wantNoneIdle()
		})
	}
}

// Whoever tries again would pass over the items that the lost transaction has locked.
func TestP01_ALeaseInTwoStepsOutlastsTheTransactionThatWasLost(t *testing.T) {
	t.Parallel()
	proxy := pgtest.NewProxy(t, pgtest.URL(t))
	w := setupWorldAt(t, proxy.URL(), true)
	q := queue.NewNumber(1, 1)
	for range 6 {
		w.produce(group(fresh(q, "", strings.Repeat("x", 100))))
	}
	bounded := taker(10)
	bounded.MaxBytes = 299
	lost, end := proxy.LoseBefore("$12::integer[]) with ordinality")
	defer end()
	leased := make(chan queue.LeaseAnswer, 1)
	go func() {
		answer, err := w.store.Lease(t.Context(), []queue.LeaseCall{call(q, bounded, taker(10))})
		if err != nil {
			t.Errorf("lease: %v", err)
		}
		leased <- answer
	}()
	wait(t, "the connection is lost", lost)
	w.eventually("the lease waits for the lost transaction, or is answered", func() bool {
		return len(leased) > 0 ||
			w.count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) > 0
	})
	end()
	answer := <-leased
	for i, n := range []int{2, 4} {
		if len(answer.Calls) != 1 || len(answer.Calls[0].Takers[i]) != n {
			t.Errorf("got %+v, want %d items for taker %d", answer, n, i)
		}
	}
	w.wantCounted()
	w.wantNoneIdle()
}

// callAll makes all calls at once, each bounded by a time if that is not zero.
func callAll(ctx context.Context, verbs []verb, bound time.Duration) (errs []error, took time.Duration) {
	began := time.Now()
	errs = make([]error, len(verbs))
	var wg sync.WaitGroup
	for i, v := range verbs {
		wg.Go(func() {
			ctx := ctx
			if bound > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, bound)
				defer cancel()
			}
			errs[i] = v.call(ctx)
		})
	}
	wg.Wait()
	return errs, time.Since(began)
}

func TestP01_TheOutcomeIsUnknownWhileTheDatabaseIsGone(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := server.URL(t)
	w := setupWorldAt(t, url, true)
	verbs := w.everyVerb()
	locker, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer locker.Close(context.WithoutCancel(t.Context()))
	if _, err := locker.Exec(t.Context(), w.store.text(`begin; lock table {s}.items, {s}.documents in access exclusive mode`)); err != nil {
		t.Fatal(err)
	}
	var errs []error
	var calls sync.WaitGroup
	calls.Go(func() { errs, _ = callAll(t.Context(), verbs, 0) })
	w.eventually("all calls wait", func() bool {
		return w.count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) == len(verbs)
	})
	server.Stop("immediate")
	gone := time.Now()
	calls.Wait()
	if took := time.Since(gone); took > resolveTime+5*time.Second {
		t.Errorf("the last call ended after %v", took)
	}
	for i, err := range errs {
		if !errors.Is(err, queue.ErrUnknownOutcome) {
			t.Errorf("%s: got %v, want that the outcome is unknown", verbs[i].name, err)
		}
	}
	// Now it is known that nothing is done.
	errs, took := callAll(t.Context(), verbs, 0)
	if took > resolveTime {
		t.Errorf("the last call was refused after %v", took)
	}
	for i, err := range errs {
		if !errors.Is(err, queue.ErrUnavailable) || errors.Is(err, queue.ErrUnknownOutcome) {
			t.Errorf("%s: got %v, want unavailable", verbs[i].name, err)
		}
	}
	if _, err := w.store.Find(t.Context(), []queue.ID{queue.NewID()}, true); !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("find: got %v, want unavailable", err)
	}
	w.eventually("the loss is told", func() bool { return w.store.Reachable() != nil })

	server.Restart()
	errs, _ = callAll(t.Context(), verbs, 0)
	for i, err := range errs {
		if err != nil {
			t.Errorf("%s, when the database is back: %v", verbs[i].name, err)
		}
	}
	w.eventually("the return is told", func() bool { return w.store.Reachable() == nil })
	w.wantEveryVerbOnce()
}

func TestP12_CallsEndInTimeWhereNothingAnswers(t *testing.T) {
	t.Parallel()
	proxy := pgtest.NewProxy(t, pgtest.URL(t))
	w := setupWorldAt(t, proxy.URL(), true)
	verbs := w.everyVerb()
	verbs = append(verbs, verb{"find", func(ctx context.Context) error {
		_, err := w.store.Find(ctx, []queue.ID{queue.NewID()}, true)
		return err
	}})
	proxy.Blackhole(true)
	const bound = 300 * time.Millisecond
	errs, took := callAll(t.Context(), verbs, bound)
	if took > bound+resolveTime+2*time.Second {
		t.Errorf("the last call ended after %v", took)
	}
	for i, err := range errs {
		if !errors.Is(err, queue.ErrUnavailable) && !errors.Is(err, queue.ErrUnknownOutcome) {
			t.Errorf("%s: got %v, want unavailable or unknown", verbs[i].name, err)
		}
	}
	w.eventually("the loss is told", func() bool { return w.store.Reachable() != nil })
	// What was held back arrives now, and may be done.
	proxy.Blackhole(false)
	w.eventually("the return is told", func() bool { return w.store.Reachable() == nil })
	w.wantCounted()
	w.wantNoneIdle()
}
