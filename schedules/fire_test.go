package schedules_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/schedules"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func TestService_FiresAtEachTime(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("*/20 * * * *", schedules.Change{})
		r.serve(time.Hour)
		r.wantTimes(20*time.Minute, 40*time.Minute, 60*time.Minute)
		r.wantCounts(0, 0)
		sched, items := r.sched(), r.items()
		last := newYear.Add(time.Hour)
		if !sched.LastAt.Equal(last) || !sched.LastFiredAt.Equal(last) || sched.LastItem != items[2].ID {
			t.Errorf("last %v at %v, item %v; want %v, and item %v", sched.LastAt, sched.LastFiredAt, sched.LastItem, last, items[2].ID)
		}
		for _, f := range r.fired {
			if f.Lag != 0 || f.Produced != 1 || f.Schedule != "sched" || f.Namespace != ns {
				t.Errorf("observed %+v", f)
			}
		}
	})
}

// Fire tells of the next time, that of what it has just fired too: whoever waits for it
// would else be late.
func TestService_FireTellsWhatIsNext(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		if next := r.fire(); !next.IsZero() {
			t.Errorf("without a schedule the next is at %v", next)
		}
		r.create("@every 1s", schedules.Change{})
		hourly := params("@hourly", schedules.Change{})
		hourly.Name = "hourly"
		if _, err := r.Create(t.Context(), hourly); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if next, want := r.fire(), newYear.Add(2*time.Second); !next.Equal(want) {
			t.Errorf("the next is at %v, want %v", next, want)
		}
	})
}

func TestC08_OfTwoNodesOneFires(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		const schedulesMade, minutes = 20, 30
		for i := range schedulesMade {
			p := params("* * * * *", schedules.Change{})
			p.Name = fmt.Sprint("sched-", i)
			if _, err := r.Create(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		nodes := []*schedules.Service{r.otherNode(), r.otherNode(), r.otherNode()}
		for range minutes {
			pass(time.Minute)
			// All have seen what is due before the first writes.
			open := r.store.Block(storagetest.PutDocument)
			var wg sync.WaitGroup
			for _, node := range nodes {
				wg.Go(func() {
					if _, _, err := node.Fire(t.Context()); err != nil {
						t.Errorf("fire: %v", err)
					}
				})
			}
			synctest.Wait()
			open()
			wg.Wait()
		}
		per := map[time.Time]int{}
		for _, at := range r.times() {
			per[at]++
		}
		if len(per) != minutes {
			t.Errorf("items for %d times, want %d", len(per), minutes)
		}
		for at, n := range per {
			if n != schedulesMade {
				t.Errorf("%d items for %v, want one for each of %d schedules", n, at, schedulesMade)
			}
		}
		produced := 0
		for _, f := range r.fired {
			produced += f.Produced
		}
		if produced != schedulesMade*minutes {
			t.Errorf("observed %d items, want %d", produced, schedulesMade*minutes)
		}
	})
}

func TestC09_WeeklyScheduleFiresUnderHourlyRestarts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("30 9 * * MON", schedules.Change{})
		for range 3 * 7 * 24 {
			r.Service = r.otherNode()
			r.serve(time.Hour)
		}
		const day = 24 * time.Hour
		first := 2*day + 9*time.Hour + 30*time.Minute
		r.wantTimes(first, first+7*day, first+14*day)
		r.wantCounts(0, 0)
	})
}

func TestC10_MissedFires(t *testing.T) {
	t.Parallel()
	every := func(n int) []time.Duration { // the newest n minutes of 101
		var all []time.Duration
		for i := 102 - n; i <= 101; i++ {
			all = append(all, time.Duration(i)*time.Minute)
		}
		return all
	}
	tests := []struct {
		name   string
		missed schedules.Missed
		late   time.Duration // after minute 101
		want   []time.Duration
	}{
		{"latest", schedules.Missed{}, 30 * time.Second, every(1)},
		{"latest within the grace", schedules.Missed{Grace: 2 * time.Minute}, 30 * time.Second, every(1)},
		{"skip takes the one that is on time", schedules.Missed{Policy: schedules.MissSkip}, 30 * time.Second, every(1)},
		{"all, up to ten by default", schedules.Missed{Policy: schedules.MissAll}, 30 * time.Second, every(10)},
		{"all, up to three", schedules.Missed{Policy: schedules.MissAll, Max: 3}, 30 * time.Second, every(3)},
		{"all, up to a hundred", schedules.Missed{Policy: schedules.MissAll, Max: 100}, 30 * time.Second, every(100)},
		{"all within the grace", schedules.Missed{Policy: schedules.MissAll, Max: 100, Grace: 5 * time.Minute}, 30 * time.Second, every(5)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, r *rig) {
				r.create("* * * * *", schedules.Change{Missed: missed(tt.missed)})
				pass(101*time.Minute + tt.late) // nobody runs
				r.fire()
				r.wantTimes(tt.want...)
				r.wantCounts(int64(101-len(tt.want)), 0)
				before := len(tt.want)
				r.serve(10 * time.Minute)
				if got := len(r.items()) - before; got != 10 {
					t.Errorf("%d items in the ten minutes after, want one each", got)
				}
			})
		})
	}
}

