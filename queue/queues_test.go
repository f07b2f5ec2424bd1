package queue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func ptr[T any](v T) *T { return &v }

func TestQueues_CreateFillsInDefaults(t *testing.T) {
	t.Parallel()
	f := newFixture(queue.Options{})
	first := f.create(t, queue.Settings{Name: "orders", DeadLetter: true, Reference: "shop"})
	want := queue.Settings{
		Namespace: ns, Name: "orders", Number: queue.NewNumber(ns, 1), Reference: "shop",
		LeaseTTL: queue.DefaultLeaseTTL, MaxAttempts: queue.DefaultMaxAttempts, MaxRecoveries: queue.DefaultMaxRecoveries,
		Partitions: 1, CreatedAt: first.CreatedAt, UpdatedAt: first.CreatedAt,
	}
	if first != want || first.CreatedAt.IsZero() {
		t.Errorf("got %+v, want %+v", first, want)
	}
	stored, revision, err := f.Queue(t.Context(), ns, "orders")
	if err != nil || stored != want || revision == 0 {
		t.Errorf("stored: got %+v, %d, %v, want the same", stored, revision, err)
	}
	if second := f.create(t, queue.Settings{Name: "other"}); second.Number == first.Number {
		t.Error("two queues have the same number")
	}
}

func TestQueues_CreateRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(queue.Options{})
	f.create(t, queue.Settings{Name: "plain"})
	f.create(t, queue.Settings{Name: "dead"})
	f.create(t, queue.Settings{Name: "with-dead", DeadQueue: "dead"})
	for name, test := range map[string]struct {
		s     queue.Settings
		field string
	}{
		"no name":                   {queue.Settings{}, "queue_name"},
		"a long name":               {queue.Settings{Name: strings.Repeat("x", queue.MaxName+1)}, "queue_name"},
		"a name of the system":      {queue.Settings{Name: "a~dead"}, "queue_name"},
		"a lease beyond the expiry": {queue.Settings{Name: "a", LeaseTTL: 2 * time.Minute, ExpireTTL: time.Minute}, "lease_timeout"},
		"the default lease beyond":  {queue.Settings{Name: "a", ExpireTTL: time.Second}, "lease_timeout"},
		"a negative lease":          {queue.Settings{Name: "a", LeaseTTL: -1}, "lease_timeout"},
		"a negative expiry":         {queue.Settings{Name: "a", ExpireTTL: -1}, "expire_timeout"},
		"attempts":                  {queue.Settings{Name: "a", MaxAttempts: -2}, "max_attempts"},
		"recoveries":                {queue.Settings{Name: "a", MaxRecoveries: -1}, "max_recoveries"},
		"partitions":                {queue.Settings{Name: "a", Partitions: -1}, "requested_partitions"},
		"too many partitions":       {queue.Settings{Name: "a", Partitions: queue.MaxPartitions + 1}, "requested_partitions"},
		"a long reference":          {queue.Settings{Name: "a", Reference: strings.Repeat("x", queue.MaxQueueReference+1)}, "reference"},
		"itself as dead queue":      {queue.Settings{Name: "a", DeadQueue: "a"}, "dead_queue"},
		"a dead queue not there":    {queue.Settings{Name: "a", DeadQueue: "nowhere"}, "dead_queue"},
		"a dead queue with its own": {queue.Settings{Name: "a", DeadQueue: "with-dead"}, "dead_queue"},
		"a dead queue misspelt":     {queue.Settings{Name: "a", DeadQueue: "a b"}, "dead_queue"},
	} {
		test.s.Namespace = ns
		if _, err := f.CreateQueue(t.Context(), test.s); err == nil {
			t.Errorf("%s was taken", name)
		} else {
			wantInvalid(t, err, test.field)
		}
	}
	if _, err := f.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: "plain"}); !errors.Is(err, queue.ErrExists) {
		t.Errorf("a name that is taken: got %v, want ErrExists", err)
	}
	if _, err := f.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: "plain", DeadQueue: "plain-2"}); err == nil {
		t.Error("a name that is taken, with a dead queue, was taken")
	}
}

