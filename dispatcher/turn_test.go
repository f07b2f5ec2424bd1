package dispatcher_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// A topic is made of a queue while it is pushed: what runs ends as ever and counts for what
// may run, and each item is pushed once.
func TestLane_GoesOnWhenATopicIsMadeOfItsQueue(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"here", "on another node"} {
		t.Run(strings.ReplaceAll(where, " ", "_"), func(t *testing.T) {
			t.Parallel()
			inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
				r.subscribe(subscriptions.Change{MaxInFlight: new(4), Rate: &subscriptions.Rate{}})
				r.widen("orders")
				r.sender.script(slow(500*time.Millisecond, status(200)))
				ids := r.produce(50)

				by := r.broker.Broker
				if where != "here" {
					other := &broker{subs: r.otherNode()}
					by = other.node(r.broker.store)
				}
				turned := make(chan error, 1)
				go func() {
					_, err := by.TurnIntoTopic(t.Context(), ns, "orders", "")
					turned <- err
				}()
				produce := func() {
					produced, err := r.broker.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: make([]queue.ProduceItem, 1)})
					if err != nil {
						t.Error(err)
						return
					}
					ids = append(ids, produced[0].ID)
				}
				for range 40 {
					produce()
					pass(250 * time.Millisecond)
				}
				if err := <-turned; err != nil {
					t.Fatal(err)
				}
				pass(30 * time.Second)
				produce()
				pass(time.Second)

				seen := map[string]int{}
				for _, req := range r.sender.seen() {
					seen[req.ID]++
				}
				for i, id := range ids {
					if n := seen[id.String()]; n != 1 {
						t.Errorf("item %d of %d was pushed %d times, want once", i, len(ids), n)
					}
				}
				if most := r.sender.most(); most > 4 {
					t.Errorf("%d requests ran at one time, want no more than 4", most)
				}
				if held := r.held(); held != 0 {
					t.Errorf("%d items are leased still", held)
				}
				if stats, err := r.broker.Stats(t.Context(), ns, "orders~sub"); err != nil || slices.ContainsFunc(stats.Stats, func(s queue.Stats) bool { return s.Total > 0 }) {
					t.Errorf("its queue: got %+v, %v, want it empty", stats, err)
				}
				if state, ok := r.LaneState(ns, "sub"); !ok {
					t.Errorf("lane: got %+v, want one", state)
				}
				r.log.Reset()
				r.produceOn(t, "orders")
				synctest.Wait()
				pass(time.Second)
				if log := r.log.String(); !strings.Contains(log, `"queue":"orders~sub"`) {
					t.Errorf("log: got %s, want the queue's name in it", log)
				}
			})
		})
	}
}

// The lane may hear of the new name before its lease under the old one is refused.
func TestLane_LeaseThatIsRefusedByTheOldNameIsNoTrouble(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		turned := make(chan error, 1)
		asked := 0
		r.broker.mu.Lock()
		r.broker.refuseLease = func() error {
			if asked++; asked > 1 {
				return nil
			}
			go func() {
				_, err := r.broker.TurnIntoTopic(t.Context(), ns, "orders", "")
				turned <- err
			}()
			<-time.After(time.Second) // the lane is told
			return &queue.TopicError{Topic: "orders", Was: "orders~sub"}
		}
		r.broker.mu.Unlock()
		r.subscribe(subscriptions.Change{})
		pass(time.Second)
		synctest.Wait()
		r.produceOn(t, "orders")
		synctest.Wait()
		if got := len(r.sender.seen()); got != 1 || asked < 2 {
			t.Errorf("%d items were pushed after %d leases, want one at once", got, asked)
		}
		if log := r.log.String(); strings.Contains(log, "lane cannot lease") {
			t.Errorf("log: %s", log)
		}
		if err := <-turned; err != nil {
			t.Error(err)
		}
	})
}

func (r *rig) produceOn(t *testing.T, name string) {
	t.Helper()
	if _, err := r.broker.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: name, Items: make([]queue.ProduceItem, 1)}); err != nil {
		t.Fatal(err)
	}
}
