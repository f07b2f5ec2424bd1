package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/api/client"
	v1 "github.com/posthaste-io/posthaste/api/v1"
)

// awaitState polls until an item is in a state.
func awaitState(t *testing.T, c *client.Client, id, state string) client.ItemInfo {
	t.Helper()
	var info client.ItemInfo
	await(t, "the item to be "+state, func() bool {
		all, err := c.ItemInfo(t.Context(), id, "orders")
		if err != nil || len(all) == 0 {
			t.Fatalf("info: got %+v, %v", all, err)
		}
		info = all[0]
		return info.State == state
	})
	return info
}

// typedNil is the classic: an error that is not nil and has no text.
type typedNil struct{ text *string }

func (e *typedNil) Error() string { return *e.text }

// What user code does wrong costs its own item, and no other.
func TestWorker_OutlivesWhatUserCodeDoes(t *testing.T) {
	t.Parallel()
	fail := func(err error) client.Handler {
		return func(context.Context, *client.Leased) error { return err }
	}
	for name, test := range map[string]struct {
		bad    client.Handler
		reason string
	}{
		"bytes that are no text":     {fail(errors.New("bad \xff")), "bad \ufffd"},
		"a character at the cut":     {fail(errors.New("x" + strings.Repeat("é", 300))), "xé"},
		"a NUL":                      {fail(errors.New("nul \x00")), "nul \ufffd"},
		"a wait of decades":          {fail(client.RetryAfter(30 * 365 * 24 * time.Hour)), "retry after"},
		"a panic of bytes":           {func(context.Context, *client.Leased) error { panic("\xff\xfe") }, "panic: "},
		"a goroutine that ends":      {func(context.Context, *client.Leased) error { runtime.Goexit(); return nil }, "ended its goroutine"},
		"an error whose text panics": {func(context.Context, *client.Leased) error { var e *typedNil; return e }, "typedNil"},
		"a back-off that panics":     {fail(errors.New("back off")), "back-off panicked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := setup(t)
			var good atomic.Int32
			start(t, c, client.WorkerOptions{
				Concurrency: 2,
				Handlers: map[string]client.Handler{
					"bad":  test.bad,
					"fail": fail(client.RetryAfter(time.Hour)),
					"good": func(context.Context, *client.Leased) error { good.Add(1); return nil },
				},
				Backoff: func(_ *client.Leased, err error) time.Duration {
					if err.Error() == "back off" {
						panic("at the disco")
					}
					return time.Hour
				},
			})
			produced := produce(t, c, client.Item{Kind: "bad"}, client.Item{Kind: "fail"}, client.Item{Kind: "fail"}, client.Item{Kind: "good"})
			if info := awaitState(t, c, produced[0].ItemID, "retrying"); !strings.Contains(info.LastError, test.reason) {
				t.Errorf("got the error %q, want %q", info.LastError, test.reason)
			}
			awaitStats(t, c, "the others to be settled", func(s client.Stats) bool { return s.Leased == 0 && s.Total == 3 })
			if good.Load() != 1 {
				t.Errorf("the good one ran %d times, want once", good.Load())
			}
		})
	}
}

func TestWorker_BuryInADeadLetterQueueIsTriedAgain(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	id := produce(t, c, client.Item{})[0].ItemID
	if err := c.Bury(t.Context(), "wrong", lease(t, c, 1)[0].Receipt); err != nil {
		t.Fatal(err)
	}
	start(t, c, client.WorkerOptions{
		Queue:   "orders~dead",
		Backoff: func(*client.Leased, error) time.Duration { return time.Hour },
		Default: func(context.Context, *client.Leased) error { return client.Bury(errors.New("still wrong")) },
	})
	await(t, "the item to be scheduled", func() bool {
		s, err := c.Stats(t.Context(), "orders~dead")
		if err != nil {
			t.Fatal(err)
		}
		return s.Scheduled == 1
	})
	info, err := c.ItemInfo(t.Context(), id, "orders~dead")
	if err != nil || len(info) != 1 || info[0].LastError != "still wrong" || info[0].Attempts != 1 {
		t.Errorf("got %+v, %v, want it back after one attempt", info, err)
	}
	if err := client.Bury(nil); err != nil {
		t.Errorf("Bury(nil): got %v, want nil", err)
	}
}

func TestWorker_LearnsHowManyItemsACallTakes(t *testing.T) {
	t.Parallel()
	c, s := setupLimited(t, api.Limits{Items: 7})
	const n = 42
	for range n / 7 {
		produce(t, c, make([]client.Item, 7)...)
	}
	var runs atomic.Int32
	gate := make(chan struct{})
	start(t, c, client.WorkerOptions{
		Concurrency: n, LeaseTimeout: 600 * time.Millisecond,
		Default: func(context.Context, *client.Leased) error { runs.Add(1); <-gate; return nil },
	})
	await(t, "all to run and be extended", func() bool { return runs.Load() == n && s.front.count("/v1/queue.extend") >= n/7 })
	close(gate)
	awaitStats(t, c, "all to be done", isEmpty)
	if got := runs.Load(); got != n {
		t.Errorf("handlers ran %d times, want %d", got, n)
	}
}

