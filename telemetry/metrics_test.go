package telemetry_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func TestMetrics_TellOfItems(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.call("queues.create", object{"queue_name": "work", "max_attempts": 1}, nil)
	s.call("queue.produce", object{"queue_name": "work", "items": []object{
		{"utf8": "a", "idempotency_key": "k"}, {"utf8": "b"}, {"utf8": "c"}, {"utf8": "d"}, {"utf8": "e"}, {"utf8": "f"}, {"utf8": "late", "delay": "1h"},
	}}, nil)
	s.call("queue.produce", object{"queue_name": "work", "items": []object{{"utf8": "a", "idempotency_key": "k"}}}, nil)

	r := s.lease("work", 5)
	s.call("queue.extend", object{"receipts": r[:1], "lease_timeout": "1m"}, nil)
	s.call("queue.complete", object{"ids": r[:1]}, nil)
	if status, _ := s.try("queue.complete", object{"ids": r[:1]}); status != http.StatusConflict {
		t.Fatalf("a receipt that was settled: got %d, want 409", status)
	}
	s.call("queue.retry", object{"items": []object{{"id": r[1]}}}, nil) // at its limit
	s.call("queue.release", object{"receipts": r[2:3]}, nil)
	s.call("queue.bury", object{"receipts": r[3:4], "reason": "our own words"}, nil)
	s.call("queue.redrive", object{"queue_name": "work~dead", "filter": object{"reason": "max_attempts"}}, nil)
	s.call("items.cancel", object{"filter": object{"queue_name": "work", "state": "scheduled"}}, nil)

	got := s.scrape()
	got.want(map[string]float64{
		`posthaste_items_produced_total{queue="work"}`:                                            7,
		`posthaste_items_duplicate_total{queue="work"}`:                                           1,
		`posthaste_items_leased_total{queue="work"}`:                                              5,
		`posthaste_items_settled_total{outcome="complete",queue="work"}`:                          1,
		`posthaste_items_settled_total{outcome="release",queue="work"}`:                           1,
		`posthaste_items_settled_total{outcome="bury",queue="work"}`:                              2,
		`posthaste_items_settled_total{outcome="retry",queue="work"}`:                             0,
		`posthaste_items_buried_total{queue="work",reason="max_attempts"}`:                        1,
		`posthaste_items_buried_total{queue="work",reason="consumer"}`:                            1,
		`posthaste_items_redriven_total{queue="work~dead"}`:                                       1,
		`posthaste_items_cancelled_total{queue="work"}`:                                           1,
		`posthaste_leases_extended_total{queue="work"}`:                                           1,
		`posthaste_receipts_refused_total{queue="work",reason="gone"}`:                            1,
		`posthaste_queue_items{queue="work",state="ready"}`:                                       3,
		`posthaste_queue_items{queue="work",state="leased"}`:                                      1,
		`posthaste_queue_items{queue="work",state="scheduled"}`:                                   0,
		`posthaste_queue_items{queue="work~dead",state="dead"}`:                                   1,
		`posthaste_store_call_duration_seconds_count{result="ok",verb="produce"}`:                 2,
		`posthaste_store_batch_entries_sum{verb="produce"}`:                                       8,
		`posthaste_http_connections`:                                                              7,
		`posthaste_schedule_overdue_seconds`:                                                      1.5,
		`posthaste_http_requests_total{code_text="ok",method="queue.produce",status_class="2xx"}`: 2,
		`posthaste_http_request_duration_seconds_count{method="queue.produce"}`:                   2,
		`posthaste_http_requests_in_flight{method="queue.produce"}`:                               0,
	})
	if age := got.values[`posthaste_queue_oldest_ready_age_seconds{queue="work"}`]; age <= 0 || age > patience.Seconds() {
		t.Errorf("oldest ready item: got an age of %v s, want a little", age)
	}
	if refused := got.values[`posthaste_http_requests_total{code_text="stale_lease",method="queue.complete",status_class="4xx"}`]; refused != 1 {
		t.Errorf("got %v refused calls, want 1", refused)
	}
}

