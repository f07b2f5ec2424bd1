package schedules_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/schedules"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// The store says what time it is, and what is due. A node whose clock is another fires no
// earlier and no later, and plans no other times.
func TestC15_FiresByTheStoresClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{-time.Hour, -time.Millisecond, time.Millisecond, time.Hour} {
		inBubbleAhead(t, ahead, func(t *testing.T, r *rig) {
			now := func() time.Time { return time.Now().Add(ahead) }
			made := r.create("* * * * * *", schedules.Change{})
			if want := now().Truncate(time.Second).Add(time.Second); !made.NominalAt.Equal(want) {
				t.Errorf("the first is at %v, want %v", made.NominalAt, want)
			}
			pass(time.Until(made.NominalAt.Add(-ahead)) - time.Microsecond)
			for range 6 {
				before := len(r.times())
				r.fire()
				if got := len(r.times()); got != before {
					t.Errorf("%d items before their time", got-before)
				}
				pass(time.Microsecond)
				for range 3 {
					r.fire()
				}
				if got := len(r.times()); got != before+1 {
					t.Errorf("%d items, want one", got-before)
				}
				if sched := r.sched(); !sched.LastFiredAt.Equal(now()) || !sched.LastAt.Equal(now()) || r.fired[before].Lag != 0 {
					t.Errorf("fired at %v for %v, %v late; want %v", sched.LastFiredAt, sched.LastAt, r.fired[before].Lag, now())
				}
				changed := r.update(schedules.Change{Zone: new("UTC")})
				if want := now().Add(time.Second); !changed.NominalAt.Equal(want) {
					t.Errorf("after a change the next is at %v, want %v", changed.NominalAt, want)
				}
				pass(time.Second - time.Microsecond)
			}
			r.wantCounts(0, 0)
		})
	}
}

func TestService_JitterMovesAllFiresAlike(t *testing.T) {
	t.Parallel()
	const jitter = 10 * time.Minute
	inBubble(t, func(t *testing.T, r *rig) {
		moved := map[time.Duration]bool{}
		for i := range 50 {
			p := params("@hourly", schedules.Change{Jitter: new(jitter)})
			p.Name = string(rune('A'+i/26)) + string(rune('a'+i%26))
			made, err := r.Create(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			by := made.FiresAt().Sub(made.NominalAt)
			if by < 0 || by > jitter || by%time.Second != 0 {
				t.Errorf("moved by %v, want whole seconds up to %v", by, jitter)
			}
			if read, err := r.Get(t.Context(), ns, p.Name); err != nil || !read.FiresAt().Equal(made.FiresAt()) {
				t.Errorf("read %v, %v, want %v again", read.FiresAt(), err, made.FiresAt())
			}
			moved[by] = true
		}
		if len(moved) < 30 {
			t.Errorf("50 schedules fire at %d times, want them spread", len(moved))
		}
	})
	inBubble(t, func(t *testing.T, r *rig) {
		made := r.create("@hourly", schedules.Change{Jitter: new(jitter)})
		by := made.FiresAt().Sub(made.NominalAt)
		r.serve(3*time.Hour + by)
		r.wantTimes(time.Hour, 2*time.Hour, 3*time.Hour) // items are for the times of the expression
		for i, it := range r.items() {
			if want := newYear.Add(time.Duration(i+1)*time.Hour + by); !it.CreatedAt.Equal(want) {
				t.Errorf("fired at %v, want %v", it.CreatedAt, want)
			}
		}
		r.wantCounts(0, 0)
		for _, f := range r.fired {
			if f.Lag != 0 {
				t.Errorf("%v late by its own jitter", f.Lag)
			}
		}
	})
}

func TestService_FiresFromItsStartToItsEnd(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		expression string
		start, end time.Duration
		want       []time.Duration
	}{
		{"both at a time", "*/10 * * * *", 20 * time.Minute, 50 * time.Minute, []time.Duration{20 * time.Minute, 30 * time.Minute, 40 * time.Minute}},
		{
			"both between two seconds", "* * * * * *", time.Minute + 500*time.Millisecond, time.Minute + 3500*time.Millisecond,
			[]time.Duration{61 * time.Second, 62 * time.Second, 63 * time.Second},
		},
		{"every from the start on", "@every 7m", 10 * time.Minute, 25 * time.Minute, []time.Duration{10 * time.Minute, 17 * time.Minute, 24 * time.Minute}},
	}
	for _, tt := range tests {
		for _, served := range []bool{true, false} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(t *testing.T, r *rig) {
					start, end := newYear.Add(tt.start), newYear.Add(tt.end)
					r.create(tt.expression, schedules.Change{
						StartAt: &start, EndAt: &end, Missed: missed(schedules.Missed{Policy: schedules.MissAll, Max: 100}),
					})
					if served {
						r.serve(2 * time.Hour)
					} else {
						pass(2 * time.Hour)
					}
					if next := r.fire(); !next.IsZero() {
						t.Errorf("over, but next at %v", next)
					}
					r.wantTimes(tt.want...)
					r.wantCounts(0, 0)
					if sched := r.sched(); !sched.FiresAt().IsZero() {
						t.Errorf("over, but fires at %v", sched.FiresAt())
					}
				})
			})
		}
	}
}