func TestQueues_NamedDeadLetterQueueBuriesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "graveyard"})
		f.create(t, queue.Settings{Name: "quick", DeadQueue: "graveyard", MaxAttempts: 1})
		f.produce(t, "quick", items(1)...)
		f.settle(t, entry(f.leaseOne(t, "quick"), queue.Retry))
		it := f.leaseOne(t, "graveyard")
		_, err := f.Settle(t.Context(), settleCall(entry(it, queue.Bury)))
		wantRefused(t, err, map[int]error{0: queue.ErrAlreadyDead})
		if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "graveyard", DeadQueue: ptr("orders")}); err == nil {
			t.Error("a dead-letter queue was given one of its own")
		}
		// Nobody names it any more, so it buries like any other.
		if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "quick", DeadQueue: ptr("")}); err != nil {
			t.Fatal(err)
		}
		f.settle(t, entry(it, queue.Bury))
		if got := f.total(t, "graveyard~dead"); got != 1 {
			t.Errorf("got %d items in graveyard~dead, want 1", got)
		}
		f.produce(t, "quick", items(1)...)
		f.settle(t, entry(f.leaseOne(t, "quick"), queue.Retry))
		if got := f.total(t, "quick~dead"); got != 1 {
			t.Errorf("got %d items in quick~dead, want 1", got)
		}
	})
}

// What is buried first is never parked.
func TestQueues_ParkAfterIsBelowMaxAttempts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		park, limit int32
		refused     bool
	}{
		"the default limit":          {park: queue.DefaultMaxAttempts, refused: true},
		"below the default limit":    {park: queue.DefaultMaxAttempts - 1},
		"its own limit":              {park: 5, limit: 5, refused: true},
		"over its own limit":         {park: 6, limit: 5, refused: true},
		"below its own limit":        {park: 4, limit: 5},
		"a limit of one, no parking": {limit: 1},
		"no limit":                   {park: 1000, limit: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(queue.Options{})
			_, err := f.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: "new", ParkAfter: test.park, MaxAttempts: test.limit})
			f.create(t, queue.Settings{Name: "there"})
			_, updateErr := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "there", MaxAttempts: &test.limit})
			if updateErr == nil {
				_, updateErr = f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "there", ParkAfter: &test.park})
			}
			for _, err := range []error{err, updateErr} {
				if test.refused {
					wantInvalid(t, err, "park_after")
				} else if err != nil {
					t.Error(err)
				}
			}
		})
	}
	f := newFixture(queue.Options{})
	f.create(t, queue.Settings{Name: "parks", ParkAfter: 5})
	_, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "parks", MaxAttempts: ptr(int32(5))})
	wantInvalid(t, err, "park_after")
}

// Nothing is buried there, so a limit would mean nothing.
func TestQueues_DeadLetterQueueTakesNoLimits(t *testing.T) {
	t.Parallel()
	f := newFixture(queue.Options{})
	f.create(t, queue.Settings{Name: "orders"})
	dead, err := f.EnsureQueue(t.Context(), ns, "orders~dead")
	if err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*queue.SettingsUpdate){
		"max_attempts":   func(u *queue.SettingsUpdate) { u.MaxAttempts = ptr(int32(5)) },
		"max_recoveries": func(u *queue.SettingsUpdate) { u.MaxRecoveries = ptr(int32(5)) },
	} {
		u := queue.SettingsUpdate{Namespace: ns, Name: "orders~dead"}
		change(&u)
		_, err := f.UpdateQueue(t.Context(), u)
		wantInvalid(t, err, field)
	}
	// What its info shows may be sent back.
	got, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{
		Namespace: ns, Name: "orders~dead", MaxAttempts: &dead.MaxAttempts, MaxRecoveries: &dead.MaxRecoveries, LeaseTTL: ptr(time.Hour),
	})
	if err != nil || got.LeaseTTL != time.Hour {
		t.Errorf("got %+v, %v, want its lease changed", got, err)
	}
}

func TestQueues_RefusedCreateLeavesTheDeadLetterQueueAsItWas(t *testing.T) {
	t.Parallel()
	f := newFixture(queue.Options{})
	f.create(t, queue.Settings{Name: "graveyard"})
	f.create(t, queue.Settings{Name: "orders"})
	_, err := f.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: "orders", DeadQueue: "graveyard"})
	if !errors.Is(err, queue.ErrExists) {
		t.Errorf("got %v, want ErrExists", err)
	}
	if f.settings(t, "graveyard").DeadLetter {
		t.Error("graveyard is a dead-letter queue, though nobody names it")
	}
}

