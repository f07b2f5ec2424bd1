package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// broker is scripted: a verb that a test does not set finds no queue.
type broker struct {
	produce     func(queue.ProduceCall) ([]queue.Produced, error)
	lease       func(context.Context, queue.LeaseParams) (queue.LeaseReply, error)
	settle      func(queue.SettleCall) ([]queue.Settled, error)
	extend      func(ns queue.Namespace, name string, entries []queue.ExtendEntry) ([]queue.Extended, error)
	stats       func(name string) (queue.QueueStats, error)
	createQueue func(queue.Settings) (queue.Settings, error)
	updateQueue func(queue.SettingsUpdate) (queue.Settings, error)
	queue       func(name string) (queue.Settings, uint64, error)
	queues      func(pivot string, limit int) ([]queue.Versioned[queue.Settings], error)
	deleteQueue func(name string, force bool) error
	draining    func(queues []queue.Settings) map[queue.Number][]queue.Stats
	items       func(queue.ItemsQuery) (queue.ListPage, error)
	pause       func(name string, what queue.Paused) error
	resume      func(name string, what queue.Paused) error
	reload      func(name string) error
	keys        func(queue.KeysQuery) (queue.KeysPage, error)
	unblock     func(queue.UnblockCall) error
	clear       func(queue.ClearCall) (queue.Cancelled, error)
	cancel      func(queue.CancelCall) (queue.Cancelled, error)
	imports     func(queue.ImportCall) ([]queue.Item, error)
	redrive     func(queue.RedriveCall) (queue.Redriven, error)
	look        func(id queue.ID, name string) ([]queue.ItemState, error)
	await       func(ctx context.Context, id queue.ID, name string, wait time.Duration) ([]queue.ItemState, error)
	attempts    func(queue.AttemptsQuery) (queue.AttemptsPage, error)
	queueName   func(queue.Number) (string, error)
	drain       func()
}

func (b *broker) Draining(_ context.Context, queues []queue.Settings) (map[queue.Number][]queue.Stats, error) {
	if b.draining == nil {
		return nil, nil
	}
	return b.draining(queues), nil
}

func (b *broker) Produce(_ context.Context, call queue.ProduceCall) ([]queue.Produced, error) {
	if b.produce == nil {
		return nil, queue.ErrNotFound
	}
	return b.produce(call)
}

func (b *broker) Lease(ctx context.Context, p queue.LeaseParams) (queue.LeaseReply, error) {
	if b.lease == nil {
		return queue.LeaseReply{}, queue.ErrNotFound
	}
	return b.lease(ctx, p)
}

func (b *broker) Settle(_ context.Context, call queue.SettleCall) ([]queue.Settled, error) {
	if b.settle == nil {
		return nil, queue.ErrNotFound
	}
	return b.settle(call)
}

func (b *broker) Extend(_ context.Context, ns queue.Namespace, name string, entries []queue.ExtendEntry) ([]queue.Extended, error) {
	if b.extend == nil {
		return nil, queue.ErrNotFound
	}
	return b.extend(ns, name, entries)
}

func (b *broker) Stats(_ context.Context, _ queue.Namespace, name string) (queue.QueueStats, error) {
	if b.stats == nil {
		return queue.QueueStats{}, queue.ErrNotFound
	}
	return b.stats(name)
}

func (b *broker) CreateQueue(_ context.Context, s queue.Settings) (queue.Settings, error) {
	if b.createQueue == nil {
		return s, queue.ErrNotFound
	}
	return b.createQueue(s)
}

func (b *broker) UpdateQueue(_ context.Context, u queue.SettingsUpdate) (queue.Settings, error) {
	if b.updateQueue == nil {
		return queue.Settings{}, queue.ErrNotFound
	}
	return b.updateQueue(u)
}

func (b *broker) Queue(_ context.Context, _ queue.Namespace, name string) (queue.Settings, uint64, error) {
	if b.queue == nil {
		return queue.Settings{}, 0, queue.ErrNotFound
	}
	return b.queue(name)
}

func (b *broker) Queues(_ context.Context, _ queue.Namespace, pivot string, limit int) ([]queue.Versioned[queue.Settings], error) {
	if b.queues == nil {
		return nil, nil
	}
	return b.queues(pivot, limit)
}

