package schedules_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/schedules"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ns = queue.DefaultNamespace

// rig is a service in a bubble, over the real broker and a store that is the contract in
// its plainest form. A bubble's clock begins at [newYear].
type rig struct {
	*schedules.Service
	t      *testing.T
	ahead  time.Duration // of the store's clock before ours
	store  *storagetest.Faulty
	broker *queue.Broker
	orders queue.Settings
	log    bytes.Buffer

	mu    sync.Mutex
	fired []schedules.Fired
}

// newYear is a Saturday.
var newYear = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// inBubble runs f with a service and the queue "orders".
func inBubble(t *testing.T, f func(*testing.T, *rig)) {
	t.Helper()
	inBubbleAhead(t, 0, f)
}

// inBubbleAhead has a store whose clock is ahead of ours.
func inBubbleAhead(t *testing.T, ahead time.Duration, f func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, ahead: ahead}
		r.store = storagetest.NewFaulty(storagetest.NewModel(func() time.Time { return time.Now().Add(ahead) }))
		r.broker = newBroker(r.store)
		r.Service = r.otherNode()
		r.orders = r.createQueue("orders")
		f(t, r)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := r.broker.Run(ctx); err != nil { // runs dry
			t.Errorf("run broker: %v", err)
		}
	})
}

func newBroker(store storage.Backend) *queue.Broker {
	return queue.New(store, queue.Options{
		Queues:   storage.NewCollection[queue.Settings](store, "queue"),
		Counters: storage.NewCollection[queue.Counter](store, "counter"),
		Numbers:  storage.NewCollection[queue.NumberEntry](store, "queue-number"),
	})
}

// otherNode returns a service over the same store that knows nothing but what is stored.
func (r *rig) otherNode() *schedules.Service {
	return schedules.New(schedules.Options{
		Docs: storage.NewCollection[schedules.Document](r.store, "schedule"), Broker: r.broker,
		Observe: func(f schedules.Fired) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.fired = append(r.fired, f)
		},
		Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
	})
}

func (r *rig) createQueue(name string) queue.Settings {
	r.t.Helper()
	s, err := r.broker.CreateQueue(r.t.Context(), queue.Settings{Namespace: ns, Name: name})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// stamped is an item that tells for which time it was made.
var stamped = queue.ProduceItem{Content: queue.Content{Reference: "{{nominal_at}}"}}

// create makes the schedule "sched", on the queue "orders" and with an item that tells its
// time, unless the change says otherwise.
func (r *rig) create(expression string, c schedules.Change) schedules.Schedule {
	r.t.Helper()
	sched, err := r.Create(r.t.Context(), params(expression, c))
	if err != nil {
		r.t.Fatal(err)
	}
	return sched
}

func params(expression string, c schedules.Change) schedules.CreateParams {
	c.Cron = &expression
	if c.Queue == nil {
		c.Queue = new("orders")
	}
	if c.Item == nil {
		c.Item = &stamped
	}
	return schedules.CreateParams{Namespace: ns, Name: "sched", Change: c}
}

func (r *rig) update(c schedules.Change) schedules.Schedule {
	r.t.Helper()
	sched, err := r.Update(r.t.Context(), schedules.UpdateParams{Namespace: ns, Name: "sched", Change: c})
	if err != nil {
		r.t.Fatal(err)
	}
	return sched
}

func (r *rig) sched() schedules.Schedule {
	r.t.Helper()
	sched, err := r.Get(r.t.Context(), ns, "sched")
	if err != nil {
		r.t.Fatal(err)
	}
	return sched
}

// fire fires what is due now.
func (r *rig) fire() (next time.Time) {
	r.t.Helper()
	next, now, err := r.Fire(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	if want := time.Now().Add(r.ahead); !now.Equal(want) {
		r.t.Errorf("it is %v by the store, want %v", now, want)
	}
	return next
}

// missed changes all of it.
func missed(m schedules.Missed) schedules.MissedChange {
	c := schedules.MissedChange{Policy: &m.Policy, Grace: &m.Grace}
	if m.Max != 0 {
		c.Max = &m.Max
	}
	return c
}

// serve fires whatever is due, when it is, for so long.
func (r *rig) serve(d time.Duration) {
	r.t.Helper()
	end := time.Now().Add(d)
	for {
		next := r.fire()
		if next.IsZero() || next.After(end) {
			break
		}
		pass(time.Until(next))
	}
	pass(time.Until(end))
}

// items returns what lies in the queue "orders", in the order of arrival.
func (r *rig) items() []queue.Item {
	r.t.Helper()
	var items []queue.Item
	for req := (queue.ListRequest{Queue: r.orders.Number, Limit: 1000, Content: true}); ; {
		page, err := r.store.ListItems(r.t.Context(), req)
		if err != nil {
			r.t.Fatal(err)
		}
		items = append(items, page.Items...)
		if page.Next == "" {
			return items
		}
		req.Cursor = page.Next
	}
}

// times are those that the items in "orders" were made for, in their order.
func (r *rig) times() []time.Time {
	r.t.Helper()
	var times []time.Time
	for _, it := range r.items() {
		at, err := time.Parse(time.RFC3339, it.Reference)
		if err != nil {
			r.t.Fatal(err)
		}
		times = append(times, at)
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// wantTimes are offsets from newYear.
func (r *rig) wantTimes(offsets ...time.Duration) {
	r.t.Helper()
	got := r.times()
	if len(got) != len(offsets) {
		r.t.Fatalf("items for %v, want %v after %v", got, offsets, newYear)
	}
	for i, at := range got {
		if want := newYear.Add(offsets[i]); !at.Equal(want) {
			r.t.Errorf("item %d is for %v, want %v", i, at, want)
		}
	}
}

func (r *rig) wantCounts(missed, skipped int64) {
	r.t.Helper()
	sched := r.sched()
	if sched.MissedCount != missed || sched.SkippedCount != skipped {
		r.t.Errorf("missed %d and skipped %d, want %d and %d", sched.MissedCount, sched.SkippedCount, missed, skipped)
	}
	var observed schedules.Fired
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.fired {
		observed.Missed += f.Missed
		observed.Skipped += f.Skipped
	}
	if int64(observed.Missed) != missed || int64(observed.Skipped) != skipped {
		r.t.Errorf("observed %d missed and %d skipped, want %d and %d", observed.Missed, observed.Skipped, missed, skipped)
	}
}

// pass lets time pass; a bubble's clock jumps.
func pass(d time.Duration) { <-time.After(d) }

func (r *rig) wantError(err, want error) {
	r.t.Helper()
	if !errors.Is(err, want) {
		r.t.Errorf("got error %v, want %v", err, want)
	}
}
