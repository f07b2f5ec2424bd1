package schedules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/schedules"
)

// The store says what is due. A node that is behind fires what the store says, for its
// time; it neither waits for its own clock nor fires twice.
func TestC15_ANodeBehindFiresByTheStoresClock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("*/10 * * * *", schedules.Change{})
		r.Service = r.skewedNode(-time.Hour)
		for i := range 6 {
			pass(10 * time.Minute)
			for range 3 {
				if next := r.fire(); !next.After(time.Now()) {
					t.Fatalf("next at %v", next)
				}
			}
			if n := len(r.items()); n != i+1 {
				t.Fatalf("%d items after %d times", n, i+1)
			}
			if sched := r.sched(); !sched.LastFiredAt.Equal(time.Now()) || r.fired[i].Lag != 0 {
				t.Errorf("fired at %v, %v late; want %v, which is on time", sched.LastFiredAt, r.fired[i].Lag, time.Now())
			}
		}
		r.wantTimes(10*time.Minute, 20*time.Minute, 30*time.Minute, 40*time.Minute, 50*time.Minute, 60*time.Minute)
		r.wantCounts(0, 0)
	})
}

// Nothing is due by the clock of a node alone.
func TestC15_ANodeAheadFiresNothingEarly(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("* * * * * *", schedules.Change{})
		for _, ahead := range []time.Duration{time.Millisecond, time.Second, time.Hour} {
			r.Service = r.skewedNode(ahead)
			pass(time.Second - time.Microsecond)
			n := len(r.times())
			r.fire()
			if got := len(r.times()); got != n {
				t.Errorf("ahead by %v: %d items before their time", ahead, got-n)
			}
			pass(time.Microsecond)
			r.fire()
			r.fire()
		}
		r.wantTimes(time.Second, 2*time.Second, 3*time.Second)
	})
}

// Nodes whose clocks differ by two hours share the times among them, each once.
func TestC15_NodesWithOtherClocksFireOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("0 */3 * * *", schedules.Change{})
		nodes := []*schedules.Service{r.skewedNode(-time.Hour), r.skewedNode(time.Hour)}
		for range 24 {
			pass(time.Hour)
			for _, node := range nodes {
				if _, _, err := node.Fire(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		var want []time.Duration
		for i := range 8 {
			want = append(want, time.Duration(i+1)*3*time.Hour)
		}
		r.wantTimes(want...)
		r.wantCounts(0, 0)
	})
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

// What was missed is made up for by the policy, whatever a node takes the store's time for.
func TestC10_BacklogOfANodeThatIsBehindIsNotMadeUpForOneByOne(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("* * * * *", schedules.Change{Missed: missed(schedules.Missed{Policy: schedules.MissSkip})})
		r.Service = r.skewedNode(-8 * time.Hour)
		pass(8 * time.Hour)
		r.fire()
		r.wantTimes(8 * time.Hour)
		r.wantCounts(8*60-1, 0)
	})
}

// A hiccup of less than a minute drops nothing of what fires each second; a longer outage is
// one, and the policy says what becomes of it.
func TestC10_AHiccupDropsNothing(t *testing.T) {
	t.Parallel()
	for _, policy := range []schedules.MissedPolicy{schedules.MissLatest, schedules.MissSkip, schedules.MissAll} {
		inBubble(t, func(t *testing.T, r *rig) {
			r.create("* * * * * *", schedules.Change{Missed: missed(schedules.Missed{Policy: policy, Max: 1})})
			pass(3 * time.Second)
			r.fire()
			r.wantTimes(time.Second, 2*time.Second, 3*time.Second)
			pass(schedules.OnTime)
			r.fire()
			if n := len(r.times()); n != 63 {
				t.Errorf("policy %d: %d items, want one for each of 63 s", policy, n)
			}
			r.wantCounts(0, 0)
			pass(schedules.OnTime + 2*time.Second)
			r.fire()
			if sched := r.sched(); sched.MissedCount == 0 || len(r.times()) == 63+62 {
				t.Errorf("policy %d: an outage was made up for whole: %d items, %d missed", policy, len(r.times()), sched.MissedCount)
			}
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

// A time that was decided does not come again, whatever is changed, also by a node whose
// clock is behind.
func TestC08_ChangeRightAfterAFireFiresNothingTwice(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("* * * * *", schedules.Change{})
		pass(time.Minute)
		r.fire()
		r.Service = r.skewedNode(-time.Second)
		if sched := r.sched(); !sched.DecidedAt.Equal(sched.LastAt) {
			t.Fatalf("decided up to %s, fired for %s", sched.DecidedAt, sched.LastAt)
		}
		r.createQueue("elsewhere")
		if sched := r.update(schedules.Change{Cron: new("0-59 * * * *"), Queue: new("elsewhere")}); !sched.NominalAt.After(sched.DecidedAt) {
			t.Errorf("next at %s, want one after %s", sched.NominalAt, sched.DecidedAt)
		}
	})
}

// Of more than a call may have the newest are made up for.
func TestC10_WhatDoesNotFitIntoOneCallIsCutAndNotLost(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		item := queue.ProduceItem{Content: queue.Content{Payload: make([]byte, 200_000)}}
		r.create("* * * * *", schedules.Change{Item: &item, Missed: missed(schedules.Missed{Policy: schedules.MissAll, Max: 100})})
		pass(100 * time.Minute)
		r.fire()
		n := len(r.items())
		if sched := r.sched(); n < 10 || !sched.LastAt.Equal(sched.DecidedAt) {
			t.Errorf("%d items, the last for %s; want as many as fit, the newest among them", n, sched.LastAt)
		}
		r.wantCounts(int64(100-n), 0)
	})
}
