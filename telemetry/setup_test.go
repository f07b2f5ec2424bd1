package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/seal"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/memory"
	"github.com/posthaste-io/posthaste/storage/storagetest"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/telemetry"
	"github.com/posthaste-io/posthaste/webhooks"
)

// patience is how long a condition may take to come true on a busy machine.
const patience = 30 * time.Second

// lines is what a logger writes to.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// all returns the lines with a message.
func (l *lines) all(t *testing.T, msg string) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []map[string]any
	for line := range bytes.Lines(l.buf.Bytes()) {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if m["msg"] == msg {
			found = append(found, m)
		}
	}
	return found
}

// server is a whole server in memory, measured, that answers over real HTTP.
type server struct {
	t      *testing.T
	api    *httptest.Server
	admin  *httptest.Server
	store  *storagetest.Faulty
	broker *queue.Broker
	log    lines
}

// setup starts a server. Spans, if not nil, gets its spans.
func setup(t *testing.T, spans sdktrace.SpanProcessor) *server {
	t.Helper()
	s := &server{t: t, store: storagetest.NewFaulty(memory.New(memory.Options{}))}
	log := slog.New(slog.NewJSONHandler(&s.log, nil))
	measured, err := telemetry.New(t.Context(), telemetry.Options{Version: "test", Instance: "one", Spans: spans, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	store := measured.Store(s.store)
	s.broker = queue.New(store, queue.Options{
		Queues:   storage.NewCollection[queue.Settings](store, "queue"),
		Counters: storage.NewCollection[queue.Counter](store, "counter"),
		Numbers:  storage.NewCollection[queue.NumberEntry](store, "number"),
		Logger:   log,
	})
	loopback, err := webhooks.ParseAllow("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	guard := webhooks.NewGuard(webhooks.GuardOptions{Allow: []webhooks.AllowRule{loopback}})
	subs := subscriptions.New(subscriptions.Options{
		Docs:     storage.NewCollection[subscriptions.Document](store, "subscription"),
		Claims:   storage.NewCollection[subscriptions.Claim](store, "claim"),
		Queues:   s.broker,
		CheckURL: guard.CheckURL, CheckHeaders: webhooks.CheckHeaders,
		CheckSecret: func(string) error { return nil }, NewSecret: webhooks.NewSecret, Logger: log,
		CheckAuth: func(subscriptions.Auth) error { return nil }, Sealer: seal.Random(),
	})
	sender := webhooks.NewSender(webhooks.SenderOptions{UserAgent: "test", Guard: guard})
	dispatch := dispatcher.New(dispatcher.Options{
		Broker: s.broker, Subscriptions: subs, Sender: sender, Logger: log,
		Observe: measured.Pushed, Tracer: measured.Tracer(), Grace: -1,
	})
	handler := api.New(api.Options{
		Broker: s.broker, Subscriptions: subs, Logger: log,
		Observer: measured.Requests(), Tracer: measured.Tracer(), Metrics: measured.Handler(),
	})
	measured.Watch(telemetry.Watched{Broker: s.broker, Lanes: dispatch, Schedules: overdue(1500 * time.Millisecond), Connections: func() int { return 7 }})

	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{s.broker.Run, dispatch.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	s.api, s.admin = httptest.NewServer(handler), httptest.NewServer(handler.Admin())
	t.Cleanup(func() {
		cancel()
		running.Wait()
		s.api.Close()
		s.admin.Close()
		sender.Close()
		if err := measured.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

type object = map[string]any

// call makes a call that has to succeed; header is a list of names and values.
func (s *server) call(method string, request object, reply any, header ...string) {
	s.t.Helper()
	status, body := s.try(method, request, header...)
	if status != http.StatusOK {
		s.t.Fatalf("%s: got %d: %s", method, status, body)
	}
	if reply != nil {
		if err := json.Unmarshal(body, reply); err != nil {
			s.t.Fatalf("%s: %v", method, err)
		}
	}
}

func (s *server) try(method string, request object, header ...string) (status int, answer []byte) {
	s.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.api.URL+"/v1/"+method, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// lease leases items and returns their receipts.
func (s *server) lease(queue string, n int, header ...string) []string {
	s.t.Helper()
	var reply struct{ Items []struct{ Receipt string } }
	s.call("queue.lease", object{"queue_name": queue, "batch_size": n, "lease_timeout": "1s", "request_timeout": "10ms"}, &reply, header...)
	receipts := make([]string, len(reply.Items))
	for i := range reply.Items {
		receipts[i] = reply.Items[i].Receipt
	}
	return receipts
}

// scrape is what a server shows, by the name of a series with its labels.
type scrape struct {
	t      *testing.T
	values map[string]float64
	// families are all metrics, with their types.
	families map[string]string
}

func (s *server) scrape() scrape {
	s.t.Helper()
	resp, err := http.Get(s.admin.URL + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("/metrics: got %d, %v: %s", resp.StatusCode, err, body)
	}
	return readScrape(s.t, string(body))
}

func readScrape(t *testing.T, body string) scrape {
	t.Helper()
	got := scrape{t: t, values: make(map[string]float64), families: make(map[string]string)}
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if typed, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(typed, " ")
			got.families[name] = kind
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		cut := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[cut+1:], 64)
		if err != nil {
			t.Fatalf("/metrics: %q: %v", line, err)
		}
		got.values[line[:cut]] = value
	}
	return got
}

// want compares values; a series that is not there is 0.
func (s scrape) want(values map[string]float64) {
	s.t.Helper()
	for series, want := range values {
		if got := s.values[series]; got != want {
			s.t.Errorf("%s: got %v, want %v", series, got, want)
		}
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(patience); !condition(); {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("after %s: not yet %s", patience, what)
		}
	}
}