// Outcomes and extensions have bounds of their own, which leases do not tell of.
func TestWorker_SplitsCallsThatNameTooManyReceipts(t *testing.T) {
	t.Parallel()
	c, s := setup(t)
	const n, most = 12, 3
	tooMany := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		extend, complete := new(v1.ExtendRequest), new(v1.CompleteRequest)
		_ = proto.Unmarshal(body, extend)
		_ = proto.Unmarshal(body, complete)
		if len(extend.GetReceipts()) <= most && len(complete.GetItems()) <= most {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, `{"code":413,"code_text":"too_large","message":"too many","details":{"unit":"receipts","limit":"3"}}`)
	}
	s.front.on("/v1/queue.extend", tooMany)
	s.front.on("/v1/queue.complete", tooMany)
	produce(t, c, make([]client.Item, n)...)
	var runs atomic.Int32
	gate := make(chan struct{})
	start(t, c, client.WorkerOptions{
		Concurrency: n, LeaseTimeout: 600 * time.Millisecond,
		Default: func(context.Context, *client.Leased) error { runs.Add(1); <-gate; return nil },
	})
	// One more than a turn takes: the leases were extended, or they would lapse.
	await(t, "all to run and be extended", func() bool { return runs.Load() == n && s.front.count("/v1/queue.extend") > 12 })
	close(gate)
	awaitStats(t, c, "all to be done", isEmpty)
	if got := runs.Load(); got != n {
		t.Errorf("handlers ran %d times, want %d", got, n)
	}
}

func TestWorker_NamesItself(t *testing.T) {
	t.Parallel()
	c, s := setup(t)
	var mu sync.Mutex
	ids := map[string]int{}
	s.front.on("/v1/queue.lease", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		q := new(v1.LeaseRequest)
		_ = proto.Unmarshal(body, q)
		mu.Lock()
		ids[q.GetClientId()]++
		mu.Unlock()
		next.ServeHTTP(w, r)
	})
	handler := func(context.Context, *client.Leased) error { return nil }
	for _, id := range []string{"mine", "", ""} {
		start(t, c, client.WorkerOptions{ClientID: id, Default: handler})
	}
	await(t, "all to lease", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(ids) == 3
	})
	if ids["mine"] == 0 || ids[""] > 0 {
		t.Errorf("got %v, want the given name and two that were made", ids)
	}
}

func TestWorker_WaitsForAServerAtItsStart(t *testing.T) {
	t.Parallel()
	c, s := setup(t)
	produce(t, c, client.Item{})
	for range 2 * client.DefaultTries {
		s.front.fail(answerStatus(http.StatusServiceUnavailable))
	}
	start(t, c, client.WorkerOptions{Default: func(context.Context, *client.Leased) error { return nil }})
	awaitStatsOutside(t, s, isEmpty)
}

// awaitStatsOutside looks past the front, whose faults are the worker's.
func awaitStatsOutside(t *testing.T, s *server, ok func(client.Stats) bool) {
	t.Helper()
	await(t, "the faults to be used up", func() bool {
		s.front.mu.Lock()
		defer s.front.mu.Unlock()
		return len(s.front.faults) == 0
	})
	awaitStats(t, s.client(t, client.Options{}), "the item to be done", ok)
}

func TestWorker_DoesNotSpinOnEmptyAnswers(t *testing.T) {
	t.Parallel()
	c, s := setup(t)
	s.front.on("/v1/queue.lease", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/protobuf")
	})
	leased := make(chan time.Time, 100)
	start(t, c, client.WorkerOptions{
		Default: func(context.Context, *client.Leased) error { return nil },
		Hooks:   client.Hooks{Leased: func(int, time.Duration) { leased <- time.Now() }},
	})
	first := <-leased
	if between := (<-leased).Sub(first); between < 900*time.Millisecond {
		t.Errorf("leased again after %s, want a pause", between)
	}
}

func TestWorker_GivesBackWhatItHasBecomeTooSlowFor(t *testing.T) {
	t.Parallel()
	c, s := setup(t)
	for range 8 {
		produce(t, c, make([]client.Item, 500)...)
	}
	gate := make(chan struct{})
	var runs atomic.Int32
	start(t, c, client.WorkerOptions{
		Concurrency: 1, LeaseTimeout: 300 * time.Millisecond,
		Default: func(context.Context, *client.Leased) error {
			if runs.Add(1) > 1000 {
				<-gate
			}
			return nil
		},
	})
	await(t, "the handler to be slow", func() bool { return runs.Load() > 1000 })
	awaitStats(t, c, "all but one to be given back", func(s client.Stats) bool { return s.Leased <= 1 && s.Ready() > 2000 })
	if s.front.count("/v1/queue.release") == 0 {
		t.Error("nothing was given back, want what was leased ahead")
	}
	close(gate)
}

func TestNewWorker_RefusesANilHandler(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	_, err := client.NewWorker(c, client.WorkerOptions{Queue: "orders", Handlers: map[string]client.Handler{"order.paid": nil}})
	if err == nil || !strings.Contains(err.Error(), `"order.paid"`) {
		t.Errorf("got %v, want the kind named", err)
	}
}
