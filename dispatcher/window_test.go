package dispatcher

import (
	"testing"
	"time"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fill has a full window of requests go well.
func (w *window) fill(most int, now time.Time) {
	n := w.limit(most, now)
	for range n {
		w.grow(n, most, now)
	}
}

func TestWindow_DoublesUntilItMeetsALimit(t *testing.T) {
	t.Parallel()
	w := newWindow()
	for _, want := range []int{8, 16, 32, 32} {
		w.fill(32, began)
		if got := w.limit(32, began); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
}

func TestWindow_GrowsOnlyWhileItIsUsed(t *testing.T) {
	t.Parallel()
	w := newWindow()
	for range 1000 {
		w.grow(firstWindow/2, 32, began)
	}
	if got := w.limit(32, began); got != firstWindow {
		t.Errorf("got %d, want %d as before", got, firstWindow)
	}
}

func TestWindow_IsHalvedOnceForAllThatRan(t *testing.T) {
	t.Parallel()
	w := newWindow()
	for range 3 {
		w.fill(32, began)
	}
	now := began.Add(time.Second)
	for range 32 { // they began together and meet the limit together
		w.shrink(began, 32, now)
	}
	if got := w.limit(32, now); got != 16 {
		t.Errorf("got %d, want half", got)
	}
	w.shrink(now.Add(time.Second), 32, now.Add(2*time.Second))
	if got := w.limit(32, now.Add(2*time.Second)); got != 8 {
		t.Errorf("after another one: got %d, want a quarter", got)
	}
	for i := range 100 {
		at := now.Add(time.Duration(i+3) * time.Second)
		w.shrink(at, 32, at)
	}
	if got := w.limit(32, now); got != 1 {
		t.Errorf("in the end: got %d, want 1", got)
	}
}

func TestWindow_GrowsSlowlyBeyondTheLimitThatItMet(t *testing.T) {
	t.Parallel()
	w := newWindow()
	for range 3 {
		w.fill(32, began)
	}
	w.shrink(began.Add(time.Second), 32, began.Add(2*time.Second))
	later := began.Add(time.Hour) // nothing of a ramp is left
	for range 4 {
		before := w.limit(32, later)
		w.fill(32, later)
		if got := w.limit(32, later); got < before || got > before+1 {
			t.Errorf("from %d to %d in one window, want one more at most", before, got)
		}
	}
}

func TestC01_AfterAnOutageTheWindowDoublesEveryTenSeconds(t *testing.T) {
	t.Parallel()
	w := newWindow()
	for range 3 {
		w.fill(32, began)
	}
	w.restart(began)
	for second := range 60 {
		now := began.Add(time.Duration(second) * time.Second)
		for range 10 {
			w.fill(32, now)
		}
		most := min(32, 1<<(second/10))
		if got := w.limit(32, now); got != most {
			t.Errorf("after %d s: got %d, want %d", second, got, most)
		}
	}
}

func TestWindow_NeverLeavesItsBounds(t *testing.T) {
	t.Parallel()
	w := newWindow()
	if got := w.limit(1, began); got != 1 {
		t.Errorf("of at most 1: got %d", got)
	}
	for range 5 {
		w.fill(32, began)
	}
	if got := w.limit(2, began); got != 2 { // max_in_flight was lowered
		t.Errorf("of at most 2: got %d", got)
	}
	if got := w.limit(32, began.Add(1000*time.Hour)); got != 32 {
		t.Errorf("much later: got %d, want 32", got)
	}
}
