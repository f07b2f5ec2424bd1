package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/api/client"
	"github.com/posthaste-io/posthaste/test/inproc"
)

// benchResult reads what bench --json printed.
func benchResult(t *testing.T, out string) map[string]any {
	t.Helper()
	list := decode(t, out)
	if len(list) != 1 {
		t.Fatalf("printed %d objects, want one:\n%s", len(list), out)
	}
	return list[0]
}

// checkNoQueue fails the test if bench left a queue.
func (s *shell) checkNoQueue() {
	s.t.Helper()
	if out := s.ok("queues", "list"); out != "" {
		s.t.Errorf("queues are left:\n%s", out)
	}
}

func TestBench_CompletesWhatItProduces(t *testing.T) {
	s := newShell(t, inproc.Options{})
	v := benchResult(t, s.ok("bench", "--duration=200ms", "--batch=3", "--producers=2", "--consumers=2", "--json"))
	if n := v["produced"].(float64); n == 0 || v["completed"] != n || v["left"] != 0.0 || v["items_per_second"] == 0.0 {
		t.Errorf("produced %v, completed %v, left %v, %v a second", n, v["completed"], v["left"], v["items_per_second"])
	}
	if errs := v["errors"].(map[string]any); len(errs) != 0 {
		t.Errorf("errors: %v", errs)
	}
	for step, times := range v["latency"].(map[string]any) {
		l := times.(map[string]any)
		var series []float64
		for _, name := range []string{"p50_ms", "p90_ms", "p99_ms", "p99_9_ms", "max_ms"} {
			series = append(series, l[name].(float64))
		}
		if !slices.IsSorted(series) || series[0] <= 0 || l["count"] == 0.0 {
			t.Errorf("%s: %v", step, l)
		}
	}
	if n := v["latency"].(map[string]any)["end_to_end"].(map[string]any)["count"]; n != v["completed"] {
		t.Errorf("%v times of whole ways, of %v items", n, v["completed"])
	}
	s.checkNoQueue()
}

func TestBench_StopsAfterItems(t *testing.T) {
	s := newShell(t, inproc.Options{})
	began := time.Now()
	v := benchResult(t, s.ok("bench", "--duration=10m", "--items=25", "--json"))
	if v["produced"] != 25.0 || v["completed"] != 25.0 {
		t.Errorf("produced %v and completed %v, want 25", v["produced"], v["completed"])
	}
	if d := time.Since(began); d > time.Minute {
		t.Errorf("it took %s, as if the time counted", d)
	}
}

func TestBench_KeepsTheRate(t *testing.T) {
	s := newShell(t, inproc.Options{})
	v := benchResult(t, s.ok("bench", "--duration=500ms", "--rate=100", "--batch=1", "--json"))
	if n := v["produced"].(float64); n < 1 || n > 50 {
		t.Errorf("produced %v in half a second, want 50 at most", n)
	}
}

// A producer that was held up counts its wait from when it was to call.
func TestBench_HeldUpProducersAreDueAsPlanned(t *testing.T) {
	t.Parallel()
	r := newBenchRun(nil, &benchCommand{Duration: 300 * time.Millisecond, Producers: 2, Consumers: 1, Batch: 5, Size: 8, Rate: 100}, "q")
	r.start = time.Now().Add(-time.Minute)
	p := r.pace(1)
	for _, want := range []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 250 * time.Millisecond} {
		if due, ok := r.await(t.Context(), p); !ok || due != want {
			t.Errorf("due %s (%v), want %s", due, ok, want)
		}
	}
	if due, ok := r.await(t.Context(), p); ok {
		t.Errorf("due %s, after the end", due)
	}
}

func TestBench_CountsErrorsByWord(t *testing.T) {
	s := newShell(t, inproc.Options{Limits: api.Limits{Payload: 100}})
	r := s.run("", "bench", "--duration=300ms", "--size=101")
	if r.status != exitFailed || !strings.Contains(r.err.Error(), client.CodeTooLarge) {
		t.Errorf("status %d: %v", r.status, r.err)
	}
	if !strings.Contains(r.out, "errors\t") || !strings.Contains(r.out, " "+client.CodeTooLarge) {
		t.Errorf("printed:\n%s", r.out)
	}
	s.checkNoQueue()
}

func TestBench_InterruptedTellsWhatItHasAndLeavesNoQueue(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const producers = 4
	var calls atomic.Int32
	s := newShell(t, inproc.Options{Front: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/queue.produce" && calls.Add(1) > producers {
				cancel() // one that calls again has counted what it produced before
			}
			next.ServeHTTP(w, r)
		})
	}})
	var out bytes.Buffer
	r := s.runTo(ctx, &out, nil, "bench", "--duration=10m", fmt.Sprint("--producers=", producers), "--json")
	if r.status != exitInterrupted {
		t.Errorf("status %d: %v", r.status, r.err)
	}
	if v := benchResult(t, out.String()); v["produced"] == 0.0 {
		t.Errorf("printed %v", v)
	}
	s.checkNoQueue()
}

func TestBench_RefusesNonsense(t *testing.T) {
	s := newShell(t, inproc.Options{})
	for _, flags := range [][]string{
		{"--duration=0s"},
		{"--duration=-1s"},
		{"--duration=10m1s"},
		{"--items=-1"},
		{"--producers=0"},
		{"--producers=129"},
		{"--consumers=0"},
		{"--consumers=129"},
		{"--batch=0"},
		{"--batch=1001"},
		{"--size=7"},
		{"--size=1000001"},
		{"--batch=1000", "--size=5001"},
		{"--rate=-1"},
		{"--rate=1000001"},
	} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			r := s.run("", append([]string{"bench"}, flags...)...)
			name, _, _ := strings.Cut(flags[0], "=")
			if r.status != exitUsage || !strings.Contains(r.err.Error(), name) {
				t.Errorf("status %d: %v", r.status, r.err)
			}
		})
	}
	s.checkNoQueue()
}
