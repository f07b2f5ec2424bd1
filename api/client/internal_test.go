package client

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// newTestShift returns one of ten handlers that leases nothing by itself.
func newTestShift(c *Client) *shift {
	log := slog.New(slog.DiscardHandler)
	return newShift(&Worker{client: c, log: log, opts: WorkerOptions{Concurrency: 10, Logger: log}}, time.Minute)
}

func TestShift_LineIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	s := newTestShift(nil)
	s.pace, s.trip, s.running = 10_000, 100*time.Millisecond, 10
	s.line = []*work{{it: Leased{Payload: make([]byte, mostLine-mostAnswer)}}}
	if n := s.wanted(); n == 0 {
		t.Error("leases no more, want as much as fits")
	}
	s.line[0].it.Payload = append(s.line[0].it.Payload, 0)
	if n := s.wanted(); n != 0 {
		t.Errorf("leases %d more, want none", n)
	}
}

func TestShift_BeginsNothingWhoseLeaseIsOver(t *testing.T) {
	t.Parallel()
	s := newTestShift(nil)
	x := &work{it: Leased{Receipt: "r"}, deadline: time.Now().Add(-time.Second)}
	s.held["r"], s.line = x, []*work{x}
	s.begin(t.Context())
	if s.running != 0 || !x.lost || len(s.held) != 0 || len(s.line) != 0 {
		t.Errorf("running %d, lost %t, held %d, in line %d; want it lost", s.running, x.lost, len(s.held), len(s.line))
	}
}

// A handler is told when its lease is over, and not at some next turn.
func TestShift_ExpiresOnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestShift(nil)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go s.expire(ctx)
		<-time.After(s.ttl / 3)
		s.mu.Lock()
		own, cancel := context.WithCancelCause(t.Context())
		began := time.Now()
		s.held["r"] = &work{it: Leased{Receipt: "r"}, deadline: began.Add(s.ttl), cancel: cancel}
		s.mu.Unlock()
		<-own.Done()
		if late := time.Since(began) - s.ttl; !errors.Is(context.Cause(own), ErrLeaseLost) || late < 0 || late > 2*time.Millisecond {
			t.Errorf("told by %v, %s after the lease was over", context.Cause(own), late)
		}
	})
}

func TestShift_ThePaceIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestShift(nil)
		s.running = 10
		<-time.After(rateEvery)
		s.ended = 100
		s.reckon()
		if s.pace != 1000 {
			t.Errorf("after 100 in 50 ms: got %f a second, want half of 2000", s.pace)
		}
		s.line = make([]*work, 2000)
		for i := range s.line {
			s.line[i] = new(work)
		}
		s.shorten()
		if len(s.line) != 1000 || len(s.outcomes) != 1000 {
			t.Errorf("%d in line and %d given back, want a second's work kept", len(s.line), len(s.outcomes))
		}
		<-time.After(s.ttl / extendPart)
		s.shorten()
		if len(s.line) != 0 {
			t.Errorf("%d in line after %s in which nothing ended, want none", len(s.line), s.ttl/extendPart)
		}
		s.running = 7
		s.line = []*work{{}, {}, {}, {}}
		s.shorten()
		if len(s.line) != 3 {
			t.Errorf("%d in line, want one for each free handler", len(s.line))
		}
	})
}

func TestShift_SendsReleasesFirst(t *testing.T) {
	t.Parallel()
	var verbs []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		verbs = append(verbs, path.Base(r.URL.Path)) // one call at a time
		w.Header().Set("Content-Type", protobuf)
	}))
	defer server.Close()
	c, err := New(Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	newTestShift(c).send(t.Context(), []*work{{outcome: Completed}, {outcome: Retried}, {outcome: Released}})
	if want := []string{"queue.release", "queue.complete", "queue.retry"}; !slices.Equal(verbs, want) {
		t.Errorf("got %v, want %v", verbs, want)
	}
}