func TestQueues_UpdateChangesWhatIsSetAndNothingElse(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		before := f.settings(t, "orders")
		<-time.After(time.Second)
		got, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{
			Namespace: ns, Name: "orders", ExpireTTL: ptr(time.Hour), LeaseTTL: ptr(time.Duration(0)), MaxAttempts: ptr(int32(0)),
		})
		want := before
		want.ExpireTTL, want.UpdatedAt = time.Hour, got.UpdatedAt
		if err != nil || got != want || !got.UpdatedAt.After(before.UpdatedAt) {
			t.Errorf("got %+v, %v, want %+v, updated later", got, err, want)
		}
		if stored := f.settings(t, "orders"); stored != got {
			t.Errorf("stored: got %+v, want %+v", stored, got)
		}
		_, err = f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", LeaseTTL: ptr(2 * time.Hour)})
		wantInvalid(t, err, "lease_timeout")
		if _, err = f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "nowhere"}); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("unknown queue: got %v, want ErrNotFound", err)
		}
	})
}

func TestQueues_UpdateAtARevision(t *testing.T) {
	t.Parallel()
	f := newFixture(queue.Options{})
	f.create(t, queue.Settings{Name: "orders"})
	_, revision, err := f.Queue(t.Context(), ns, "orders")
	if err != nil {
		t.Fatal(err)
	}
	update := queue.SettingsUpdate{Namespace: ns, Name: "orders", Revision: revision, Reference: ptr("a")}
	if _, err := f.UpdateQueue(t.Context(), update); err != nil {
		t.Fatal(err)
	}
	if _, err := f.UpdateQueue(t.Context(), update); !errors.Is(err, queue.ErrRevision) {
		t.Errorf("second time: got %v, want ErrRevision", err)
	}
}

func TestQueues_NewLimitsActOnItemsThatAreThere(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(1)...)
		f.settle(t, entry(f.leaseOne(t, "orders"), queue.Retry))
		if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", MaxAttempts: ptr(int32(1)), LeaseTTL: ptr(time.Second)}); err != nil {
			t.Fatal(err)
		}
		if got := f.lease(t, "orders", 1); len(got) != 0 {
			t.Errorf("got %d items, want none: its one attempt is used up", len(got))
		}
		f.produce(t, "orders", items(1)...)
		if it := f.leaseOne(t, "orders"); !it.AvailableAt.Equal(time.Now().Add(time.Second)) {
			t.Errorf("deadline: got %v, want a second from now", it.AvailableAt)
		}
	})
}

func TestQueues_SettingsAreReadAgainOnceTheyAreOld(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		other := newBroker(f.store, queue.Options{}) // Another node.
		if _, err := other.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", LeaseTTL: ptr(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		reads := f.store.Calls(storagetest.GetDocument)
		f.produce(t, "orders", items(3)...)
		f.leaseOne(t, "orders")
		if got := f.store.Calls(storagetest.GetDocument); got != reads {
			t.Errorf("hot verbs read %d documents, want none", got-reads)
		}
		<-time.After(queue.DefaultSettingsAge)
		if it := f.leaseOne(t, "orders"); !it.AvailableAt.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("deadline: got %v, want an hour from now", it.AvailableAt)
		}
		if err := other.DeleteQueue(t.Context(), ns, "orders", true); err != nil {
			t.Fatal(err)
		}
		<-time.After(queue.DefaultSettingsAge)
		if _, err := f.Lease(t.Context(), params(1)); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("queue that another node deleted: got %v, want ErrNotFound", err)
		}
	})
}

func TestQueues_ListFromAPivot(t *testing.T) {
	t.Parallel()
	f := newFixture(queue.Options{})
	for _, name := range []string{"d", "b", "a", "c"} {
		f.create(t, queue.Settings{Name: name})
	}
	for _, test := range []struct {
		pivot string
		limit int
		want  []string
	}{
		{"", 10, []string{"a", "b", "c", "d"}},
		{"", 2, []string{"a", "b"}},
		{"b", 2, []string{"b", "c"}},
		{"b", 1, []string{"b"}},
		{"bb", 10, []string{"c", "d"}},
		{"z", 10, nil},
	} {
		found, err := f.Queues(t.Context(), ns, test.pivot, test.limit)
		var names []string
		for _, s := range found {
			names = append(names, s.Name)
			if value, revision, err := f.Queue(t.Context(), ns, s.Name); err != nil || s.Value != value || s.Revision != revision {
				t.Errorf("from %q: got %+v, want %+v at revision %d, %v", test.pivot, s, value, revision, err)
			}
		}
		if err != nil || !slices.Equal(names, test.want) {
			t.Errorf("from %q, %d: got %v, %v, want %v", test.pivot, test.limit, names, err, test.want)
		}
	}
	_, err := f.Queues(t.Context(), ns, "", 0)
	wantInvalid(t, err, "limit")
}

