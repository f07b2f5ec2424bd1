// Package schedules_test fires schedules into the real stores: by several nodes that are cut
// off and made anew, and very many at once.
package schedules_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/cron"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/schedules"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/postgres"
	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const ns = queue.DefaultNamespace

func newBroker(store storage.Backend) *queue.Broker {
	return queue.New(store, queue.Options{
		Queues:   storage.NewCollection[queue.Settings](store, "queue"),
		Counters: storage.NewCollection[queue.Counter](store, "counter"),
		Numbers:  storage.NewCollection[queue.NumberEntry](store, "queue-number"),
	})
}

func newService(store storage.Backend, broker *queue.Broker) *schedules.Service {
	return schedules.New(schedules.Options{
		Docs: storage.NewCollection[schedules.Document](store, "schedule"), Broker: broker,
	})
}

// node is what a process has of schedules.
type node struct {
	*schedules.Service
	store  *postgres.Store
	broker *queue.Broker
}

func openNode(t *testing.T, url string, clock *storagetest.Clock) *node {
	t.Helper()
	store, err := postgres.Open(t.Context(), postgres.Options{URL: url, Migrate: true, NoListen: true, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{store: store, broker: newBroker(store)}
	n.Service = newService(store, n.broker)
	return n
}

func (n *node) close(t *testing.T) {
	t.Helper()
	if err := n.store.Close(); err != nil {
		t.Error(err)
	}
}

// fleet are schedules of all sorts. None loses a time: what a step of the clock passes over
// is made up for.
var fleet = []struct{ cron, zone string }{
	{"* * * * *", "UTC"},
	{"*/7 * * * *", "Asia/Kathmandu"},
	{"@hourly", "Australia/Lord_Howe"},
	{"30 2 * * *", "America/New_York"}, // missing on the 9th of March
	{"0 */6 * * *", "America/New_York"},
	{"@every 11m", "UTC"},
	{"15 10 * * MON,WED", "Europe/Berlin"},
}

// Ten days in which two nodes fire at the same time, are cut off at any moment, and are
// made anew. Each time has exactly one item.
func TestC08_TenDaysOfTwoNodes(t *testing.T) {
	t.Parallel()
	const days, longest = 10, 40 * time.Minute
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	url, clock := pgtest.URL(t), storagetest.NewClock()
	// A store takes no time before the database's own, so this is years ahead of it.
	clock.Advance(time.Date(2036, 3, 3, 12, 0, 0, 0, time.UTC).Sub(clock.Now().Truncate(time.Second)))
	begin := clock.Now()
	nodes := []*node{openNode(t, url, clock), openNode(t, url, clock)}
	t.Cleanup(func() {
		for _, n := range nodes {
			n.close(t)
		}
	})
	settings, err := nodes[0].broker.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range fleet {
		_, err := nodes[0].Create(t.Context(), schedules.CreateParams{Namespace: ns, Name: string(rune('a' + i)), Change: schedules.Change{
			Cron: &f.cron, Zone: &f.zone, Queue: new("orders"),
			Item:   &queue.ProduceItem{Content: queue.Content{Reference: "{{schedule}} {{nominal_at}}"}},
			Missed: schedules.MissedChange{Policy: new(schedules.MissAll), Max: new(schedules.MaxMissed)},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}

	cut, renewed, served := 0, 0, begin
	for clock.Now().Before(begin.Add(days * 24 * time.Hour)) {
		clock.Advance(time.Minute + time.Duration(random.Int64N(int64(longest-time.Minute))))
		// More than a hundred times of the schedule of each minute are not made up for.
		needed := clock.Now().Sub(served) > schedules.MaxMissed*time.Minute-longest
		var wg sync.WaitGroup
		for i, n := range nodes {
			if random.IntN(50) == 0 {
				n.close(t)
				nodes[i] = openNode(t, url, clock)
				n = nodes[i]
				renewed++
			}
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			after := time.Duration(random.IntN(8000)) * time.Microsecond
			whole := needed || random.IntN(2) == 0
			if whole {
				served = clock.Now()
			} else {
				ctx, cancel = context.WithTimeout(ctx, after)
				cut++
			}
			wg.Go(func() {
				defer cancel()
				if _, _, err := n.Fire(ctx); err != nil && whole {
					t.Errorf("fire at %v: %v", clock.Now(), err)
				}
			})
		}
		wg.Wait()
	}
	if _, _, err := nodes[0].Fire(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d fires were cut off, %d nodes made anew", cut, renewed)
	judge(t, nodes[0], settings.Number, begin, clock.Now())
}

// judge holds the items that were made against the times of each schedule.
func judge(t *testing.T, n *node, q queue.Number, begin, end time.Time) {
	t.Helper()
	got := map[string]int{}
	for req := (queue.ListRequest{Queue: q, Limit: 1000, Content: true}); ; {
		page, err := n.store.ListItems(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range page.Items {
			got[it.Reference]++
		}
		if page.Next == "" {
			break
		}
		req.Cursor = page.Next
	}
	all, err := n.List(t.Context(), ns, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for i, sched := range all {
		spec, err := cron.Parse(fleet[i].cron)
		if err != nil {
			t.Fatal(err)
		}
		zone, err := time.LoadLocation(fleet[i].zone)
		if err != nil {
			t.Fatal(err)
		}
		times := 0
		for at := begin; ; times++ {
			fire, ok := spec.Next(at, cron.Clock{Zone: zone, Anchor: sched.CreatedAt})
			if !ok || fire.At.After(end) {
				break
			}
			at = fire.At
			reference := sched.Name + " " + at.UTC().Format(time.RFC3339)
			if n := got[reference]; n != 1 {
				t.Errorf("%d items for %s, want 1", n, reference)
			}
			delete(got, reference)
		}
		if times == 0 || sched.MissedCount != 0 || sched.SkippedCount != 0 {
			t.Errorf("%s: %d times, missed %d, skipped %d; want some, and none without an item", sched.Name, times, sched.MissedCount, sched.SkippedCount)
		}
		total += times
	}
	var odd []string
	for reference := range got {
		odd = append(odd, reference)
	}
	if len(odd) > 0 {
		t.Errorf("items for what is no time: %s", strings.Join(odd, ", "))
	}
	t.Logf("%d times", total)
}
