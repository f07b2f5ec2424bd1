package main

import (
	"strings"
	"testing"
	"time"
)

func TestLedger_BalancesOnlyIfEveryItemEndedOnce(t *testing.T) {
	t.Parallel()
	start := time.Now()
	tests := []struct {
		name string
		do   func(l *ledger)
		want string
	}{
		{"all ended", func(l *ledger) {
			l.attempt("a", start, false)
			l.attempt("a", start.Add(2*time.Second), true)
			l.close("b", fateBuried)
		}, ""},
		{"one has no end", func(l *ledger) { l.attempt("a", start, true) }, "1 of 2 items are not accounted for: b"},
		{"refused is no end", func(l *ledger) {
			l.close("b", fatePulled)
			l.attempt("a", start, false)
		}, "not accounted for: a"},
		{"one came again after its end", func(l *ledger) {
			l.attempt("a", start, true)
			l.attempt("a", start, true)
			l.close("b", fatePulled)
		}, "a ended twice"},
		{"one that nobody produced", func(l *ledger) {
			l.attempt("a", start, true)
			l.close("b", fatePulled)
			l.attempt("c", start, true)
		}, `"c"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLedger()
			l.open("a", start)
			l.open("b", start)
			tt.do(l)
			s := l.sum()
			err := s.err()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestLedger_Summary(t *testing.T) {
	t.Parallel()
	start := time.Now()
	l := newLedger()
	for _, name := range []string{"quick", "slow", "pulled", "bad"} {
		l.open(name, start)
	}
	if took := l.attempt("quick", start.Add(time.Millisecond), true); took != time.Millisecond {
		t.Errorf("took %s, want 1ms", took)
	}
	l.attempt("slow", start, false)
	l.attempt("slow", start.Add(time.Second), true)
	l.close("pulled", fatePulled)
	l.close("bad", fateBuried)
	s := l.sum()
	if s.produced != 4 || s.delivered != 2 || s.retried != 1 || s.pulled != 1 || s.buried != 1 {
		t.Errorf("got %+v", s)
	}
	if percentile(s.first, 99) != time.Millisecond || percentile(s.all, 99) != time.Second {
		t.Errorf("got first %v, all %v; want the retried in the second alone", s.first, s.all)
	}
}

func TestPercentile_NearestRank(t *testing.T) {
	t.Parallel()
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, tt := range []struct {
		sorted []time.Duration
		p      int
		want   time.Duration
	}{
		{nil, 50, 0},
		{hundred[:1], 99, 1},
		{hundred[:2], 50, 1},
		{hundred[:3], 50, 2},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
	} {
		if got := percentile(tt.sorted, tt.p); got != tt.want {
			t.Errorf("p%d of %d: got %d, want %d", tt.p, len(tt.sorted), got, tt.want)
		}
	}
}

// Were most attempts refused, the breaker would open and the demonstration stand still.
func TestDemoEndpoint_RefusesLessThanHalf(t *testing.T) {
	t.Parallel()
	refused, all := 0, 0
	for i := range demoOrders + demoPoison {
		name := "order-" + twoDigits(i+1)
		if i >= demoOrders {
			name = "poison-" + twoDigits(i-demoOrders+1)
		}
		for attempt := 1; attempt <= demoAttempts; attempt++ {
			all++
			if demoStatus(name, attempt) == 200 {
				break
			}
			refused++
		}
	}
	if refused == 0 || 2*refused >= all {
		t.Errorf("%d of %d attempts are refused, want some, and less than half", refused, all)
	}
}

func twoDigits(n int) string { return string([]byte{byte('0' + n/10), byte('0' + n%10)}) }