func TestQueues_Ensure(t *testing.T) {
	t.Parallel()
	f := newFixture(queue.Options{})
	made, err := f.EnsureQueue(t.Context(), ns, "orders")
	if err != nil || made.LeaseTTL != queue.DefaultLeaseTTL {
		t.Fatalf("got %+v, %v, want a queue with defaults", made, err)
	}
	if again, err := f.EnsureQueue(t.Context(), ns, "orders"); err != nil || again != made {
		t.Errorf("second time: got %+v, %v, want the same", again, err)
	}
	dead, err := f.EnsureQueue(t.Context(), ns, "orders~dead")
	if err != nil || !dead.DeadLetter {
		t.Errorf("dead-letter queue: got %+v, %v, want it made", dead, err)
	}
	if _, err := f.EnsureQueue(t.Context(), ns, "nowhere~dead"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("dead-letter queue of none: got %v, want ErrNotFound", err)
	}
	_, err = f.EnsureQueue(t.Context(), ns, "a b")
	wantInvalid(t, err, "queue_name")
}

// staleDocs returns what it has read only once something else has happened.
type staleDocs struct {
	queue.QueueDocs
	meanwhile func()
}

func (d *staleDocs) Get(ctx context.Context, in queue.Namespace, name string) (queue.Settings, uint64, error) {
	s, revision, err := d.QueueDocs.Get(ctx, in, name)
	if f := d.meanwhile; f != nil {
		d.meanwhile = nil
		f()
	}
	return s, revision, err
}

func TestQueues_SettingsThatWereReadBeforeAChangeAreNotUsedAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := storagetest.NewModel(time.Now)
		docs := &staleDocs{QueueDocs: storage.NewCollection[queue.Settings](model, "queue")}
		b := queue.New(model, queue.Options{
			Queues:   docs,
			Counters: storage.NewCollection[queue.Counter](model, "counter"),
			Numbers:  storage.NewCollection[queue.NumberEntry](model, "number"),
		})
		if _, err := b.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: "orders"}); err != nil {
			t.Fatal(err)
		}
		<-time.After(queue.DefaultSettingsAge)
		docs.meanwhile = func() {
			if _, err := b.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", LeaseTTL: ptr(time.Hour)}); err != nil {
				t.Error(err)
			}
		}
		if _, err := b.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: items(1)}); err != nil {
			t.Fatal(err)
		}
		reply, err := b.Lease(t.Context(), params(1))
		if err != nil || len(reply.Items) != 1 || !reply.Items[0].AvailableAt.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("got %+v, %v, want an item with the lease that was set in between", reply.Items, err)
		}
	})
}

func TestQueues_NumberThatSomebodyElseTookIsNotUsed(t *testing.T) {
	t.Parallel()
	for _, lost := range []error{queue.ErrRevision, queue.ErrExists} {
		f := newFixture(queue.Options{})
		f.store.FailBefore(storagetest.PutDocument, 1, lost)
		f.create(t, queue.Settings{Name: "orders"})
	}
}

func TestQueues_ConcurrentCreatesTakeNumbersOfTheirOwn(t *testing.T) {
	t.Parallel()
	// Nodes that know nothing of each other but the store.
	f := newFixture(queue.Options{})
	const nodes = 8
	numbers := make(chan queue.Number, nodes) // One for each node.
	for i := range nodes {
		go func() {
			b := newBroker(f.store, queue.Options{})
			s, err := b.CreateQueue(context.Background(), queue.Settings{Namespace: ns, Name: string(rune('a' + i))})
			if err != nil {
				t.Error(err)
			}
			numbers <- s.Number
		}()
	}
	seen := map[queue.Number]bool{}
	for range nodes {
		n := <-numbers
		if seen[n] {
			t.Errorf("number %d was handed out twice", n)
		}
		seen[n] = true
	}
}
