package telemetry_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/memory"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/telemetry"
)

// overdue is for how long a schedule has been due.
type overdue time.Duration

func (o overdue) Overdue(context.Context) (time.Duration, error) { return time.Duration(o), nil }

// manyQueues is a broker that has so many of them, by their numbers from 1.
type manyQueues int

func (m manyQueues) Queues(_ context.Context, _ queue.Namespace, pivot string, limit int) ([]queue.Versioned[queue.Settings], error) {
	var page []queue.Versioned[queue.Settings]
	for i := 1; i <= int(m) && len(page) < limit; i++ {
		if name := nameOf(i); name >= pivot {
			s := queue.Settings{Namespace: queue.DefaultNamespace, Name: name, Number: queue.NewNumber(queue.DefaultNamespace, uint32(i))}
			page = append(page, queue.Versioned[queue.Settings]{Name: name, Value: s})
		}
	}
	return page, nil
}

func (m manyQueues) QueueName(_ context.Context, n queue.Number) (string, error) {
	return nameOf(int(n.Own())), nil
}

func (manyQueues) Load() queue.Load { return queue.Load{} }

func nameOf(i int) string { return fmt.Sprintf("name%05d", i) }

// manyLanes are as many lanes.
type manyLanes int

func (m manyLanes) Lanes() map[subscriptions.Key]dispatcher.LaneState {
	all := make(map[subscriptions.Key]dispatcher.LaneState)
	for i := range int(m) {
		all[subscriptions.Key{Namespace: queue.DefaultNamespace, Name: nameOf(i)}] = dispatcher.LaneState{Window: 1, Breaker: "open"}
	}
	return all
}

func (manyLanes) Running() (running int, stale int64) { return 0, 0 }

func TestA10_MetricsHaveABoundedNumberOfSeries(t *testing.T) {
	t.Parallel()
	const many, most = 3000, 1000
	measured := newTelemetry(t)
	store := measured.Store(memory.New(memory.Options{}))
	measured.Watch(telemetry.Watched{Broker: manyQueues(many), Lanes: manyLanes(many), Schedules: overdue(1500 * time.Millisecond)})
	for i := 1; i <= many; i++ {
		n := queue.NewNumber(queue.DefaultNamespace, uint32(i))
		produceLeaseSettle(t, store, n)
		measured.Requests().RequestBegan(nameOf(i))
		measured.Requests().RequestEnded(api.Request{Method: nameOf(i), Status: 200, CodeText: "ok", Shed: nameOf(i)})
		measured.Pushed(dispatcher.Attempt{
			Subscription: subscriptions.Key{Namespace: queue.DefaultNamespace, Name: nameOf(i)},
			Verdict:      []string{"delivered", "retryable", "gone"}[i%3], Delivery: 2, Duration: time.Second,
		})
	}
	w := httptest.NewRecorder()
	measured.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	got := readScrape(t, w.Body.String())

	series, total := make(map[string]int), make(map[string]float64)
	others := make(map[string]bool)
	for name, value := range got.values {
		family, _, _ := strings.Cut(name, "{")
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(family, suffix); ok && got.families[base] == "histogram" {
				family = base
			}
		}
		series[family]++
		if !strings.Contains(name, "_bucket{") {
			total[family] += value
		}
		others[family] = others[family] || strings.Contains(name, `="other"`)
	}
	for family, n := range series {
		if n > most {
			t.Errorf("%s has %d series, want %d at most", family, n, most)
		}
	}
	// What has no series of its own is not lost.
	for family, want := range map[string]float64{
		"posthaste_items_produced_total":          many,
		"posthaste_items_leased_total":            many,
		"posthaste_items_settled_total":           many,
		"posthaste_items_buried_total":            many / 2,
		"posthaste_queue_items":                   many / 2, // all in one dead-letter queue
		"posthaste_http_requests_total":           many,
		"posthaste_http_requests_shed_total":      many,
		"posthaste_push_attempts_total":           many,
		"posthaste_push_retries_total":            many,
		"posthaste_push_window":                   many,
		"posthaste_push_duration_seconds":         many + many, // the count, and a second each
		"posthaste_http_request_duration_seconds": many,
	} {
		if got := total[family]; got != want {
			t.Errorf("%s: adds up to %v, want %v", family, got, want)
		}
		if !others[family] && family != "posthaste_queue_items" {
			t.Errorf("%s has no series for the rest", family)
		}
	}
	if got.values[`posthaste_push_breaker{subscription="other"}`] != 2 {
		t.Error("the rest of the breakers does not show that one is open")
	}
}

// produceLeaseSettle makes one item, which is completed on even queues and buried on
// odd ones.
func produceLeaseSettle(t *testing.T, s queue.Store, n queue.Number) {
	t.Helper()
	_, err := s.Produce(t.Context(), []queue.ProduceGroup{{Items: []queue.NewItem{{ID: queue.NewID(), Queue: n}}}})
	if err != nil {
		t.Fatal(err)
	}
	leased, err := s.Lease(t.Context(), []queue.LeaseCall{{Queue: n, Takers: []queue.Taker{{Limit: 1, TTL: time.Minute}}}})
	if err != nil {
		t.Fatal(err)
	}
	it := leased.Calls[0].Takers[0][0]
	e := queue.Settlement{Key: it.Key, Token: it.Token, Outcome: queue.Complete}
	if n.Own()%2 == 1 {
		e.Outcome, e.DeadQueue, e.Reason = queue.Bury, queue.NewNumber(queue.DefaultNamespace, 1), "words of "+nameOf(int(n.Own()))
	}
	if e.DeadQueue == n {
		e.DeadQueue = queue.NewNumber(queue.DefaultNamespace, 2)
	}
	if _, err := s.Settle(t.Context(), []queue.SettleGroup{{Entries: []queue.Settlement{e}}}); err != nil {
		t.Fatal(err)
	}
}
