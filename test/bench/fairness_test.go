package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestFleet_TellsWhenWhatWasAcknowledgedCame(t *testing.T) {
	t.Parallel()
	to, err := openFleet(fairPlan{endpoints: 3, dead: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := to.end(); err != nil {
			t.Error(err)
		}
	})
	if len(to.healthy) != 2 || len(to.dead) != 2 {
		t.Fatalf("%d healthy and %d dead endpoints, want 2 and 2", len(to.healthy), len(to.dead))
	}
	post := func(url string, payload []byte) error {
		resp, err := http.Post(url, "text/plain", bytes.NewReader(payload))
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	for _, url := range to.dead {
		if err := post(url, nil); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dead endpoint: got %v, want the connection refused", err)
		}
	}
	to.expect(10) // another flight before it
	f := to.expect(3)
	payload := bytes.Repeat([]byte{'p'}, payloadSize)
	for i := range 2 {
		f.number(payload[stampSize:], i)
		if err := post(to.healthy[i], payload); err != nil {
			t.Fatal(err)
		}
	}
	// The first came 5 ms after it was acknowledged, the second was never acknowledged, and
	// the third was and never came.
	f.acknowledged[0].Store(f.arrived[0].Load() - 5e6)
	f.acknowledged[2].Store(1)
	f.began = time.Now().Add(-time.Hour)
	took := f.took(t.Context(), 10*time.Millisecond)
	if len(took) != 2 || took[0] != 5 || took[1] < 3.6e6 {
		t.Errorf("took %v ms, want 5 and an hour", took)
	}
}

func TestHanging_AnswersUntilItHoldsEnough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{want: 3, hangs: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var requests sync.WaitGroup
		for range 2 {
			requests.Go(func() { h.take(ctx) })
		}
		requests.Wait() // they are answered
		if now, most := h.holds(); now != 0 || most != 2 || h.check() == nil {
			t.Errorf("holds %d, held %d, check %v; want none, 2, and an error", now, most, h.check())
		}
		for range 4 {
			requests.Go(func() { h.take(ctx) })
		}
		if err := h.wait(ctx); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		if now, most := h.holds(); now != 4 || most != 4 {
			t.Errorf("holds %d, held %d; want 4 for ever", now, most)
		}
		cancel()
		requests.Wait()
	})
}
