package dispatcher_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/seal"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		slog.Error("goroutines are left over", "error", err)
		code = 1
	}
	os.Exit(code)
}

const (
	ns       = queue.DefaultNamespace
	endpoint = "https://endpoint.example/hook"
)

// rig is a dispatcher in a bubble, with real subscriptions, a store that is the
// contract in its plainest form, and an endpoint that follows a script.
type rig struct {
	*dispatcher.Dispatcher
	t      *testing.T
	broker *broker
	subs   *subscriptions.Service
	// unread says that the dispatcher cannot read subscriptions.
	unread atomic.Bool
	sender *sender
	log    bytes.Buffer
	end    context.CancelFunc
	ended  chan struct{}
}

// inBubble runs f with a dispatcher that runs, and stops it afterwards.
func inBubble(t *testing.T, o dispatcher.Options, f func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, o)
		defer r.stop()
		f(t, r)
	})
}

func newRig(t *testing.T, o dispatcher.Options) *rig {
	t.Helper()
	store := storagetest.NewModel(time.Now)
	r := &rig{t: t, broker: newBroker(store), sender: &sender{}, ended: make(chan struct{})}
	r.subs = r.otherNode()
	r.broker.subs = r.subs
	o.Broker, o.Subscriptions, o.Sender = r.broker, unreadable{r.subs, r}, r.sender
	o.Logger = slog.New(slog.NewJSONHandler(&r.log, nil))
	o.Rand = func() float64 { return 0.5 }
	r.Dispatcher = dispatcher.New(o)
	ctx, cancel := context.WithCancel(t.Context())
	r.end = cancel
	go func() {
		defer close(r.ended)
		if err := r.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	synctest.Wait()
	return r
}

// otherNode returns a service over the same store, whose changes nobody is told of.
func (r *rig) otherNode() *subscriptions.Service {
	return subscriptions.New(subscriptions.Options{
		Docs:         storage.NewCollection[subscriptions.Document](r.broker.store, "subscription"),
		Claims:       storage.NewCollection[subscriptions.Claim](r.broker.store, "subscription-claim"),
		Queues:       r.broker,
		CheckURL:     func(string) error { return nil },
		CheckHeaders: webhooks.CheckHeaders,
		CheckAuth:    func(subscriptions.Auth) error { return nil },
		NewSecret:    webhooks.NewSecret,
		Sealer:       nodeKeys,
	})
}

// nodeKeys are those of all nodes, which read what the others wrote.
var nodeKeys = seal.Random()

func (r *rig) stop() {
	r.end()
	<-r.ended
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.broker.Run(ctx); err != nil { // runs dry
		r.t.Errorf("run broker: %v", err)
	}
}

// subscribe makes the subscription "sub" on the queue "orders".
func (r *rig) subscribe(change subscriptions.Change) subscriptions.Subscription {
	r.t.Helper()
	return r.subscribeTo("orders", "sub", change)
}

func (r *rig) subscribeTo(queueName, name string, change subscriptions.Change) subscriptions.Subscription {
	r.t.Helper()
	if change.URL == nil {
		change.URL = new(endpoint)
	}
	sub, err := r.subs.Create(r.t.Context(), subscriptions.CreateParams{
		Namespace: ns, Name: name, Queue: queueName, Change: change,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return sub
}

// produce puts n items on the queue "orders".
func (r *rig) produce(n int) []queue.ID {
	r.t.Helper()
	return r.produceTo("orders", make([]queue.ProduceItem, n)...)
}

func (r *rig) produceTo(queueName string, items ...queue.ProduceItem) []queue.ID {
	r.t.Helper()
	ids := r.broker.produce(r.t, queueName, items)
	synctest.Wait()
	return ids
}

// item returns an item, or nil if it has ended.
func (r *rig) item(id queue.ID) *queue.Item {
	r.t.Helper()
	items, err := r.broker.store.Find(r.t.Context(), []queue.ID{id}, true)
	if err != nil {
		r.t.Fatal(err)
	}
	if len(items) == 0 {
		return nil
	}
	return &items[0]
}

// widen has an endpoint do so well that its window grows to what it may be.
func (r *rig) widen(queueName string) {
	r.t.Helper()
	r.sender.script(slow(time.Millisecond, status(200)))
	r.produceTo(queueName, make([]queue.ProduceItem, 1000)...)
	pass(10 * time.Second)
	r.sender.forget()
}

func (r *rig) held() int {
	r.t.Helper()
	stats, err := r.broker.store.Stats(r.t.Context(), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	held := 0
	for _, s := range stats {
		held += s.Held
	}
	return held
}

func (r *rig) records(id queue.ID) []queue.Record {
	r.t.Helper()
	page, err := r.broker.store.Records(r.t.Context(), storage.RecordQuery{Namespace: ns, Item: id, Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	return page.Records
}

// pushed are the lines of the log about pushes.
func (r *rig) pushed(t *testing.T) (lines []map[string]any) {
	t.Helper()
	for line := range strings.Lines(r.log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		if fields["msg"] == "item pushed" {
			lines = append(lines, fields)
		}
	}
	return lines
}

// pass lets time pass, and everything that is due in it happen.
func pass(d time.Duration) {
	<-time.After(d) // a bubble's clock jumps
	synctest.Wait()
}

// sender is an endpoint that follows a script.
type sender struct {
	mu sync.Mutex
	// answer is asked for each request; nil delivers.
	answer   func(ctx context.Context, r webhooks.Request) webhooks.Result
	requests []request
	now, max int
}

type request struct {
	webhooks.Request
	at time.Time
}

func (s *sender) Send(ctx context.Context, r webhooks.Request) webhooks.Result {
	s.mu.Lock()
	s.requests = append(s.requests, request{r, time.Now()})
	s.now++
	s.max = max(s.max, s.now)
	answer := s.answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	started := time.Now()
	res := status(200)
	if answer != nil {
		res = answer(ctx, r)
	}
	res.StartedAt, res.Duration = started, time.Since(started)
	return res
}

func (s *sender) script(f func(ctx context.Context, r webhooks.Request) webhooks.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

func (s *sender) seen() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// forget counts anew.
func (s *sender) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.max = nil, s.now
}

func (s *sender) most() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.max
}

// status is the result of an answer with that status and no headers.
func status(code int) webhooks.Result {
	res := webhooks.Result{Status: code, Verdict: webhooks.Classify(code, nil, false, time.Now()).Verdict}
	if res.Verdict != webhooks.Delivered {
		res.Class, res.Error = webhooks.ClassStatus, "status: the endpoint said so"
	}
	return res
}

func always(res webhooks.Result) func(context.Context, webhooks.Request) webhooks.Result {
	return func(context.Context, webhooks.Request) webhooks.Result { return res }
}

// slow answers after d, or is aborted as the real sender is.
func slow(d time.Duration, res webhooks.Result) func(context.Context, webhooks.Request) webhooks.Result {
	return func(ctx context.Context, _ webhooks.Request) webhooks.Result {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return res
		case <-ctx.Done():
			return webhooks.Result{Verdict: webhooks.Aborted, Class: webhooks.ClassCanceled, Error: "canceled: by us"}
		}
	}
}
