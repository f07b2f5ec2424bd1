package client_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/posthaste-io/posthaste/api/client"
)

// start runs a worker, on "orders" if it does not say, and returns what stops it and waits for its end.
func start(t *testing.T, c *client.Client, o client.WorkerOptions) (stop func() error) {
	t.Helper()
	o.Queue = cmp.Or(o.Queue, "orders")
	w, err := client.NewWorker(c, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(patience):
			return errors.New("the worker did not stop")
		}
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("worker: %v", err)
		}
	})
	return stop
}

func isEmpty(s client.Stats) bool { return s.Total == 0 }

func TestWorker_ChoosesHandlersByKind(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	var mu sync.Mutex
	var got []string
	note := func(name string) client.Handler {
		return func(_ context.Context, it *client.Leased) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, name+":"+it.Kind)
			return nil
		}
	}
	start(t, c, client.WorkerOptions{Handlers: map[string]client.Handler{"a": note("a"), "b": note("b")}, Default: note("other"), Concurrency: 1})
	produce(t, c, client.Item{Kind: "a"}, client.Item{Kind: "b"}, client.Item{Kind: "c"})
	awaitStats(t, c, "all done", isEmpty)
	if want := []string{"a:a", "b:b", "other:c"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v, in order", got, want)
	}
}

func TestWorker_MiddlewareWrapsFromOutsideIn(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	got := make(chan string, 3)
	layer := func(name string) client.Middleware {
		return func(next client.Handler) client.Handler {
			return func(ctx context.Context, it *client.Leased) error {
				got <- name
				return next(ctx, it)
			}
		}
	}
	start(t, c, client.WorkerOptions{
		Middleware: []client.Middleware{layer("outer"), layer("inner")},
		Default:    func(context.Context, *client.Leased) error { got <- "handler"; return nil },
	})
	produce(t, c, client.Item{})
	for _, want := range []string{"outer", "inner", "handler"} {
		if name := <-got; name != want {
			t.Errorf("got %s, want %s", name, want)
		}
	}
}

// outcomes are what a worker did, as its hooks tell.
type outcomes struct {
	mu   sync.Mutex
	seen map[string][]client.Outcome
	errs map[string]error
}

func (o *outcomes) hooks() client.Hooks {
	o.seen, o.errs = map[string][]client.Outcome{}, map[string]error{}
	return client.Hooks{Done: func(it *client.Leased, outcome client.Outcome, _ time.Duration, err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.seen[it.Kind] = append(o.seen[it.Kind], outcome)
		o.errs[it.Kind] = err
	}}
}

func (o *outcomes) of(kind string) []client.Outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.seen[kind])
}

