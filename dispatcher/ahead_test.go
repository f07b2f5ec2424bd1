package dispatcher

import (
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func TestAhead_TargetIsWhatEndsDuringALease(t *testing.T) {
	t.Parallel()
	const window = 16
	tests := map[string]struct {
		lease, push time.Duration
		want        int
	}{
		"endpoint as quick as the store": {time.Millisecond, time.Millisecond, 16},
		"endpoint quicker":               {3 * time.Millisecond, time.Millisecond, 48},
		"endpoint much quicker":          {time.Second, time.Millisecond, aheadWindows * window},
		"endpoint four times slower":     {time.Millisecond, 4 * time.Millisecond, 4},
		"endpoint slow":                  {time.Millisecond, 20 * time.Millisecond, 0},
		"endpoint very slow":             {time.Minute, time.Hour, 0},
		"store slow":                     {time.Minute, time.Second, 2}, // not for a minute
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var a ahead
			a.pushTook(tt.push, true)
			if n := a.shortfall(window); n != 0 {
				t.Errorf("%d ahead before a lease was seen", n)
			}
			a.leaseTook(window, window, tt.lease)
			if n := a.target(window); n != tt.want {
				t.Errorf("target %d, want %d", n, tt.want)
			}
			if n := a.shortfall(window); n != 2*tt.want {
				t.Errorf("asks for %d, want twice the target", n)
			}
			a.leaseTook(window, window-1, 0)
			if n := a.shortfall(window); n != 0 {
				t.Errorf("%d ahead of a queue that ran dry", n)
			}
		})
	}
}

func TestAhead_NothingBeforeTheEndpointHasDelivered(t *testing.T) {
	t.Parallel()
	var a ahead
	a.leaseTook(16, 16, time.Millisecond)
	if n := a.shortfall(16); n != 0 {
		t.Errorf("asks for %d before a request has ended", n)
	}
	a.pushTook(time.Microsecond, false)
	if n := a.shortfall(16); n != 0 {
		t.Errorf("asks for %d after a quick failure alone", n)
	}
	a.pushTook(time.Millisecond, true)
	a.pushTook(time.Microsecond, false)
	if n := a.target(16); n != 16 {
		t.Errorf("target %d, want 16: a quick failure does not make it quicker", n)
	}
	for range 50 {
		a.pushTook(time.Second, false)
	}
	if n := a.target(16); n != 0 {
		t.Errorf("target %d after many timeouts", n)
	}
}

func TestAhead_AsksWhenWhatIsLeftEndsMeanwhile(t *testing.T) {
	t.Parallel()
	var a ahead
	a.pushTook(time.Millisecond, true)
	a.leaseTook(16, 16, time.Millisecond)
	for range 17 {
		a.add(leased{})
	}
	if n := a.shortfall(16); n != 0 {
		t.Errorf("asks for %d with more than a target left", n)
	}
	a.next()
	if n := a.shortfall(16); n != 16 {
		t.Errorf("asks for %d, want it filled up to two targets", n)
	}
}

func TestAhead_ItemsLeaveInOrderOrTogether(t *testing.T) {
	t.Parallel()
	began := time.Now()
	a := ahead{backlog: true}
	var items [3]queue.Item
	for i := range items {
		a.add(leased{item: &items[i], received: began.Add(time.Duration(i) * time.Second)})
	}
	if it, ok := a.next(); !ok || it.item != &items[0] {
		t.Error("want the first")
	}
	at := began.Add(time.Second + aheadStay)
	if back := a.takeStale(at.Add(-1)); back != nil {
		t.Errorf("%d given back too early", len(back))
	}
	if back := a.takeStale(at); len(back) != 2 || back[0].item != &items[1] || a.backlog {
		t.Errorf("%d given back, want all, and no more asked for", len(back))
	}
	if _, ok := a.next(); ok || a.takeStale(at.Add(time.Hour)) != nil {
		t.Error("something is left")
	}
}
