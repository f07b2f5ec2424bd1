package schedules_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/scheduler"
	"github.com/posthaste-io/posthaste/schedules"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/badger"
	"github.com/posthaste-io/posthaste/storage/postgres"
	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// many schedules are kept, and atOnce of them fire in the same second. With 100,000 kept it
// is as quick; it takes a minute or two to make them.
const many, atOnce = 10_000, 1_000

// latest is how late any of them may be.
const latest = slower * 2 * time.Second

var stores = []struct {
	name string
	open func(*testing.T) (storage.Backend, error)
}{
	{"badger", func(t *testing.T) (storage.Backend, error) { return badger.Open(badger.Options{Dir: t.TempDir()}) }},
	{"postgres", func(t *testing.T) (storage.Backend, error) {
		return postgres.Open(t.Context(), postgres.Options{URL: pgtest.URL(t), Migrate: true})
	}},
}

// Not in parallel: it measures.
func TestC07_ManySchedulesFireInTime(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			store, err := s.open(t)
			if err != nil {
				t.Fatal(err)
			}
			counted := storagetest.NewFaulty(store)
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
			w := newWorld(t, counted)
			w.create("far", 10, func(int) string { return "0 0 1 1 *" })
			w.wantIdle(counted)
			began := time.Now()
			w.create("more", many-atOnce, func(int) string { return "0 0 1 1 *" })
			t.Logf("made %d schedules in %v", many-atOnce, time.Since(began).Round(time.Millisecond))
			w.wantIdle(counted)
			w.fireAtOnce()
		})
	}
}

// world is one node that runs.
type world struct {
	*schedules.Service
	t *testing.T
	// fired is closed when all that fire at once have; waiting counts those that have not.
	fired   chan struct{}
	waiting atomic.Int64

	mu  sync.Mutex
	at  time.Time     // when they are to fire, and
	lag time.Duration // how much later the last one did
}

func newWorld(t *testing.T, store storage.Backend) *world {
	t.Helper()
	w := &world{t: t, fired: make(chan struct{})}
	broker := newBroker(store)
	s := scheduler.New(scheduler.Options{Broker: broker})
	w.Service = schedules.New(schedules.Options{
		Docs: storage.NewCollection[schedules.Document](store, "schedule"), Broker: broker,
		Changed: s.Changed, Observe: w.took,
	})
	s.Fires(w)
	if _, err := broker.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: "orders"}); err != nil {
		t.Fatal(err)
	}
	runScheduler(t, s)
	return w
}

func (w *world) took(f schedules.Fired) {
	w.mu.Lock()
	w.lag = max(w.lag, time.Since(w.at))
	w.mu.Unlock()
	if w.waiting.Add(-int64(f.Produced)) == 0 {
		close(w.fired)
	}
}

func (w *world) create(prefix string, n int, expression func(i int) string) {
	w.t.Helper()
	var wg sync.WaitGroup
	work := make(chan int)
	for range 32 {
		wg.Go(func() {
			for i := range work {
				_, err := w.Create(w.t.Context(), schedules.CreateParams{
					Namespace: ns, Name: fmt.Sprintf("%s-%06d", prefix, i),
					Change: schedules.Change{Cron: new(expression(i)), Queue: new("orders"), Item: &queue.ProduceItem{}},
				})
				if err != nil {
					w.t.Errorf("create: %v", err)
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
}

// wantIdle has nothing due for three of the periods in which the store is asked, and wants
// it to be asked once in each, and once more for the last change, however many schedules
// there are.
func (w *world) wantIdle(store *storagetest.Faulty) {
	w.t.Helper()
	const periods = 3
	due, read := store.Calls(storagetest.DueDocuments), store.Calls(storagetest.GetDocument)+store.Calls(storagetest.ListDocuments)
	<-time.After(periods * scheduler.DefaultPollEvery)
	if n := store.Calls(storagetest.DueDocuments) - due; n > periods+2 {
		w.t.Errorf("the store was asked %d times in %d periods what is due", n, periods)
	}
	if n := store.Calls(storagetest.GetDocument) + store.Calls(storagetest.ListDocuments) - read; n > 0 {
		w.t.Errorf("schedules were read %d times while none was due", n)
	}
}

// fireAtOnce has schedules fire in a second soon, and measures until the last has.
func (w *world) fireAtOnce() {
	w.t.Helper()
	at := time.Now().Add(7 * time.Second).Truncate(time.Second).UTC()
	w.mu.Lock()
	w.at = at
	w.mu.Unlock()
	w.waiting.Store(atOnce)
	w.create("due", atOnce, func(int) string {
		return fmt.Sprintf("%d %d %d %d %d *", at.Second(), at.Minute(), at.Hour(), at.Day(), at.Month())
	})
	if early := time.Until(at); early < 0 {
		w.t.Fatalf("the schedules were made %v too late to fire at %v", -early, at)
	}
	select {
	case <-w.fired:
	case <-time.After(time.Until(at) + 30*time.Second):
		w.t.Fatalf("%d of %d have not fired", w.waiting.Load(), atOnce)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t.Logf("%d of %d schedules fired within %v of their second", atOnce, many, w.lag.Round(time.Millisecond))
	if w.lag > latest {
		w.t.Errorf("the last of %d fired %v late, want %v at most", atOnce, w.lag, latest)
	}
}