// What topics get counts in the queues of their subscriptions, whatever brings it.
func TestMetrics_CountCopies(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	for _, name := range []string{"events", "silent"} {
		s.call("topics.create", object{"topic": name}, nil)
	}
	for _, name := range []string{"a", "b"} {
		s.call("subscriptions.create", object{"name": name, "topic": "events"}, nil)
	}
	s.call("queues.create", object{"queue_name": "work"}, nil)
	s.call("queue.produce", object{"queue_name": "work", "items": []object{{"utf8": "a", "on_done": "events"}, {"utf8": "b", "on_done": "silent"}, {"utf8": "c"}}}, nil)
	r := s.lease("work", 3)
	s.call("queue.complete", object{"ids": r[:2]}, nil)
	s.call("queue.bury", object{"receipts": r[2:]}, nil)
	s.call("queue.redrive", object{"queue_name": "work~dead", "target": "events", "filter": object{"from": "work"}}, nil)
	s.scrape().want(map[string]float64{
		`posthaste_items_produced_total{queue="events~a"}`:  1,
		`posthaste_items_produced_total{queue="events~b"}`:  1,
		`posthaste_items_unmatched_total{queue="silent"}`:   1,
		`posthaste_items_redriven_total{queue="work~dead"}`: 1,
	})
}

func TestMetrics_TellOfLapses(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.call("queues.create", object{"queue_name": "work"}, nil)
	s.call("queue.produce", object{"queue_name": "work", "items": []object{{"utf8": "a"}}}, nil)
	stale := s.lease("work", 1)
	eventually(t, "lapsed", func() bool { return len(s.lease("work", 1)) == 1 })
	if status, _ := s.try("queue.complete", object{"ids": stale}); status != http.StatusConflict {
		t.Fatalf("a receipt of a lapsed lease: got %d, want 409", status)
	}
	s.scrape().want(map[string]float64{
		`posthaste_leases_lapsed_total{queue="work"}`:                   1,
		`posthaste_receipts_refused_total{queue="work",reason="stale"}`: 1,
	})
}

func TestMetrics_TellOfPushes(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	var requests atomic.Int64
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer endpoint.Close()
	s.subscribe("hooks", endpoint.URL)
	s.call("queue.produce", object{"queue_name": "hooks", "items": []object{{"utf8": "a"}}}, nil)
	eventually(t, "delivered", func() bool {
		return s.scrape().values[`posthaste_push_attempts_total{subscription="hooks",verdict="delivered"}`] == 1
	})
	s.scrape().want(map[string]float64{
		`posthaste_push_attempts_total{subscription="hooks",verdict="retryable"}`: 1,
		`posthaste_push_retries_total{subscription="hooks"}`:                      1,
		`posthaste_push_unsettled_total{subscription="hooks"}`:                    0,
		`posthaste_push_duration_seconds_count{subscription="hooks"}`:             2,
		`posthaste_push_window{subscription="hooks"}`:                             3,
		`posthaste_push_in_flight{subscription="hooks"}`:                          0,
		`posthaste_push_breaker{subscription="hooks"}`:                            0,
		`posthaste_items_settled_total{outcome="retry",queue="hooks"}`:            1,
		`posthaste_items_settled_total{outcome="complete",queue="hooks"}`:         1,
		`posthaste_items_leased_total{queue="hooks"}`:                             2,
	})

	s.call("subscriptions.delete", object{"name": "hooks"}, nil)
	eventually(t, "without the series of a subscription that is gone", func() bool {
		for series := range s.scrape().values {
			if strings.Contains(series, `posthaste_push_attempts_total{subscription="hooks"`) {
				return false
			}
		}
		return true
	})
}

// subscribe makes a queue whose items are pushed, and retried at once.
func (s *server) subscribe(name, url string) {
	s.t.Helper()
	s.call("queues.create", object{"queue_name": name}, nil)
	s.call("subscriptions.create", object{
		"name": name, "queue_name": name, "url": url, "max_in_flight": 3,
		"retry": object{"max_attempts": 5, "schedule": []string{"10ms"}},
	}, nil)
}

