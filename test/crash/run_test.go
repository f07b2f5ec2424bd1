package crash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/test/crash/judge"
	"github.com/posthaste-io/posthaste/test/recorder"
)

const (
	pullQueue    = "pull"
	pushQueue    = "push"
	pullAttempts = 6
	pushAttempts = 4
)

// run is one run's load and what it writes down.
type run struct {
	t        *testing.T
	seed     uint64
	path     string
	file     *os.File
	history  *recorder.Recorder
	cluster  *cluster
	client   *client
	receiver *receiver

	acked, leased, settled, posts atomic.Int64
	// cut counts calls and pushes whose outcome is not known to who made them; refused
	// those calls that were answered with a refusal for now.
	cut, refused atomic.Int64
	// draining tells consumers to complete what they get.
	draining atomic.Bool

	mu   sync.Mutex // guards what follows
	odds []string
}

func newRun(t *testing.T, seed uint64, p topology) *run {
	path := filepath.Join(t.ArtifactDir(), "history.jsonl")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{t: t, seed: seed, path: path, file: file, history: recorder.New(file)}
	r.cluster = newCluster(t, p, r.history)
	r.client = newClient(r.cluster)
	r.receiver = newReceiver(t, r)
	return r
}

// odd keeps what should never be seen; the test fails with it.
func (r *run) odd(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.odds = append(r.odds, fmt.Sprintf(format, args...))
}

// end writes down how a call ended.
func (r *run) end(client string, verb recorder.Verb, queueName string, op uint64, phase recorder.Phase, err error, items ...recorder.Item) {
	e := recorder.Event{Op: op, Client: client, Verb: verb, Phase: phase, Queue: queueName, Items: items}
	if err != nil {
		e.Detail = err.Error()
	}
	if phase == recorder.Unknown {
		r.cut.Add(1)
	}
	if errors.Is(err, errRefused) {
		r.refused.Add(1)
	}
	if errors.Is(err, errOdd) {
		r.odd("%v", err)
	}
	r.history.End(e)
}

// must makes a call that no fault can hit.
func (r *run) must(method string, request, reply any) {
	r.t.Helper()
	if phase, err := r.client.call(r.t.Context(), method, request, reply); phase != recorder.OK {
		r.t.Fatal(err)
	}
}

// setUp makes the queues and the subscription.
func (r *run) setUp() {
	r.must("queues.create", map[string]any{"queue_name": pullQueue, "max_attempts": pullAttempts}, &answer{})
	r.must("subscriptions.create", map[string]any{
		"name": "hook", "queue_name": pushQueue, "url": r.receiver.URL, "timeout": "5s", "max_in_flight": 16,
		"retry": map[string]any{"max_attempts": pushAttempts, "schedule": []string{"200ms", "400ms"}},
	}, &struct{}{})
}

// load starts producers and consumers. The first function stops the producers,
// the second the consumers; both return when the last call has ended.
func (r *run) load(careful bool) (stopProducers, stopConsumers func()) {
	start := func(work ...func(context.Context)) func() {
		ctx, cancel := context.WithCancel(r.t.Context())
		var group sync.WaitGroup
		for _, w := range work {
			group.Go(func() { w(ctx) })
		}
		return func() { cancel(); group.Wait() }
	}
	var producers, consumers []func(context.Context)
	for i := range 3 {
		p := &producer{name: fmt.Sprint("producer-", i), rnd: r.random(uint64(i)), client: r.client, run: r}
		c := &consumer{name: fmt.Sprint("consumer-", i), rnd: r.random(uint64(10 + i)), client: r.client, run: r, careful: careful}
		producers, consumers = append(producers, p.work), append(consumers, c.work)
	}
	return start(producers...), start(consumers...)
}

// random returns a source of its own for each worker, by the run's seed.
func (r *run) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(r.seed, stream)) }

