package dispatcher

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// outcome reports one request that takes no time.
func (b *breaker) outcome(t *testing.T, h health) {
	t.Helper()
	report, ok := b.begin(time.Now())
	if !ok {
		t.Fatal("no request may start")
	}
	report(h)
}

func (b *breaker) isOpen() bool {
	n, _ := b.room(time.Now())
	return n == 0
}

func TestC04_BreakerOpensAfterTenInARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		for range 9 {
			b.outcome(t, ill)
			b.outcome(t, silent) // neither counts nor ends the row
		}
		b.outcome(t, well)
		for range 9 {
			b.outcome(t, ill)
		}
		if b.isOpen() {
			t.Fatal("open before ten in a row")
		}
		b.outcome(t, ill)
		if !b.isOpen() {
			t.Error("closed after ten in a row")
		}
	})
}

func TestC04_BreakerOpensAtHalfOfTwenty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		for i := range 19 {
			b.outcome(t, []health{ill, well}[i%2])
		}
		if b.isOpen() {
			t.Fatal("open before twenty")
		}
		b.outcome(t, ill)
		if !b.isOpen() {
			t.Error("closed although half of twenty failed")
		}
	})
}

func TestC04_BreakerForgetsAfterAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		for range 9 {
			b.outcome(t, ill)
		}
		<-time.After(71 * time.Second)
		b.outcome(t, ill)
		if b.isOpen() {
			t.Error("open for failures that are over a minute old")
		}
	})
}

// Requests that hang for longer than the window are what a breaker is for.
func TestC04_BreakerCountsRequestsWhenTheyEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		var reports []func(health)
		for range 10 {
			report, _ := b.begin(time.Now())
			reports = append(reports, report)
		}
		<-time.After(10 * time.Minute)
		for _, report := range reports {
			report(ill)
		}
		if !b.isOpen() {
			t.Error("closed after ten requests that hung")
		}
	})
}

func TestC04_ProbesDoubleUpToFiveMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		for range 10 {
			b.outcome(t, ill)
		}
		var waits []time.Duration
		for range 100 {
			n, until := b.room(time.Now())
			if n != 0 {
				t.Fatalf("room for %d while open", n)
			}
			waits = append(waits, time.Until(until))
			<-time.After(time.Until(until))
			if n, _ := b.room(time.Now()); n != 1 {
				t.Fatalf("room for %d probes, want 1", n)
			}
			b.outcome(t, ill)
		}
		s := time.Second
		if want := []time.Duration{10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 300 * s, 300 * s}; !slices.Equal(waits[:7], want) || waits[99] != 300*s {
			t.Errorf("waits %v, want %v", waits[:7], want)
		}
		_, until := b.room(time.Now())
		<-time.After(time.Until(until))
		b.outcome(t, silent)
		if n, _ := b.room(time.Now()); n != 1 {
			t.Errorf("room for %d after a probe that told nothing, want another one", n)
		}
		b.outcome(t, well)
		if n, _ := b.room(time.Now()); n != unlimitedRoom {
			t.Errorf("room for %d after a probe that went well", n)
		}
		for range 10 {
			b.outcome(t, ill)
		}
		if _, until := b.room(time.Now()); time.Until(until) != 10*s {
			t.Errorf("opens for %v the next time, want 10s again", time.Until(until))
		}
	})
}

func TestBreaker_ForgetsWhatBeganBeforeItOpened(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		late, _ := b.begin(time.Now())
		later, _ := b.begin(time.Now())
		for range 10 {
			b.outcome(t, ill)
		}
		late(well)
		if !b.isOpen() {
			t.Error("closed by a request that began before it opened")
		}
		if state, until := b.state(time.Now()); state != "open" || time.Until(until) != 10*time.Second {
			t.Errorf("state %s until %v", state, until)
		}
		<-time.After(10 * time.Second)
		if state, _ := b.state(time.Now()); state != "half-open" {
			t.Errorf("state %s", state)
		}
		later(ill) // is no probe
		if n, _ := b.room(time.Now()); n != 1 {
			t.Errorf("room for %d, want the probe", n)
		}
	})
}