// What comes once a day is late by more than it may be.
func TestC10_LateFiresAreLetGo(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		missed schedules.Missed
		late   time.Duration
		items  int
	}{
		{"latest", schedules.Missed{}, 23 * time.Hour, 1},
		{"latest within the grace", schedules.Missed{Grace: time.Hour}, time.Hour, 1},
		{"latest beyond the grace", schedules.Missed{Grace: time.Hour}, time.Hour + time.Second, 0},
		{"a grace below what is on time", schedules.Missed{Grace: time.Second}, schedules.OnTime, 1},
		{"skip on time", schedules.Missed{Policy: schedules.MissSkip}, schedules.OnTime, 1},
		{"skip too late", schedules.Missed{Policy: schedules.MissSkip}, schedules.OnTime + time.Second, 0},
		{"all beyond the grace", schedules.Missed{Policy: schedules.MissAll, Grace: time.Hour}, 2 * time.Hour, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, r *rig) {
				r.create("@daily", schedules.Change{Missed: missed(tt.missed)})
				pass(24*time.Hour + tt.late)
				r.fire()
				if got := len(r.items()); got != tt.items {
					t.Errorf("%d items, want %d", got, tt.items)
				}
				r.wantCounts(int64(1-tt.items), 0)
				if sched, want := r.sched(), newYear.Add(48*time.Hour); !sched.FiresAt().Equal(want) {
					t.Errorf("next at %v, want %v", sched.FiresAt(), want)
				}
			})
		})
	}
}

// After a year of every second there is one catch-up, at once, and then the beat again.
func TestC10_AYearIsNoHurdle(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{"* * * * * *", "@every 1s", "* * * * *", "30 2 * * *"} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, r *rig) {
				for _, policy := range []schedules.MissedPolicy{schedules.MissLatest, schedules.MissSkip, schedules.MissAll} {
					p := params(expression, schedules.Change{
						Zone: new("America/New_York"), Missed: missed(schedules.Missed{Policy: policy, Max: schedules.MaxMissed}),
					})
					p.Name = fmt.Sprint("policy-", int(policy))
					if _, err := r.Create(t.Context(), p); err != nil {
						t.Fatal(err)
					}
				}
				pass(366 * 24 * time.Hour)
				began := time.Now()
				next := r.fire()
				if next.IsZero() || !next.After(began) {
					t.Errorf("next at %v, want a time after %v", next, began)
				}
				const onTime = 61 // seconds of the last minute, which skip takes
				if n := len(r.items()); n < 1+schedules.MaxMissed || n > 1+onTime+schedules.MaxMissed {
					t.Errorf("%d items, want one of latest, at most %d of skip, and %d of all", n, onTime, schedules.MaxMissed)
				}
				before := len(r.items())
				pass(time.Until(next))
				r.fire()
				if got := len(r.items()) - before; got != 3 {
					t.Errorf("%d items at the next time, want one of each schedule", got)
				}
			})
		})
	}
}

// C-08: whoever does not know whether it fired tries again, and nothing is made twice.
func TestC08_AFireOfUnknownOutcomeIsRepeated(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		fail func(*storagetest.Faulty)
	}{
		{"it took effect", func(f *storagetest.Faulty) { f.FailAfter(storagetest.PutDocument, 1, queue.ErrUnknownOutcome) }},
		{"it did not", func(f *storagetest.Faulty) { f.FailBefore(storagetest.PutDocument, 1, queue.ErrUnknownOutcome) }},
		{"the store is down", func(f *storagetest.Faulty) { f.FailBefore(storagetest.PutDocument, 1, queue.ErrUnavailable) }},
		{"nothing can be read", func(f *storagetest.Faulty) { f.FailBefore(storagetest.DueDocuments, 1, queue.ErrUnavailable) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, r *rig) {
				r.create("* * * * *", schedules.Change{})
				pass(time.Minute)
				tt.fail(r.store)
				_, _, err := r.Fire(t.Context())
				if !errors.Is(err, queue.ErrUnknownOutcome) && !errors.Is(err, queue.ErrUnavailable) {
					t.Errorf("got %v, want what the store answered", err)
				}
				for range 3 {
					r.fire()
				}
				r.wantTimes(time.Minute)
				r.wantCounts(0, 0)
			})
		})
	}
}