// An end that is moved brings a schedule that was over back.
func TestService_AnEndMayBeMoved(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		end := newYear.Add(time.Hour)
		r.create("*/30 * * * *", schedules.Change{EndAt: &end})
		r.serve(3 * time.Hour)
		r.wantTimes(30 * time.Minute)
		r.update(schedules.Change{EndAt: &time.Time{}})
		r.serve(time.Hour)
		r.wantTimes(30*time.Minute, 210*time.Minute, 240*time.Minute)
		r.wantCounts(0, 0)
	})
}

// The item is produced for a queue that is there, whatever became of it meanwhile.
func TestService_AQueueThatIsGoneIsWaitedFor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("* * * * *", schedules.Change{})
		r.serve(2 * time.Minute)
		if err := r.broker.DeleteQueue(t.Context(), ns, "orders", true); err != nil {
			t.Fatal(err)
		}
		r.serve(5 * time.Minute)
		r.wantCounts(5, 0)
		if r.sched().LastAt.Equal(newYear.Add(7*time.Minute)) || r.log.Len() == 0 {
			t.Error("nobody is told that nothing was produced")
		}
		if text := r.sched().LastError; !strings.Contains(text, "orders") {
			t.Errorf("the last error is %q, want one that names the queue", text)
		}
		r.orders = r.createQueue("orders")
		r.serve(2 * time.Minute)
		r.wantTimes(8*time.Minute, 9*time.Minute)
		r.wantCounts(5, 0)
		if text := r.sched().LastError; text != "" {
			t.Errorf("mended, and the last error is still %q", text)
		}
	})
}

// The pause of a queue is for its producers, and what they are refused later is lost to
// them; a schedule has nobody who would try again.
func TestService_APausedQueueTakesItems(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("* * * * *", schedules.Change{})
		if _, err := r.broker.Pause(t.Context(), ns, "orders", queue.PausedProduce); err != nil {
			t.Fatal(err)
		}
		r.serve(2 * time.Minute)
		r.wantTimes(time.Minute, 2*time.Minute)
	})
}

// A hiccup of less than a minute drops nothing of what fires each second; a longer outage is
// one, and the policy says what becomes of it.
func TestC10_AHiccupDropsNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		missed schedules.Missed
		after  int // an outage of 62 s
	}{
		{"latest", schedules.Missed{}, 1},
		{"skip", schedules.Missed{Policy: schedules.MissSkip}, 61}, // those that are at most a minute late
		{"all", schedules.Missed{Policy: schedules.MissAll, Max: 7}, 7},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, r *rig) {
				r.create("* * * * * *", schedules.Change{Missed: missed(tt.missed)})
				pass(3 * time.Second)
				r.fire()
				r.wantTimes(time.Second, 2*time.Second, 3*time.Second)
				pass(schedules.OnTime)
				r.fire()
				if n := len(r.times()); n != 63 {
					t.Errorf("%d items, want one for each of 63 s", n)
				}
				r.wantCounts(0, 0)
				pass(schedules.OnTime + 2*time.Second)
				r.fire()
				if n := len(r.times()) - 63; n != tt.after {
					t.Errorf("%d items of 62 s in which nobody fired, want %d", n, tt.after)
				}
				r.wantCounts(int64(62-tt.after), 0)
			})
		})
	}
}

// What is past and fires later, by the jitter, outlives a pause and other changes.
func TestService_JitteredFireThatIsStillToComeOutlivesChanges(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		change := schedules.Change{Jitter: new(11 * time.Hour)}
		made := r.create("0 12 * * *", change)
		for made.FiresAt().Sub(made.NominalAt) < time.Minute { // by its id, which is random
			if err := r.Delete(t.Context(), made.Namespace, made.Name); err != nil {
				t.Fatal(err)
			}
			made = r.create("0 12 * * *", change)
		}
		shift := made.FiresAt().Sub(made.NominalAt)
		pass(12*time.Hour + shift/2)
		if _, err := r.Pause(t.Context(), made.Namespace, made.Name); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Resume(t.Context(), made.Namespace, made.Name); err != nil {
			t.Fatal(err)
		}
		r.update(schedules.Change{Zone: new("Etc/UTC")})
		pass(shift)
		r.fire()
		r.wantTimes(12 * time.Hour)
	})
}