func TestMetrics_TellOfShedRequests(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.call("queues.create", object{"queue_name": "work"}, nil)
	// More than the broker lets wait on one queue.
	const most = queue.DefaultMaxLeasesWaiting
	answers := make(chan int, most)
	for range most {
		go func() {
			status, _ := s.try("queue.lease", object{"queue_name": "work", "request_timeout": "1m"})
			answers <- status
		}()
	}
	eventually(t, "all of them wait", func() bool { return s.broker.Load().Leases.Waiting == most })
	if status, body := s.try("queue.lease", object{"queue_name": "work"}); status != http.StatusTooManyRequests {
		t.Errorf("one too many: got %d: %s; want 429", status, body)
	}
	s.scrape().want(map[string]float64{
		`posthaste_http_requests_shed_total{reason="leases_waiting"}`:                                   1,
		`posthaste_http_requests_total{code_text="overloaded",method="queue.lease",status_class="4xx"}`: 1,
		`posthaste_calls_waiting{verb="lease"}`:                                                         most,
		`posthaste_http_requests_in_flight{method="queue.lease"}`:                                       most,
	})
	s.broker.Drain()
	for range most {
		if status := <-answers; status != http.StatusServiceUnavailable {
			t.Fatalf("a waiting lease: got %d, want 503", status)
		}
	}
}

func TestMetrics_ScrapesDoNotLoadTheStore(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	for range 20 {
		s.scrape()
	}
	// The time for which one reading is used may end once meanwhile.
	if n := s.store.Calls(storagetest.Stats); n < 1 || n > 2 {
		t.Errorf("20 scrapes read the queues %d times, want once", n)
	}
}

func TestMetrics_ShowNoDepthWithoutAStore(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.call("queues.create", object{"queue_name": "work"}, nil)
	s.call("queue.produce", object{"queue_name": "work", "items": []object{{"utf8": "a"}}}, nil)
	s.store.Down()
	got := s.scrape()
	s.store.Up()
	for series := range got.values {
		if strings.HasPrefix(series, "posthaste_queue_") {
			t.Errorf("shows %s, which it cannot know", series)
		}
	}
	if n := got.values[`posthaste_store_call_duration_seconds_count{result="error",verb="list_documents"}`]; n < 1 {
		t.Error("the store's refusal is not counted")
	}
}

func TestMetrics_ForgetQueuesThatAreGone(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.call("queues.create", object{"queue_name": "gone"}, nil)
	s.call("queue.produce", object{"queue_name": "gone", "items": []object{{"utf8": "a"}}}, nil)
	s.call("queues.delete", object{"queue_name": "gone", "force": true}, nil)
	for range 2 {
		for series := range s.scrape().values {
			if strings.Contains(series, `queue="gone"`) {
				t.Errorf("still shows %s", series)
			}
		}
	}
}

func TestMetrics_EachRequestThatBeganEnds(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	for _, path := range []string{"/nowhere", "/livez", "/readyz"} {
		resp, err := http.Get(s.api.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	got := s.scrape()
	got.want(map[string]float64{
		`posthaste_http_requests_total{code_text="ok",method="livez",status_class="2xx"}`:               1,
		`posthaste_http_requests_total{code_text="no_such_method",method="unknown",status_class="4xx"}`: 1,
	})
	for series, value := range got.values {
		if strings.HasPrefix(series, "posthaste_http_requests_in_flight") && value != 0 {
			t.Errorf("%s: got %v, want 0", series, value)
		}
	}
}

func TestA10_MetricsAreForTheAdminListenerAlone(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	resp, err := http.Get(s.api.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		CodeText string `json:"code_text"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.CodeText != "no_such_method" {
		t.Errorf("/metrics of the API: got %d %q, %v; want no_such_method", resp.StatusCode, answer.CodeText, err)
	}
	r, err := http.NewRequest(http.MethodGet, s.admin.URL+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "evil.example" // a name that was pointed to loopback
	resp, err = http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		t.Error("/metrics answers for a host that is not loopback")
	}
}

func TestMetrics_AClientThatLeavesIsNoFailure(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.call("queues.create", object{"queue_name": "work"}, nil)
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.api.URL+"/v1/queue.lease", strings.NewReader(`{"queue_name":"work"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	left := make(chan struct{})
	go func() {
		defer close(left)
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
			t.Errorf("a lease of nothing was answered with %d", resp.StatusCode)
		}
	}()
	eventually(t, "it waits", func() bool { return s.broker.Load().Leases.Waiting == 1 })
	leave()
	<-left
	const gone = `posthaste_http_requests_total{code_text="client_gone",method="queue.lease",status_class="4xx"}`
	eventually(t, "counted", func() bool { return s.scrape().values[gone] == 1 })
}
