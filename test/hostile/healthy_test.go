package hostile_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"
)

// healthy is an endpoint that is well, and what it is sent.
type healthy struct {
	stop     chan struct{}
	produced chan int

	mu sync.Mutex
	// late is how long each item was on its way, by its number.
	late   map[int]time.Duration
	repeat int
}

// pace is how often an item is produced for it.
const pace = 10 * time.Millisecond

// beginHealthy subscribes it and produces until it is judged. What an item says is its
// number and when it was produced: both ends have the same clock.
func beginHealthy(s *server) *healthy {
	h := &healthy{stop: make(chan struct{}), produced: make(chan int, 1), late: map[int]time.Duration{}}
	began := time.Now()
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		now := time.Since(began)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the server is stopped
		}
		at, err := time.ParseDuration(string(body))
		number, err2 := strconv.Atoi(r.Header.Get("X-Number"))
		if err != nil || err2 != nil {
			s.t.Errorf("got %q, number %q", body, r.Header.Get("X-Number"))
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if _, seen := h.late[number]; seen {
			h.repeat++
		}
		h.late[number] = now - at
	}))
	s.t.Cleanup(endpoint.Close)
	s.call("subscriptions.create", object{"name": "healthy", "queue_name": "healthy", "url": endpoint.URL}, nil)
	go func() {
		ticker := time.NewTicker(pace)
		defer ticker.Stop()
		n := 0
		for {
			select {
			case <-h.stop:
				h.produced <- n
				return
			case <-ticker.C:
				status, answer := s.try("queue.produce", object{"queue_name": "healthy", "items": []object{{
					"utf8": time.Since(began).String(), "headers": object{"X-Number": strconv.Itoa(n)},
				}}})
				if status != http.StatusOK {
					s.t.Errorf("produce: status %d: %s", status, answer)
				}
				n++
			}
		}
	}()
	return h
}

// judge ends the load and says whether the endpoint noticed its neighbours.
func (h *healthy) judge(t *testing.T) {
	t.Helper()
	close(h.stop)
	produced := <-h.produced
	eventually(t, "all items at the endpoint that is well", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.late) == produced
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []time.Duration
	for _, d := range h.late {
		all = append(all, d)
	}
	if produced < 50 || h.repeat != 0 {
		t.Errorf("%d items were produced, %d came twice", produced, h.repeat)
	}
	p50, p99 := percentile(all, 0.5), percentile(all, 0.99)
	t.Logf("the endpoint that is well: %d items, p50 %v, p99 %v", produced, p50, p99)
	if p99 > mostLate {
		t.Errorf("p99 of the endpoint that is well is %v, want at most %v", p99, mostLate)
	}
}
