package dispatcher

import (
	"math"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/subscriptions"
)

func TestC01_JitterStaysBetweenATenthAndTheStep(t *testing.T) {
	t.Parallel()
	p := subscriptions.DefaultPolicy()
	step := float64(p.MinBackoff)
	for n := int32(1); n <= 10_000; n++ {
		want := min(step, float64(p.MaxBackoff))
		for _, rnd := range []float64{0, 0.25, 0.999999} {
			got := float64(backoff(&p, n, rnd))
			if got < want/10-1 || got > want {
				t.Fatalf("retry %d, random %v: %v, want %v to %v", n, rnd, time.Duration(got), time.Duration(want/10), time.Duration(want))
			}
		}
		step = min(step*p.Multiplier, math.MaxFloat64/200)
	}
}

func TestC01_JitterSpreads(t *testing.T) {
	t.Parallel()
	p := subscriptions.DefaultPolicy()
	low, high := backoff(&p, 12, 0), backoff(&p, 12, 1-1e-9)
	if low != p.MaxBackoff/10 || high < p.MaxBackoff-time.Second {
		t.Errorf("from %v to %v", low, high)
	}
}

func TestC01_BackoffNeverOverflows(t *testing.T) {
	t.Parallel()
	const month = 30 * 24 * time.Hour
	for _, p := range []subscriptions.Policy{
		{MinBackoff: month, MaxBackoff: month, Multiplier: 100},
		{MinBackoff: time.Millisecond, MaxBackoff: month, Multiplier: 100},
		{MinBackoff: time.Millisecond, MaxBackoff: time.Millisecond, Multiplier: 1},
		{Schedule: []time.Duration{month}},
		{Schedule: []time.Duration{0}},
	} {
		for _, n := range []int32{math.MinInt32, 0, 1, 2, 10_000, math.MaxInt32} {
			for _, rnd := range []float64{0, 1 - 1e-9} {
				if got := backoff(&p, n, rnd); got < 0 || got > month*12/10 {
					t.Errorf("%+v, retry %d: %v", p, n, got)
				}
			}
		}
	}
}

func TestBackoff_ScheduleRepeatsItsLastStep(t *testing.T) {
	t.Parallel()
	p := subscriptions.Policy{Schedule: []time.Duration{0, 10 * time.Second, time.Minute}}
	for n, want := range map[int32]time.Duration{1: 0, 2: 10 * time.Second, 3: time.Minute, 4: time.Minute, 10_000: time.Minute} {
		if got := backoff(&p, n, 0.5); got != want {
			t.Errorf("retry %d: %v, want %v", n, got, want)
		}
		if low, high := backoff(&p, n, 0), backoff(&p, n, 1-1e-9); low < want*8/10-1 || high > want*12/10 {
			t.Errorf("retry %d: %v to %v, want %v within a fifth", n, low, high, want)
		}
	}
}
