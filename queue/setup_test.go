package queue_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

const ns = queue.DefaultNamespace

var (
	_ queue.QueueDocs   = (*storage.Collection[queue.Settings])(nil)
	_ queue.CounterDocs = (*storage.Collection[queue.Counter])(nil)
	_ queue.NumberDocs  = (*storage.Collection[queue.NumberEntry])(nil)
)

var errTest = errors.New("as ordered")

// fixture is a broker over a faulty store over the model, all in one bubble: time
// moves when everybody waits.
type fixture struct {
	*queue.Broker
	model *storagetest.Model
	store *storagetest.Faulty

	mu  sync.Mutex
	due map[queue.Number][]time.Time
}

// bubble runs a test against a running broker with the queue "orders".
func bubble(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	bubbleWith(t, queue.Options{}, test)
}

func bubbleWith(t *testing.T, o queue.Options, test func(t *testing.T, f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(o)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx) }()
		f.create(t, queue.Settings{Name: "orders"})
		test(t, f)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func newFixture(o queue.Options) *fixture {
	model := storagetest.NewModel(time.Now)
	f := &fixture{model: model, store: storagetest.NewFaulty(model), due: map[queue.Number][]time.Time{}}
	f.Broker = newBroker(f.store, o)
	f.OnDue(func(q queue.Number, at time.Time) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.due[q] = append(f.due[q], at)
	})
	return f
}

func newBroker(s storage.Backend, o queue.Options) *queue.Broker {
	o.Queues = storage.NewCollection[queue.Settings](s, "queue")
	o.Counters = storage.NewCollection[queue.Counter](s, "counter")
	o.Numbers = storage.NewCollection[queue.NumberEntry](s, "number")
	o.Change = s.Change
	o.Records = func(ctx context.Context, ns queue.Namespace, id queue.ID, limit int) ([]queue.Record, error) {
		page, err := s.Records(ctx, storage.RecordQuery{Namespace: ns, Item: id, Backward: true, Limit: limit})
		return page.Records, err
	}
	o.Journal = func(ctx context.Context, q queue.JournalQuery) (queue.JournalPage, error) {
		page, err := s.Records(ctx, storage.RecordQuery(q))
		return queue.JournalPage(page), err
	}
	return queue.New(s, o)
}

func (f *fixture) create(t *testing.T, s queue.Settings) queue.Settings {
	t.Helper()
	s.Namespace = ns
	s, err := f.CreateQueue(t.Context(), s)
	if err != nil {
		t.Fatalf("create %s: %v", s.Name, err)
	}
	return s
}

func (f *fixture) settings(t *testing.T, name string) queue.Settings {
	t.Helper()
	s, _, err := f.Queue(t.Context(), ns, name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// items makes n items with the payloads a, b, c and so on.
func items(n int) []queue.ProduceItem {
	made := make([]queue.ProduceItem, n)
	for i := range made {
		made[i].Payload = []byte{byte('a' + i%26)}
	}
	return made
}

func (f *fixture) produce(t *testing.T, name string, items ...queue.ProduceItem) []queue.Produced {
	t.Helper()
	produced, err := f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: name, Items: items})
	if err != nil {
		t.Fatalf("produce to %s: %v", name, err)
	}
	return produced
}

func params(limit int) queue.LeaseParams {
	return queue.LeaseParams{Namespace: ns, Queue: "orders", Limit: limit}
}

func (f *fixture) lease(t *testing.T, name string, limit int) []queue.Item {
	t.Helper()
	p := params(limit)
	p.Queue = name
	reply, err := f.Lease(t.Context(), p)
	if err != nil {
		t.Fatalf("lease from %s: %v", name, err)
	}
	return reply.Items
}

// leaseOne leases an item that must be there.
func (f *fixture) leaseOne(t *testing.T, name string) queue.Item {
	t.Helper()
	leased := f.lease(t, name, 1)
	if len(leased) != 1 {
		t.Fatalf("lease from %s: got %d items, want 1", name, len(leased))
	}
	return leased[0]
}

func entry(it queue.Item, outcome queue.Outcome) queue.SettleEntry {
	return queue.SettleEntry{Receipt: it.Receipt(), Outcome: outcome}
}

func settleCall(entries ...queue.SettleEntry) queue.SettleCall {
	return queue.SettleCall{Namespace: ns, Entries: entries}
}

func (f *fixture) settle(t *testing.T, entries ...queue.SettleEntry) []queue.Settled {
	t.Helper()
	settled, err := f.Settle(t.Context(), settleCall(entries...))
	if err != nil {
		t.Fatalf("settle: %v", err)
	}
	return settled
}

// total is how many items a queue holds.
func (f *fixture) total(t *testing.T, name string) int {
	t.Helper()
	stats, err := f.Stats(t.Context(), ns, name)
	if err != nil {
		t.Fatalf("stats of %s: %v", name, err)
	}
	total := 0
	for _, st := range stats.Stats {
		total += st.Total
	}
	return total
}

// find returns the only copy of an item, as the store has it.
// wantTotals checks how many items queues hold.
func (f *fixture) wantTotals(t *testing.T, want map[string]int) {
	t.Helper()
	for name, n := range want {
		if got := f.total(t, name); got != n {
			t.Errorf("%s holds %d items, want %d", name, got, n)
		}
	}
}

func (f *fixture) find(t *testing.T, id queue.ID) queue.Item {
	t.Helper()
	found, err := f.model.Find(t.Context(), []queue.ID{id}, true)
	if err != nil || len(found) != 1 {
		t.Fatalf("find: got %d copies, %v, want 1", len(found), err)
	}
	return found[0]
}

// tidyLater tidies up once nothing that began before can be on its way.
func (f *fixture) tidyLater(t *testing.T) {
	t.Helper()
	<-time.After(2 * time.Minute)
	if err := f.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// answer is what a call in another goroutine came back with.
type answer[T any] struct {
	value T
	err   error
}

// start runs a call in another goroutine and returns once everybody waits.
func start[T any](call func() (T, error)) <-chan answer[T] {
	answered := make(chan answer[T], 1) // So that the call ends, whoever listens.
	go func() {
		value, err := call()
		answered <- answer[T]{value, err}
	}()
	synctest.Wait()
	return answered
}

func (f *fixture) startLease(ctx context.Context, p queue.LeaseParams) <-chan answer[queue.LeaseReply] {
	return start(func() (queue.LeaseReply, error) { return f.Lease(ctx, p) })
}

func (f *fixture) startProduce(ctx context.Context, items ...queue.ProduceItem) <-chan answer[[]queue.Produced] {
	return start(func() ([]queue.Produced, error) {
		return f.Produce(ctx, queue.ProduceCall{Namespace: ns, Queue: "orders", Items: items})
	})
}

// isPending says that a call has no answer yet.
func isPending[T any](answered <-chan answer[T]) bool {
	synctest.Wait()
	select {
	case <-answered:
		return false
	default:
		return true
	}
}

func wantInvalid(t *testing.T, err error, field string) {
	t.Helper()
	if invalid, ok := errors.AsType[*queue.InvalidError](err); !ok || invalid.Field != field {
		t.Errorf("got %v, want an InvalidError for %s", err, field)
	}
}