// A time that was decided does not come again, whatever is changed.
func TestC08_ChangeRightAfterAFireFiresNothingTwice(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("* * * * *", schedules.Change{})
		pass(time.Minute)
		r.fire()
		if sched := r.sched(); !sched.DecidedAt.Equal(sched.LastAt) {
			t.Fatalf("decided up to %s, fired for %s", sched.DecidedAt, sched.LastAt)
		}
		r.createQueue("elsewhere")
		if sched := r.update(schedules.Change{Cron: new("0-59 * * * *"), Queue: new("elsewhere")}); !sched.NominalAt.After(sched.DecidedAt) {
			t.Errorf("next at %s, want one after %s", sched.NominalAt, sched.DecidedAt)
		}
	})
}

// Of more than a call may have, the rest is written by calls of its own.
func TestC10_WhatDoesNotFitIntoOneCallIsNotLost(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		item := queue.ProduceItem{Content: queue.Content{Reference: "{{nominal_at}}", Payload: make([]byte, 200_000)}}
		r.create("* * * * *", schedules.Change{Item: &item, Missed: missed(schedules.Missed{Policy: schedules.MissAll, Max: 100})})
		pass(100 * time.Minute)
		r.fire()
		var want []time.Duration
		for i := range 100 {
			want = append(want, time.Duration(i+1)*time.Minute)
		}
		r.wantTimes(want...)
		r.wantCounts(0, 0)
		if len(r.fired) < 4 || r.fired[0].Lag < 10*time.Minute {
			t.Errorf("%d writes, the first %v late; want several, and the oldest first", len(r.fired), r.fired[0].Lag)
		}
	})
}

// A change drops nothing that was due and did not fire yet, also where it comes each time in
// between.
func TestC08_AChangeDropsNothingThatIsDue(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*rig){
		"another zone": func(r *rig) { r.update(schedules.Change{Zone: new("Etc/UTC")}) },
		"another start": func(r *rig) {
			r.update(schedules.Change{StartAt: new(time.Now().Add(-time.Hour))})
		},
		"a pause": func(r *rig) {
			for _, change := range []func(context.Context, queue.Namespace, string) (schedules.Schedule, error){r.Pause, r.Resume} {
				if _, err := change(r.t.Context(), ns, "sched"); err != nil {
					r.t.Error(err)
				}
			}
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, r *rig) {
				r.create("* * * * * *", schedules.Change{})
				var want []time.Duration
				for i := range 20 {
					pass(time.Second)
					change(r)
					want = append(want, time.Duration(i+1)*time.Second)
				}
				r.wantTimes(want...)
				r.wantCounts(0, 0)
			})
		})
	}
}

// While a schedule cannot fire, no change drops what is due; a pause has to work all the
// same, and counts it.
func TestC08_AChangeWaitsForWhatIsDue(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("* * * * *", schedules.Change{Missed: missed(schedules.Missed{Policy: schedules.MissAll})})
		pass(3 * time.Minute)
		r.store.FailBefore(storagetest.PutDocument, 1, queue.ErrDiskFull)
		_, err := r.Update(t.Context(), schedules.UpdateParams{Namespace: ns, Name: "sched", Change: schedules.Change{Zone: new("Etc/UTC")}})
		r.wantError(err, queue.ErrDiskFull)
		r.store.FailBefore(storagetest.PutDocument, 1, queue.ErrDiskFull)
		if _, err := r.Pause(t.Context(), ns, "sched"); err != nil {
			t.Fatal(err)
		}
		if sched := r.sched(); sched.MissedCount != 3 || !strings.Contains(sched.LastError, queue.ErrDiskFull.Error()) {
			t.Errorf("missed %d, %q; want the three, and why", sched.MissedCount, sched.LastError)
		}
		r.wantTimes()
	})
}

// What the store does not take in one write is written by several, and what it never takes is
// let go.
func TestC10_WhatTheStoreDoesNotTakeHoldsNothingUp(t *testing.T) {
	t.Parallel()
	tooLarge := &queue.TooLargeError{Field: "items", Limit: 6_000_000, Unit: "bytes"}
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("* * * * *", schedules.Change{Missed: missed(schedules.Missed{Policy: schedules.MissAll})})
		pass(10 * time.Minute)
		r.store.FailBefore(storagetest.PutDocument, 1, tooLarge)
		r.fire()
		if n := len(r.items()); n != 10 || len(r.fired) != 2 {
			t.Errorf("%d items by %d writes, want all by two", n, len(r.fired))
		}
		pass(time.Minute)
		r.store.FailBefore(storagetest.PutDocument, 1, tooLarge)
		r.fire()
		if n := len(r.items()); n != 10 || !strings.Contains(r.sched().LastError, "over the limit") {
			t.Errorf("%d items, %q; want no more, and the reason", n, r.sched().LastError)
		}
		pass(time.Minute)
		r.fire()
		if n := len(r.items()); n != 11 || r.sched().LastError != "" {
			t.Errorf("%d items, %q; want it to go on", n, r.sched().LastError)
		}
		r.wantCounts(1, 0)
	})
}
