package schedules_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/schedules"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// topic makes a topic with subscriptions, and returns the numbers of their queues.
func (r *rig) topic(name string, subscriptions ...string) (queues []queue.Number) {
	r.t.Helper()
	if _, err := r.broker.CreateTopic(r.t.Context(), ns, name, ""); err != nil {
		r.t.Fatal(err)
	}
	for _, each := range subscriptions {
		queues = append(queues, r.subscribe(r.broker, name, each))
	}
	return queues
}

func (r *rig) subscribe(b *queue.Broker, topic, subscription string) queue.Number {
	r.t.Helper()
	s, err := b.Subscribe(r.t.Context(), ns, topic, subscription, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return s.Number
}

// wantCopies checks how many items a queue holds.
func (r *rig) wantCopies(n queue.Number, want int) {
	r.t.Helper()
	stats, err := r.store.Stats(r.t.Context(), []queue.Number{n})
	if err != nil {
		r.t.Fatal(err)
	}
	got := 0
	for i := range stats {
		got += stats[i].Total
	}
	if got != want {
		r.t.Errorf("queue %d holds %d items, want %d", n.Own(), got, want)
	}
}

func TestTopic_GetsEachFireInAllItsQueues(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		queues := r.topic("events", "a", "b")
		r.create("@hourly", schedules.Change{Queue: new("events")})
		r.serve(3 * time.Hour)
		for _, n := range queues {
			r.wantCopies(n, 3)
		}
		if sched := r.sched(); sched.LastError != "" || sched.MissedCount != 0 {
			t.Errorf("got %+v, want no misses", sched)
		}
		produced, err := r.Trigger(t.Context(), schedules.TriggerParams{Namespace: ns, Name: "sched"})
		if err != nil || produced.Copies == nil || *produced.Copies != 2 {
			t.Errorf("trigger: got %+v, %v, want an item with 2 copies", produced, err)
		}
	})
}

// Who subscribed before a fire gets it, also where the node that fires read the topic before.
func TestTopic_ChangesWhileItFires(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		a := r.topic("events", "a")[0]
		r.create("@hourly", schedules.Change{Queue: new("events")})
		pass(time.Hour)
		other := newBroker(r.store.Backend) // which is not held up
		calls := r.store.Calls(storagetest.PutDocument)
		open := r.store.Block(storagetest.PutDocument)
		fired := make(chan error, 1)
		go func() {
			_, _, err := r.Fire(t.Context())
			fired <- err
		}()
		if err := r.store.AwaitCalls(t.Context(), storagetest.PutDocument, calls+1); err != nil {
			t.Fatal(err)
		}
		b := r.subscribe(other, "events", "b")
		open()
		if err := <-fired; err != nil {
			t.Fatal(err)
		}
		r.wantCopies(a, 1)
		r.wantCopies(b, 1)
	})
}

// A catch-up is written in parts where its copies are more than a call may have.
func TestTopic_ACatchUpOfManyCopies(t *testing.T) {
	t.Parallel()
	const subscriptions, many = 500, 100 // 50,000 copies
	inBubble(t, func(t *testing.T, r *rig) {
		names := make([]string, subscriptions)
		for i := range names {
			names[i] = fmt.Sprint("s", i)
		}
		queues := r.topic("events", names...)
		r.create("* * * * *", schedules.Change{
			Queue: new("events"), Missed: missed(schedules.Missed{Policy: schedules.MissAll, Max: many, Grace: 24 * time.Hour}),
		})
		pass(many * time.Minute)
		for range many { // the rest stays due
			if next := r.fire(); next.After(time.Now()) {
				break
			}
		}
		for _, n := range []queue.Number{queues[0], queues[subscriptions-1]} {
			r.wantCopies(n, many)
		}
		r.wantCounts(0, 0)
	})
}

func TestTopic_OverlapAsksForAllCopies(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		queues := r.topic("events", "a", "b")
		r.create("@hourly", schedules.Change{Queue: new("events"), Overlap: new(schedules.OverlapSkip)})
		r.serve(time.Hour)
		complete := func(name string) {
			t.Helper()
			reply, err := r.broker.Lease(t.Context(), queue.LeaseParams{Namespace: ns, Queue: name, Limit: 1})
			if err != nil || len(reply.Items) != 1 {
				t.Fatalf("lease: got %v, %v", reply, err)
			}
			entry := queue.SettleEntry{Receipt: reply.Items[0].Receipt(), Outcome: queue.Complete}
			if _, err := r.broker.Settle(t.Context(), queue.SettleCall{Namespace: ns, Entries: []queue.SettleEntry{entry}}); err != nil {
				t.Fatal(err)
			}
		}
		complete("events~a")
		r.serve(time.Hour)
		r.wantCopies(queues[0], 0)
		complete("events~b")
		r.serve(time.Hour)
		r.wantCopies(queues[0], 1)
		r.wantCounts(0, 1)
	})
}

// A topic whose copies are too large misses the time, and the schedule says why.
func TestTopic_AFireThatIsTooLarge(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		names := make([]string, 600)
		for i := range names {
			names[i] = fmt.Sprint("s", i)
		}
		r.topic("events", names...)
		r.create("@hourly", schedules.Change{
			Queue: new("events"), Item: &queue.ProduceItem{Content: queue.Content{Headers: map[string]string{"X-Long": strings.Repeat("x", 15_000)}}},
		})
		r.serve(time.Hour)
		if sched := r.sched(); sched.MissedCount != 1 || !strings.Contains(sched.LastError, "copies") {
			t.Errorf("got %d missed, %q, want 1, for its copies", sched.MissedCount, sched.LastError)
		}
	})
}
