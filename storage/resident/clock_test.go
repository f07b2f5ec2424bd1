package resident

import (
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func TestD05_ClockNeverRunsBackwards(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name string
		// steps are how the wall moves between readings, want how the stamp does.
		steps, want []time.Duration
	}{
		{"it follows the wall", []time.Duration{time.Second, time.Minute}, []time.Duration{time.Second, time.Minute}},
		{"a step back stands still and goes on", []time.Duration{-time.Hour, time.Second, time.Second}, []time.Duration{0, time.Second, time.Second}},
		{"two steps back", []time.Duration{-time.Hour, time.Second, -time.Hour, time.Second}, []time.Duration{0, time.Second, 0, time.Second}},
		{"a step forward is taken", []time.Duration{time.Hour}, []time.Duration{time.Hour}},
		{"the wall catches up", []time.Duration{-time.Second, time.Minute}, []time.Duration{0, time.Minute}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now := at
			c := newClock(func() time.Time { return now }, 0)
			last := c.stamp()
			for i, step := range tt.steps {
				now = now.Add(step)
				got := c.stamp()
				if d := time.Duration(got-last) * time.Microsecond; d != tt.want[i] {
					t.Errorf("step %d: the stamp moved by %v, want %v", i, d, tt.want[i])
				}
				last = got
			}
		})
	}
}

func TestD05_ClockGoesOnAboveWhatWasGivenOutBefore(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	floor := at.Add(time.Hour).UnixMicro()
	c := newClock(func() time.Time { return at }, floor)
	if got := c.stamp(); got != floor {
		t.Errorf("got %v, want the floor %v", instant(got), instant(floor))
	}
	at = at.Add(time.Second)
	if got, want := c.stamp(), floor+1_000_000; got != want {
		t.Errorf("a second later: got %v, want %v", instant(got), instant(want))
	}
}

func TestD05_StepBackOfTheWallGivesNoSecondLease(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s, _ := setup(t, Options{Volatile: true, Now: func() time.Time { return now }})
	fill(t, s, 1, nil)
	if got := len(lease(t, s, 1)); got != 1 {
		t.Fatalf("leased %d, want 1", got)
	}
	for _, step := range []time.Duration{-2 * time.Hour, 30 * time.Second, 29 * time.Second} {
		now = now.Add(step)
		if got := len(lease(t, s, 1)); got != 0 {
			t.Errorf("after a step of %v the item was leased again", step)
		}
	}
	now = now.Add(2 * time.Second)
	again := lease(t, s, 1)
	if len(again) != 1 {
		t.Fatalf("61 s after the lease it did not lapse: time stands still")
	}
	if got := again[0].Deliveries; got != 2 {
		t.Errorf("deliveries: got %d, want 2", got)
	}
}

func TestD05_StepForwardOfTheWallEndsNoLiveLease(t *testing.T) {
	t.Parallel()
	s, _ := setup(t, Options{Volatile: true})
	wall, elapsed := s.clock.last, time.Duration(0)
	pass := func(d time.Duration) { wall, elapsed = wall+d.Microseconds(), elapsed+d }
	s.clock.read = func() (int64, time.Duration) { return wall, elapsed }
	s.clock.anchor, s.clock.elapsed = 0, 0
	s.clock.base = wall
	fill(t, s, 2, nil)
	first := lease(t, s, 1)
	pass(20 * time.Second)
	wall += time.Hour.Microseconds()
	again := lease(t, s, 2)
	if len(again) != 1 || again[0].ID == first[0].ID {
		t.Fatalf("after a step of an hour: got %d items, want the one that nobody holds", len(again))
	}
	pass(39 * time.Second)
	if got := lease(t, s, 2); len(got) != 0 {
		t.Errorf("a minute was not over: got %d items, want none", len(got))
	}
	pass(2 * time.Second)
	if got := lease(t, s, 2); len(got) != 1 || got[0].ID != first[0].ID {
		t.Errorf("61 s after the lease: got %d items, want the lapsed one", len(got))
	}
}

func TestC15_StepForwardOfTheWallMakesDueWhatIsDue(t *testing.T) {
	t.Parallel()
	s, _ := setup(t, Options{Volatile: true})
	wall, elapsed := s.clock.last, time.Duration(0)
	s.clock.read = func() (int64, time.Duration) { return wall, elapsed }
	s.clock.anchor, s.clock.elapsed, s.clock.base = 0, 0, wall
	fill(t, s, 1, func(it *queue.NewItem) { it.Delay = 30 * time.Minute })
	if got := len(lease(t, s, 1)); got != 0 {
		t.Fatalf("leased %d before it is due", got)
	}
	wall += time.Hour.Microseconds()
	if got := len(lease(t, s, 1)); got != 1 {
		t.Errorf("after the machine slept an hour: got %d items, want the one that fell due", got)
	}
}

func TestDueTime_SoonAndPastMeanNow(t *testing.T) {
	t.Parallel()
	now := int64(1_000_000_000)
	tests := []struct {
		at    time.Time
		delay time.Duration
		want  int64
	}{
		{time.Time{}, 0, now},
		{time.Time{}, queue.Soon - time.Microsecond, now},
		{time.Time{}, queue.Soon, now + 100_000},
		{instant(now - 1), time.Hour, now},
		{instant(now + 200_000), time.Hour, now + 200_000},
		{time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), 0, 253402214400000000},
	}
	for _, tt := range tests {
		if got := dueTime(tt.at, tt.delay, now); got != tt.want {
			t.Errorf("due at %v, delay %v: got %d, want %d", tt.at, tt.delay, got, tt.want)
		}
	}
}
