package api

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestC16_RefusalsGoOutAtAPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := new(refusalPace)
		began := time.Now()
		r.wait(t.Context())
		if took := time.Since(began); took != 0 {
			t.Errorf("the first one was held up for %s", took)
		}
		// As many clients as come back at once, whatever they are told.
		const clients = 500
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		var mu sync.Mutex
		var group sync.WaitGroup
		answered := 0
		for range clients {
			group.Go(func() {
				for ctx.Err() == nil {
					r.wait(ctx)
					mu.Lock()
					answered++
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if want := int(10 * time.Second / refusalInterval); answered > want+clients || answered < want*9/10 {
			t.Errorf("%d refusals in 10 s, want %d", answered, want)
		}
		<-time.After(time.Minute)
		began = time.Now()
		if r.wait(t.Context()); time.Since(began) != 0 {
			t.Error("one was held up after a quiet time")
		}
	})
}

func TestC16_NoRefusalIsHeldUpForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := new(refusalPace)
		began := time.Now()
		var group sync.WaitGroup
		for range 20_000 {
			group.Go(func() { r.wait(t.Context()) })
		}
		group.Wait()
		if took := time.Since(began); took != longestHold {
			t.Errorf("the last of 20,000 went out after %s, want %s", took, longestHold)
		}
		// Nor is one for a caller who is gone.
		ctx, cancel := context.WithCancel(t.Context())
		for range 100 {
			group.Go(func() { r.wait(ctx) })
		}
		synctest.Wait()
		began = time.Now()
		cancel()
		group.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("held up for %s for callers who are gone", took)
		}
	})
}
