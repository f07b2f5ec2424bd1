package webhooks

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestMemoryHistory_ForgetsTheOldestBeyondItsSize(t *testing.T) {
	t.Parallel()
	h, until := NewMemoryHistory(3), time.Now().Add(time.Hour)
	for i := range 3 {
		remember(t, h, fmt.Sprint(i), until)
	}
	remember(t, h, "0", until) // renewed, so 1 is the oldest
	remember(t, h, "3", until)
	for id, want := range map[string]bool{"0": true, "1": false, "2": true, "3": true, "4": false} {
		if got := seen(t, h, id); got != want {
			t.Errorf("%s: got %t, want %t", id, got, want)
		}
	}
	if got := h.order.Len(); got != 3 {
		t.Errorf("keeps %d, want 3", got)
	}
}

func TestMemoryHistory_ForgetsWhatIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := NewMemoryHistory(0)
		remember(t, h, "a", time.Now().Add(time.Minute))
		time.Sleep(time.Minute - time.Second) // of the bubble
		if !seen(t, h, "a") {
			t.Error("forgotten too early")
		}
		time.Sleep(time.Second)
		if seen(t, h, "a") {
			t.Error("known when its time is over")
		}
		remember(t, h, "b", time.Now().Add(time.Minute))
		if got := h.order.Len(); got != 1 {
			t.Errorf("keeps %d, want b alone", got)
		}
		remember(t, h, "c", time.Now()) // not worth keeping, and no reason to fail
		if seen(t, h, "c") {
			t.Error("knows what was over from the start")
		}
	})
}

func remember(t *testing.T, h History, id string, until time.Time) {
	t.Helper()
	if err := h.Remember(t.Context(), id, until); err != nil {
		t.Errorf("remember %s: %v", id, err)
	}
}

func seen(t *testing.T, h History, id string) bool {
	t.Helper()
	got, err := h.Seen(t.Context(), id)
	if err != nil {
		t.Errorf("seen %s: %v", id, err)
	}
	return got
}
