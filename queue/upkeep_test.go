package queue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func TestStats_CountWhatIsThereAndWhatWaits(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		empty, err := f.Stats(t.Context(), ns, "orders")
		if err != nil || len(empty.Stats) != 1 || empty.Stats[0].Total != 0 {
			t.Fatalf("empty queue: got %+v, %v, want one partition with nothing", empty, err)
		}
		f.produce(t, "orders", items(2)...)
		it := f.leaseOne(t, "orders")
		f.create(t, queue.Settings{Name: "other"})
		p := waitFor(1, time.Minute)
		p.Queue = "other"
		f.startLease(t.Context(), p)
		open := f.store.Block(storagetest.Produce)
		openSettle := f.store.Block(storagetest.Settle)
		for range 3 {
			f.startProduce(t.Context(), items(1)...)
			start(func() ([]queue.Settled, error) { return f.Settle(t.Context(), settleCall(entry(it, queue.Complete))) })
		}
		st, err := f.Stats(t.Context(), ns, "orders")
		if err != nil || st.Stats[0].Total != 2 || st.Stats[0].Held != 1 {
			t.Errorf("got %+v, %v, want two items, one of them held", st.Stats, err)
		}
		if st.ProduceWaiting != 3 || st.LeaseWaiting != 0 || st.SettleWaiting != 2 || st.InFlight != 2 {
			t.Errorf("got %+v, want 3 produces, no leases, 2 settlements, 2 in flight", st)
		}
		if st, err := f.Stats(t.Context(), ns, "other"); err != nil || st.LeaseWaiting != 1 {
			t.Errorf("other: got %+v, %v, want one lease that waits", st, err)
		}
		open()
		openSettle()
		if _, err := f.Stats(t.Context(), ns, "nowhere"); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("unknown queue: got %v, want ErrNotFound", err)
		}
	})
}

func TestItems_ListsAQueue(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		produced := f.produce(t, "orders", items(3)...)
		f.produce(t, "orders", queue.ProduceItem{Delay: time.Hour})
		query := queue.ItemsQuery{Namespace: ns, Queue: "orders", States: []queue.State{queue.Ready}, From: produced[1].ID, Limit: 1}
		page, err := f.Items(t.Context(), query)
		if err != nil || len(page.Items) != 1 || page.Items[0].ID != produced[1].ID || string(page.Items[0].Payload) != "b" || page.Next == "" {
			t.Fatalf("got %+v, %v, want the second item and a cursor", page, err)
		}
		query.Cursor, query.Limit = page.Next, 10
		if page, err = f.Items(t.Context(), query); err != nil || len(page.Items) != 1 || page.Items[0].ID != produced[2].ID {
			t.Errorf("second page: got %+v, %v, want the third item", page, err)
		}
		query.Limit = 0
		_, err = f.Items(t.Context(), query)
		wantInvalid(t, err, "limit")
		query.Queue, query.Limit = "nowhere", 1
		if _, err = f.Items(t.Context(), query); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("unknown queue: got %v, want ErrNotFound", err)
		}
	})
}

func TestUpkeep_PassesOnWhatTheStoreAnswers(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", queue.ProduceItem{Delay: time.Hour})
		due, err := f.NextDue(t.Context())
		if err != nil || len(due.Queues) != 1 || !due.Queues[0].At.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("NextDue: got %+v, %v, want the item in an hour", due, err)
		}
		f.store.Down()
		_, dueErr := f.NextDue(t.Context())
		_, sweepErr := f.Sweep(t.Context())
		_, itemsErr := f.Items(t.Context(), queue.ItemsQuery{Namespace: ns, Queue: "orders", Limit: 1})
		_, statsErr := f.Stats(t.Context(), ns, "orders")
		for verb, err := range map[string]error{
			"NextDue": dueErr, "Sweep": sweepErr, "Tidy": f.Tidy(t.Context()), "Items": itemsErr, "Stats": statsErr,
		} {
			if !errors.Is(err, queue.ErrUnavailable) {
				t.Errorf("%s: got %v, want ErrUnavailable", verb, err)
			}
		}
		f.store.Up()
	})
}

func TestTidy_KeepsRecordsForAsLongAsItIsTold(t *testing.T) {
	t.Parallel()
	bubbleWith(t, queue.Options{KeepRecords: time.Hour}, func(t *testing.T, f *fixture) {
		id := f.produce(t, "orders", queue.ProduceItem{ExpireTTL: time.Second})[0].ID
		<-time.After(time.Second)
		if _, err := f.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, wait := range []time.Duration{time.Hour, time.Microsecond} {
			<-time.After(wait)
			if err := f.Tidy(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got, want := ending(t, f, id) != "", wait == time.Hour; got != want {
				t.Errorf("record is there: got %v, want %v", got, want)
			}
		}
	})
}