func (b *broker) DeleteQueue(_ context.Context, _ queue.Namespace, name string, force bool) error {
	if b.deleteQueue == nil {
		return queue.ErrNotFound
	}
	return b.deleteQueue(name, force)
}

func (b *broker) QueueName(_ context.Context, n queue.Number) (string, error) {
	if b.queueName != nil {
		return b.queueName(n)
	}
	if n != queue.NewNumber(queue.DefaultNamespace, 7) {
		return "", queue.ErrNotFound
	}
	return "seven", nil
}

func (b *broker) Items(_ context.Context, q queue.ItemsQuery) (queue.ListPage, error) {
	if b.items == nil {
		return queue.ListPage{}, queue.ErrNotFound
	}
	return b.items(q)
}

func (b *broker) Drain() {
	if b.drain != nil {
		b.drain()
	}
}

// logBuffer collects lines of the log, from any goroutine.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// env is a server over scripted parts.
type env struct {
	*testing.T
	broker *broker
	subs   *subs
	scheds *scheds
	log    *logBuffer
	server *api.Server
}

func setup(t *testing.T, change ...func(*api.Options)) *env {
	t.Helper()
	e := &env{T: t, broker: new(broker), subs: newSubs(), scheds: newScheds(), log: new(logBuffer)}
	o := api.Options{
		Broker: e.broker, Subscriptions: e.subs, Schedules: e.scheds,
		Logger: slog.New(slog.NewJSONHandler(e.log, nil)),
	}
	for _, f := range change {
		f(&o)
	}
	e.server = api.New(o)
	return e
}

// answer is what came back.
type answer struct {
	*testing.T
	status int
	header http.Header
	raw    string
	body   map[string]any
}

func (e *env) do(r *http.Request) answer {
	e.Helper()
	rec := httptest.NewRecorder()
	e.server.ServeHTTP(rec, r)
	a := answer{T: e.T, status: rec.Code, header: rec.Header(), raw: strings.TrimSuffix(rec.Body.String(), "\n")}
	if err := json.Unmarshal([]byte(a.raw), &a.body); err != nil {
		e.Fatalf("%s %s: answer is no JSON object: %v: %q", r.Method, r.URL, err, a.raw)
	}
	return a
}

// call sends a message to a method.
func (e *env) call(method, body string) answer {
	e.Helper()
	return e.do(request("/v1/"+method, strings.NewReader(body)))
}

func request(path string, body io.Reader, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, body)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// want checks status and code_text.
func (a answer) want(status int, word string) answer {
	a.Helper()
	if a.status != status || a.body["code_text"] != word || a.body["code"] != float64(status) {
		a.Errorf("got %d %s, want %d %s", a.status, a.raw, status, word)
	}
	return a
}

// invalid checks that a field was refused.
func (a answer) invalid(field, reason string) {
	a.Helper()
	a.want(http.StatusBadRequest, "invalid")
	details, _ := a.body["details"].(map[string]any)
	got, _ := details["reason"].(string)
	if details["field"] != field || !strings.Contains(got, reason) {
		a.Errorf("got %s, want field %q: …%s…", a.raw, field, reason)
	}
}

// get walks into the answer: items, 0, receipt.
func (a answer) get(path ...any) any {
	a.Helper()
	var v any = a.body
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			l, _ := v.([]any)
			if step >= len(l) {
				a.Fatalf("no %v in %s", path, a.raw)
			}
			v = l[step]
		}
	}
	return v
}

func (a answer) is(want any, path ...any) {
	a.Helper()
	if got := a.get(path...); got != want {
		a.Errorf("%v: got %v, want %v in %s", path, got, want, a.raw)
	}
}

// equals checks the whole of a success, whatever the order of its fields.
func (a answer) equals(want string) {
	a.Helper()
	var body map[string]any
	if err := json.Unmarshal([]byte(want), &body); err != nil {
		a.Fatalf("want no JSON object: %v: %s", err, want)
	}
	if a.status != http.StatusOK || !reflect.DeepEqual(a.body, body) {
		a.Errorf("got  %d %s\nwant 200 %s", a.status, a.raw, want)
	}
}