func TestWorker_TurnsWhatHandlersReturnIntoOutcomes(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	if err := c.UpdateQueue(t.Context(), "orders", client.QueueUpdate{KeepEnded: new(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	var seen outcomes
	start(t, c, client.WorkerOptions{
		Hooks: seen.hooks(),
		Handlers: map[string]client.Handler{
			"good":  func(_ context.Context, it *client.Leased) error { it.SetResult([]byte("fine")); return nil },
			"huge":  func(_ context.Context, it *client.Leased) error { it.SetResult(make([]byte, 5000)); return nil },
			"fail":  func(context.Context, *client.Leased) error { return errors.New("no connection") },
			"panic": func(context.Context, *client.Leased) error { panic("at the disco") },
			"bury": func(context.Context, *client.Leased) error {
				return fmt.Errorf("order 17: %w", client.Bury(errors.New("no such order")))
			},
			"later": func(context.Context, *client.Leased) error {
				return fmt.Errorf("limited: %w", client.RetryAfter(3*time.Hour))
			},
		},
	})
	var ids []string
	kinds := []string{"good", "huge", "fail", "panic", "bury", "later", "unknown"}
	for _, kind := range kinds {
		ids = append(ids, produce(t, c, client.Item{Kind: kind})[0].ItemID)
	}
	for i, want := range []struct {
		outcome client.Outcome
		state   string
		reason  string
		atLeast time.Duration
	}{
		{client.Completed, "completed", "", 0},
		{client.Retried, "retrying", "result of 5000 bytes", 0},
		{client.Retried, "retrying", "no connection", 0},
		{client.Retried, "retrying", "panic: at the disco", 0},
		{client.Buried, "buried", "order 17: no such order", 0},
		{client.Retried, "retrying", "limited: retry after 3h0m0s", 2 * time.Hour},
		{client.Retried, "retrying", `no handler for kind "unknown"`, 0},
	} {
		var info client.ItemInfo
		await(t, kinds[i]+" to be settled", func() bool {
			all, err := c.ItemInfo(t.Context(), ids[i], "")
			if err != nil || len(all) != 1 {
				t.Fatalf("%s: got %+v, %v", kinds[i], all, err)
			}
			info = all[0]
			return info.State == want.state
		})
		if got := seen.of(kinds[i]); len(got) == 0 || got[0] != want.outcome {
			t.Errorf("%s: got %v, want %v", kinds[i], got, want.outcome)
		}
		if !strings.Contains(info.LastError+info.Message, want.reason) { // a buried one says it in words
			t.Errorf("%s: got the error %q and message %q, want %q", kinds[i], info.LastError, info.Message, want.reason)
		}
		if wait := time.Until(info.NextAt); want.atLeast > 0 && wait < want.atLeast {
			t.Errorf("%s: comes again after %s, want %s at least", kinds[i], wait, want.atLeast)
		}
	}
}

func TestWorker_ExtendsWhatTakesLong(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	var runs atomic.Int32
	start(t, c, client.WorkerOptions{
		LeaseTimeout: 450 * time.Millisecond,
		Default: func(ctx context.Context, _ *client.Leased) error {
			runs.Add(1)
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
	})
	produce(t, c, client.Item{})
	awaitStats(t, c, "the item to be done", isEmpty)
	if n := runs.Load(); n != 1 {
		t.Errorf("the handler ran %d times, want once", n)
	}
}

func TestWorker_TellsAHandlerThatItsLeaseIsLost(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	var seen outcomes
	begun, cause := make(chan string, 1), make(chan error, 1)
	start(t, c, client.WorkerOptions{
		LeaseTimeout: 300 * time.Millisecond, Hooks: seen.hooks(),
		Default: func(ctx context.Context, it *client.Leased) error {
			begun <- it.ItemID
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil
		},
	})
	produce(t, c, client.Item{Kind: "k"})
	if n, err := c.CancelItems(t.Context(), "orders", <-begun); err != nil || n.Count != 1 {
		t.Fatalf("cancel: %+v, %v", n, err)
	}
	if err := <-cause; !errors.Is(err, client.ErrLeaseLost) {
		t.Errorf("got %v, want ErrLeaseLost", err)
	}
	await(t, "the outcome", func() bool { return slices.Equal(seen.of("k"), []client.Outcome{client.Lost}) })
}

func TestWorker_StopGivesBackWhatIsNotBegunAndWaitsForTheRest(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	begun, finish := make(chan struct{}), make(chan struct{})
	stop := start(t, c, client.WorkerOptions{
		Concurrency: 1,
		Default: func(context.Context, *client.Leased) error {
			close(begun)
			<-finish
			return nil
		},
	})
	produce(t, c, make([]client.Item, 3)...)
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	awaitStats(t, c, "what was not begun to be ready", func(s client.Stats) bool { return s.Leased == 1 && s.Total == 3 })
	select {
	case err := <-stopped:
		t.Fatalf("the worker stopped under its handler: %v", err)
	default:
	}
	close(finish)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	items := lease(t, c, 10)
	if len(items) != 2 {
		t.Fatalf("%d items are left, want the two that were not begun", len(items))
	}
	all := slices.Collect(values(t, c.Items(t.Context(), "orders")))
	for _, it := range all {
		if it.Attempts != 0 {
			t.Errorf("item %s has %d attempts, want none", it.ItemID, it.Attempts)
		}
	}
}

func TestWorker_StopEndsHandlersAfterItsTime(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	begun, cause := make(chan struct{}), make(chan error, 1)
	stop := start(t, c, client.WorkerOptions{
		StopTimeout: 20 * time.Millisecond,
		Default: func(ctx context.Context, _ *client.Leased) error {
			close(begun)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return ctx.Err()
		},
	})
	produce(t, c, client.Item{})
	<-begun
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := <-cause; !errors.Is(err, client.ErrStopping) {
		t.Errorf("got %v, want ErrStopping", err)
	}
	if s, err := c.Stats(t.Context(), "orders"); err != nil || s.Ready() != 1 || s.Failing != 0 {
		t.Errorf("got %+v, %v, want the item back, uncounted", s, err)
	}
}

func TestWorker_SettlesInBatchesAndLeasesAhead(t *testing.T) {
	t.Parallel()
	c, s := setup(t)
	const n = 4000
	for range n / 500 {
		produce(t, c, make([]client.Item, 500)...)
	}
	var done atomic.Int32
	start(t, c, client.WorkerOptions{Concurrency: 4, Default: func(context.Context, *client.Leased) error { done.Add(1); return nil }})
	awaitStats(t, c, "all to be done", isEmpty)
	if got := done.Load(); got != n {
		t.Errorf("handlers ran %d times, want %d", got, n)
	}
	calls := 0
	for _, r := range s.front.requests() {
		if r.path == "/v1/queue.complete" || r.path == "/v1/queue.lease" {
			calls++
		}
	}
	// One by one it would be more than n; how many more than a fourth, with four at a time,
	// depends on how quick the machine is.
	if calls > n/2 {
		t.Errorf("%d calls for %d items, want them in batches", calls, n)
	}
}

func TestWorker_BoundsItsConcurrency(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	var running, most atomic.Int32
	start(t, c, client.WorkerOptions{Concurrency: 3, Default: func(context.Context, *client.Leased) error {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		<-time.After(5 * time.Millisecond)
		running.Add(-1)
		return nil
	}})
	produce(t, c, make([]client.Item, 30)...)
	awaitStats(t, c, "all to be done", isEmpty)
	if got := most.Load(); got != 3 {
		t.Errorf("%d handlers ran at one time, want 3", got)
	}
}

// A server that is away for a while costs nothing but time.
func TestWorker_OutlivesAServerThatIsAway(t *testing.T) {
	t.Parallel()
	c, s := setup(t)
	var runs atomic.Int32
	start(t, c, client.WorkerOptions{Default: func(context.Context, *client.Leased) error {
		if runs.Add(1) == 1 {
			bad := make([]fault, 12)
			for i := range bad {
				bad[i] = answerStatus(503)
			}
			s.front.fail(bad...)
		}
		return nil
	}})
	produce(t, c, client.Item{})
	await(t, "the faults to be used up", func() bool {
		s.front.mu.Lock()
		defer s.front.mu.Unlock()
		return runs.Load() > 0 && len(s.front.faults) == 0
	})
	awaitStats(t, c, "the item to be done", isEmpty)
	if n := runs.Load(); n != 1 {
		t.Errorf("the handler ran %d times, want once", n)
	}
}

func TestWorker_RunEndsWhereItCannotWork(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	handler := func(context.Context, *client.Leased) error { return nil }
	for _, ttl := range []time.Duration{0, time.Second} {
		w, err := client.NewWorker(c, client.WorkerOptions{Queue: "nowhere", Default: handler, LeaseTimeout: ttl})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Run(t.Context()); !client.Is(err, client.CodeNotFound) {
			t.Errorf("lease timeout %s: got %v, want not_found", ttl, err)
		}
	}
	for _, o := range []client.WorkerOptions{{Default: handler}, {Queue: "q"}, {Queue: "q", Default: handler, Concurrency: -1}} {
		if _, err := client.NewWorker(c, o); err == nil {
			t.Errorf("%+v: accepted", o)
		}
	}
}

func TestWorker_HandlersContinueTheProducersTrace(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	got := make(chan string, 1)
	start(t, c, client.WorkerOptions{Default: func(ctx context.Context, _ *client.Leased) error {
		got <- trace.SpanContextFromContext(ctx).TraceID().String()
		return nil
	}})
	if _, err := c.Produce(traced(t.Context()), "orders", client.Item{}); err != nil {
		t.Fatal(err)
	}
	if id := <-got; !strings.Contains(traceparent, id) {
		t.Errorf("got trace %s, want that of %s", id, traceparent)
	}
}

func TestDefaultBackoff_DoublesUpToAnHour(t *testing.T) {
	t.Parallel()
	for deliveries, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 1000: time.Hour} {
		got := client.DefaultBackoff(&client.Leased{Deliveries: deliveries}, nil)
		if got < want-want/10 || got > want+want/10 {
			t.Errorf("after %d deliveries: got %s, want %s, a tenth more or less", deliveries, got, want)
		}
	}
}