// One that cannot fire keeps no other from it.
func TestService_AnErrorOfOneIsNoneOfOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		for i := range 10 {
			p := params("* * * * *", schedules.Change{})
			p.Name = fmt.Sprint("sched-", i)
			if _, err := r.Create(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Minute)
		r.store.FailBefore(storagetest.PutDocument, 3, queue.ErrUnavailable)
		r.fire()
		if n := len(r.items()); n != 10 {
			t.Errorf("%d items, want those of nine, and of the one when it was tried again", n)
		}
		if !strings.Contains(r.log.String(), "fired=9") || !strings.Contains(r.log.String(), queue.ErrUnavailable.Error()) {
			t.Errorf("logged %s, want the error of the one", r.log.String())
		}
	})
}

// unreadable are documents of schedules that this release cannot fire.
func (r *rig) unreadable() []storage.Document {
	r.t.Helper()
	var docs []storage.Document
	for name, value := range map[string]string{
		"cut": "{", "strange-zone": `{"name":"strange-zone","zone":"Moon/Base","cron":"* * * * *"}`,
		"newer-policy": `{"name":"newer-policy","zone":"UTC","cron":"* * * * *","overlap":9}`,
	} {
		doc := storage.Document{DocumentKey: storage.DocumentKey{Kind: "schedule", Namespace: ns, Name: name}, WakeAt: newYear, Value: []byte("\x01" + value)}
		var err error
		if doc.Revision, err = r.store.Put(r.t.Context(), doc); err != nil {
			r.t.Fatal(err)
		}
		docs = append(docs, doc)
	}
	return docs
}

// What a node cannot read stands before all others, by its time, and holds none of them up. It
// is not touched: another node may be able to.
func TestC13_WhatCannotBeReadIsLetBe(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		docs := r.unreadable()
		r.create("* * * * *", schedules.Change{})
		pass(time.Minute)
		for range 10 {
			if next, _, err := r.Fire(t.Context()); err == nil && !next.Equal(time.Now().Add(time.Minute)) {
				t.Errorf("next at %v", next)
			}
		}
		r.wantTimes(time.Minute)
		for _, doc := range docs {
			if n := strings.Count(r.log.String(), "schedule "+doc.Name+":"); n == 0 || n > 2 {
				t.Errorf("%s is told of %d times in ten looks: %s", doc.Name, n, r.log.String())
			}
			got, err := r.store.Get(t.Context(), doc.DocumentKey)
			if err != nil || got.Revision != doc.Revision || !got.WakeAt.Equal(doc.WakeAt) {
				t.Errorf("got %+v, %v, want %+v", got, err, doc)
			}
		}
		if overdue, err := r.Overdue(t.Context()); err != nil || overdue != time.Minute {
			t.Errorf("overdue by %v, %v; want a minute", overdue, err)
		}
		pass(time.Minute)
		if _, _, err := r.Fire(t.Context()); err != nil {
			t.Errorf("got %v, want the others to fire", err)
		}
		r.wantTimes(time.Minute, 2*time.Minute)
	})
}

// What cannot be read is listed with the reason, and can be deleted.
func TestC13_WhatCannotBeReadIsListedAndDeleted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("* * * * *", schedules.Change{})
		docs := r.unreadable()
		all, err := r.List(t.Context(), ns, "", 10)
		if err != nil || len(all) != 4 {
			t.Fatalf("listed %+v, %v, want four", all, err)
		}
		reasons := 0
		for i := range all {
			if all[i].LastError != "" {
				reasons++
			}
		}
		if reasons != 2 { // a zone is only looked up when it fires
			t.Errorf("%d of them have a reason: %+v", reasons, all)
		}
		for _, doc := range docs {
			if err := r.Delete(t.Context(), ns, doc.Name); err != nil {
				t.Errorf("delete %s: %v", doc.Name, err)
			}
		}
		if all, err := r.List(t.Context(), ns, "", 10); err != nil || len(all) != 1 || all[0].Name != "sched" {
			t.Errorf("listed %+v, %v, want the good one", all, err)
		}
	})
}

// Fires of a schedule are no change of it: who has read it may change it.
func TestService_AFireKeepsTheRevision(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		made := r.create("* * * * * *", schedules.Change{})
		r.serve(time.Minute)
		p := schedules.UpdateParams{Namespace: ns, Name: "sched", Revision: made.Revision, Change: schedules.Change{Jitter: new(time.Second)}}
		changed, err := r.Update(t.Context(), p)
		if err != nil || changed.Revision <= made.Revision {
			t.Fatalf("got %+v, %v, want another revision", changed, err)
		}
		_, err = r.Update(t.Context(), p)
		r.wantError(err, queue.ErrRevision)
		if err := r.Delete(t.Context(), ns, "sched"); err != nil {
			t.Fatal(err)
		}
		pass(time.Microsecond)
		r.create("* * * * * *", schedules.Change{}) // which is another one, though it has the name
		p.Revision = changed.Revision
		_, err = r.Update(t.Context(), p)
		r.wantError(err, queue.ErrRevision)
	})
}