// subs keeps subscriptions in a map and remembers what it was asked.
type subs struct {
	kept    map[string]subscriptions.Subscription
	created subscriptions.CreateParams
	updated subscriptions.UpdateParams
	rotated subscriptions.RotateParams
	err     error
}

func newSubs() *subs { return &subs{kept: make(map[string]subscriptions.Subscription)} }

func (s *subs) Create(_ context.Context, p subscriptions.CreateParams) (subscriptions.Subscription, error) {
	s.created = p
	secret := p.Secret
	if secret == "" {
		secret = "whsec_made"
	}
	sub := subscriptions.Subscription{
		Namespace: p.Namespace, Name: p.Name, Queue: p.Queue, Retry: subscriptions.DefaultPolicy(),
		Secrets: []subscriptions.SigningSecret{{Secret: secret}}, Revision: 1,
	}
	if p.URL != nil {
		sub.URL = *p.URL
	}
	s.kept[p.Name] = sub
	return sub, s.err
}

func (s *subs) Get(_ context.Context, _ queue.Namespace, name string) (subscriptions.Subscription, error) {
	sub, ok := s.kept[name]
	if !ok {
		return sub, queue.ErrNotFound
	}
	return sub, s.err
}

func (s *subs) ByQueue(_ context.Context, _ queue.Namespace, name string) (subscriptions.Subscription, error) {
	for _, sub := range s.kept {
		if sub.Queue == name {
			return sub, s.err
		}
	}
	return subscriptions.Subscription{}, queue.ErrNotFound
}

func (s *subs) List(_ context.Context, _ queue.Namespace, after string, limit int) ([]subscriptions.Subscription, error) {
	var found []subscriptions.Subscription
	for _, name := range []string{"a", "b", "c"} {
		if sub, ok := s.kept[name]; ok && name > after && len(found) < limit {
			found = append(found, sub)
		}
	}
	return found, s.err
}

func (s *subs) Update(ctx context.Context, p subscriptions.UpdateParams) (subscriptions.Subscription, error) {
	s.updated = p
	return s.Get(ctx, p.Namespace, p.Name)
}

func (s *subs) Delete(_ context.Context, _ queue.Namespace, name string) error {
	delete(s.kept, name)
	return s.err
}

func (s *subs) change(name string, f func(*subscriptions.Subscription)) (subscriptions.Subscription, error) {
	sub, ok := s.kept[name]
	if !ok {
		return sub, queue.ErrNotFound
	}
	f(&sub)
	s.kept[name] = sub
	return sub, nil
}

func (s *subs) Pause(_ context.Context, _ queue.Namespace, name string) (subscriptions.Subscription, error) {
	return s.change(name, func(sub *subscriptions.Subscription) { sub.Paused = true })
}

func (s *subs) Resume(_ context.Context, _ queue.Namespace, name string) (subscriptions.Subscription, error) {
	return s.change(name, func(sub *subscriptions.Subscription) { sub.Paused = false })
}

func (s *subs) Enable(_ context.Context, _ queue.Namespace, name string) (subscriptions.Subscription, error) {
	return s.change(name, func(sub *subscriptions.Subscription) { sub.Disabled = false })
}

func (s *subs) RotateSecret(_ context.Context, _ queue.Namespace, name string, p subscriptions.RotateParams) (subscriptions.Subscription, error) {
	s.rotated = p
	if p.Secret == "" {
		p.Secret = "whsec_rotated"
	}
	sub, err := s.change(name, func(sub *subscriptions.Subscription) {
		sub.Secrets = append([]subscriptions.SigningSecret{{Secret: p.Secret}}, sub.Secrets...)
	})
	return sub, errors.Join(err, s.err)
}

// accept produces everything.
func accept(call queue.ProduceCall) ([]queue.Produced, error) {
	produced := make([]queue.Produced, len(call.Items))
	for i := range produced {
		produced[i].ID = queue.NewID()
	}
	return produced, nil
}

// receipt makes a well-formed one.
func receipt(n uint64) queue.Receipt {
	number := queue.NewNumber(queue.DefaultNamespace, 1)
	return queue.Receipt{Key: queue.Key{ID: queue.NewID(), Queue: number, Home: number}, Token: queue.Token{Counter: n, Random: n}}
}
