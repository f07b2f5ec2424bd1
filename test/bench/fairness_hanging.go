package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// hanging is an endpoint that answers until it has as many requests at one time as are
// wanted, and from then on never again. One that hung from the first request on would hold
// only the few that an endpoint is sent of which nothing is known.
type hanging struct {
	want int
	// hangs is closed when it does.
	hangs chan struct{}

	mu sync.Mutex
	// held is how many requests it has, most how many it had at its peak.
	held, most int
}

// answersIn is how long it takes for an answer while it still gives some: so long that the
// server has as many requests running as it may, whatever it could do in a second.
const answersIn = 100 * time.Millisecond

// take returns when a request is to be answered, or when who sent it is gone.
func (h *hanging) take(ctx context.Context) {
	h.mu.Lock()
	h.held++
	if h.most = max(h.most, h.held); h.held == h.want {
		select {
		case <-h.hangs:
		default:
			close(h.hangs)
		}
	}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.held--
	}()
	timer := time.NewTimer(answersIn)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return
	case <-h.hangs:
	}
	select {
	case <-h.hangs:
		<-ctx.Done()
	default:
	}
}

func (h *hanging) holds() (now, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held, h.most
}

// wait waits until it hangs and has all the requests that it will get.
func (h *hanging) wait(ctx context.Context) error {
	const still = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, warmUpTimeout)
	defer cancel()
	last, since := 0, time.Now()
	for last < h.want || time.Since(since) < still {
		if !until(ctx, time.Now().Add(20*time.Millisecond)) {
			return fmt.Errorf("the endpoint that is to hang: %w", h.check())
		}
		if held, _ := h.holds(); held != last {
			last, since = held, time.Now()
		}
	}
	return nil
}

// check is an error unless it holds as many requests as are wanted.
func (h *hanging) check() error {
	if held, most := h.holds(); held < h.want {
		return fmt.Errorf("it holds %d requests and held %d, want %d at least", held, most, h.want)
	}
	return nil
}
