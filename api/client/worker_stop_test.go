package client_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// A lease that is on its way when the worker stops is not left to lapse.
func TestWorker_StopGivesBackWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	c, s := setup(t)
	onItsWay, gate := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	s.front.on("/v1/queue.lease", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		if once.CompareAndSwap(false, true) {
			close(onItsWay)
			<-gate
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
	produce(t, c, make([]client.Item, 3)...)
	var runs atomic.Int32
	w, err := client.NewWorker(c, client.WorkerOptions{Queue: "orders", Default: func(context.Context, *client.Leased) error { runs.Add(1); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	<-onItsWay
	cancel()
	close(gate)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if s, err := c.Stats(t.Context(), "orders"); err != nil || s.Leased != 0 || s.Ready() != 3 || runs.Load() != 0 {
		t.Errorf("got %+v, %v, and %d handlers ran; want all given back", s, err, runs.Load())
	}
}

func TestWorker_RunEndsAfterItsHooks(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	inHook, gate := make(chan struct{}), make(chan struct{})
	var hookEnded atomic.Bool
	stop := start(t, c, client.WorkerOptions{
		Default: func(context.Context, *client.Leased) error { return nil },
		Hooks: client.Hooks{Done: func(*client.Leased, client.Outcome, time.Duration, error) {
			close(inHook)
			<-gate
			hookEnded.Store(true)
		}},
	})
	produce(t, c, client.Item{})
	<-inHook
	awaitStats(t, c, "the item to be done", isEmpty)
	time.AfterFunc(200*time.Millisecond, func() { close(gate) })
	if err := stop(); err != nil || !hookEnded.Load() {
		t.Errorf("got %v; the hook had ended: %t", err, hookEnded.Load())
	}
}

// A handler that is told to stop and still knows what it wants is heard.
func TestWorker_StopHearsWhatHandlersDecide(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	var seen outcomes
	begun := make(chan struct{}, 3)
	until := func(decide func(ctx context.Context) error) client.Handler {
		return func(ctx context.Context, _ *client.Leased) error {
			begun <- struct{}{}
			<-ctx.Done()
			return decide(ctx)
		}
	}
	stop := start(t, c, client.WorkerOptions{
		StopTimeout: -1, Hooks: seen.hooks(),
		Handlers: map[string]client.Handler{
			"bury":  until(func(context.Context) error { return client.Bury(errors.New("wrong")) }),
			"later": until(func(context.Context) error { return client.RetryAfter(time.Hour) }),
			"stop":  until(func(ctx context.Context) error { return ctx.Err() }),
		},
	})
	produce(t, c, client.Item{Kind: "bury"}, client.Item{Kind: "later"}, client.Item{Kind: "stop"})
	for range 3 {
		<-begun
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	for kind, want := range map[string]client.Outcome{"bury": client.Buried, "later": client.Retried, "stop": client.Released} {
		if got := seen.of(kind); !slices.Equal(got, []client.Outcome{want}) {
			t.Errorf("%s: got %v, want %v", kind, got, want)
		}
	}
}