// drain waits until both queues are empty.
func (r *run) drain(patience time.Duration) {
	r.t.Helper()
	r.draining.Store(true)
	r.receiver.kind.Store(true)
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for {
		left := r.total(pullQueue) + r.total(pushQueue)
		if left == 0 {
			return
		}
		if ctx.Err() != nil {
			// Not fatal: the judge says which items they are.
			r.t.Errorf("%d items are left after %s without a fault", left, patience)
			return
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// total counts the items of a queue.
func (r *run) total(queueName string) int {
	r.t.Helper()
	var stats struct {
		LogicalQueues []struct {
			Partitions []struct {
				Total int `json:"total"`
			} `json:"partitions"`
		} `json:"logical_queues"`
	}
	r.must("queue.stats", map[string]any{"queue_name": queueName}, &stats)
	n := 0
	for _, logical := range stats.LogicalQueues {
		for _, partition := range logical.Partitions {
			n += partition.Total
		}
	}
	return n
}

// inspect writes down what lies in a queue. One that does not exist holds nothing:
// dead-letter queues are made when they are first needed.
func (r *run) inspect(queueName string) int {
	r.t.Helper()
	n, cursor := 0, ""
	for {
		var page struct {
			Items []struct {
				ID      string `json:"id"`
				Payload []byte `json:"payload"`
			} `json:"items"`
			Cursor string `json:"cursor"`
		}
		phase, err := r.client.call(r.t.Context(), "storage/items.list",
			map[string]any{"queue_name": queueName, "cursor": cursor, "limit": 500}, &page)
		if errors.Is(err, errMissing) {
			return 0
		}
		if phase != recorder.OK {
			r.t.Fatal(err)
		}
		for _, it := range page.Items {
			r.history.Note("inspector", recorder.Found, queueName, "",
				recorder.Item{ID: it.ID, Payload: recorder.Hash(it.Payload)})
		}
		n += len(page.Items)
		if cursor = page.Cursor; cursor == "" {
			return n
		}
	}
}

// verdict ends the run: it stops the nodes, and hands history and journal to
// the judge.
func (r *run) verdict(graceful bool, lanes time.Duration) {
	r.t.Helper()
	dead := r.inspect(pullQueue+queue.DeadSuffix) + r.inspect(pushQueue+queue.DeadSuffix)
	r.inspect(pullQueue)
	r.inspect(pushQueue)
	r.cluster.stop()
	if err := r.history.Flush(); err != nil {
		r.t.Fatal(err)
	}
	if err := r.file.Close(); err != nil {
		r.t.Fatal(err)
	}
	file, err := os.Open(r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	events, err := recorder.Read(file)
	if err != nil {
		r.t.Fatal(err)
	}
	h := judge.History{Events: events, Journal: r.cluster.journal(r.t), Queues: map[string]judge.Policy{
		pullQueue: {
			Dead: pullQueue + queue.DeadSuffix, MaxAttempts: pullAttempts,
			MaxRecoveries: queue.DefaultMaxRecoveries, Graceful: graceful,
		},
		pushQueue: {
			Push: true, Dead: pushQueue + queue.DeadSuffix, MaxAttempts: pushAttempts,
			MaxRecoveries: queue.DefaultMaxRecoveries, LaneTTL: lanes, Graceful: graceful,
		},
	}}
	lapses := 0
	for _, record := range h.Journal {
		if record.Type == queue.LapseRecord {
			lapses++
		}
	}
	r.t.Logf("seed %d: %d events, %d journal records; %d items acknowledged, %d leased, %d settled, %d pushed, "+
		"%d calls and pushes cut, %d calls refused, %d leases lapsed, %d items buried", r.seed, len(events), len(h.Journal),
		r.acked.Load(), r.leased.Load(), r.settled.Load(), r.posts.Load(), r.cut.Load(), r.refused.Load(), lapses, dead)
	r.report(judge.Judge(h))
}

// report fails the test with what was found, the first of each check in words.
func (r *run) report(found []judge.Violation) {
	r.t.Helper()
	const most = 8
	seen := map[string]int{}
	for _, v := range found {
		if seen[v.Check]++; seen[v.Check] <= most {
			r.t.Error(v)
		}
	}
	for check, n := range seen {
		if n > most {
			r.t.Errorf("%s: %d in all", check, n)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, odd := range r.odds {
		if i == most {
			r.t.Errorf("and %d more odd answers", len(r.odds)-most)
			break
		}
		r.t.Error(odd)
	}
}
