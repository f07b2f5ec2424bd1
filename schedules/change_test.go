package schedules_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/schedules"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func TestService_UpdateKeepsWhatItDoesNotName(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		made := r.create("@every 90s", schedules.Change{
			Zone: new("Europe/Berlin"), Missed: missed(schedules.Missed{Policy: schedules.MissAll, Max: 7, Grace: time.Hour}),
			Overlap: new(schedules.OverlapSkip), Jitter: new(time.Minute), Labels: map[string]string{"team": "north"},
		})
		pass(time.Minute)
		got := r.update(schedules.Change{Item: &queue.ProduceItem{Content: queue.Content{Kind: "new"}}})
		want := made
		want.Item = queue.ProduceItem{Content: queue.Content{Kind: "new"}}
		if got.ID != want.ID || got.Cron != want.Cron || got.Zone != want.Zone || got.Queue != want.Queue || got.Item.Kind != "new" ||
			got.Item.Reference != "" || got.Missed != want.Missed || got.Overlap != want.Overlap || got.Jitter != want.Jitter ||
			!maps.Equal(got.Labels, want.Labels) || !got.CreatedAt.Equal(want.CreatedAt) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		// From a minute on it would have been another one.
		if !got.NominalAt.Equal(made.NominalAt) {
			t.Errorf("the next time moved from %v to %v", made.NominalAt, got.NominalAt)
		}
		if got.Revision <= made.Revision || !got.UpdatedAt.Equal(newYear.Add(time.Minute)) {
			t.Errorf("revision %d at %v", got.Revision, got.UpdatedAt)
		}
	})
}

func TestService_UpdateOfTheTimesPlansAnew(t *testing.T) {
	t.Parallel()
	start := newYear.Add(12 * time.Hour)
	end := newYear.Add(90 * time.Minute)
	tests := []struct {
		name   string
		change schedules.Change
		want   time.Time
	}{
		{"expression", schedules.Change{Cron: new("30 * * * *")}, newYear.Add(2*time.Hour + 30*time.Minute)},
		{"zone", schedules.Change{Zone: new("Asia/Tokyo")}, newYear.Add(16*time.Hour + 30*time.Minute)},
		{"start", schedules.Change{StartAt: &start}, newYear.Add(25*time.Hour + 30*time.Minute)},
		{"end", schedules.Change{EndAt: &end}, time.Time{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, r *rig) {
				r.create("30 1 * * *", schedules.Change{})
				pass(2 * time.Hour) // 01:30 is due, and nobody has fired it: the update does
				if got := r.update(tt.change); !got.NominalAt.Equal(tt.want) {
					t.Errorf("next at %v, want %v", got.NominalAt, tt.want)
				}
				r.fire()
				r.wantTimes(90 * time.Minute)
			})
		})
	}
}

func TestService_UpdateWithAnOldRevisionIsRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		made := r.create("* * * * *", schedules.Change{})
		p := schedules.UpdateParams{Namespace: ns, Name: "sched", Revision: made.Revision, Change: schedules.Change{Jitter: new(time.Second)}}
		if _, err := r.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		_, err := r.Update(t.Context(), p)
		r.wantError(err, queue.ErrRevision)
		p.Revision, p.Name = 0, "other"
		_, err = r.Update(t.Context(), p)
		r.wantError(err, queue.ErrNotFound)
	})
}

// A fire is a change, too: it must cost no update and no pause.
func TestService_ChangesAndFiresDoNotLoseEachOther(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("* * * * *", schedules.Change{})
		pass(time.Minute)
		open := r.store.Block(storagetest.PutDocument)
		changed := make(chan error, 1)
		go func() {
			_, err := r.Update(t.Context(), schedules.UpdateParams{Namespace: ns, Name: "sched", Change: schedules.Change{Labels: map[string]string{"a": "b"}}})
			changed <- err
		}()
		fired := make(chan error, 1)
		go func() {
			_, _, err := r.Fire(t.Context())
			fired <- err
		}()
		if err := r.store.AwaitCalls(t.Context(), storagetest.PutDocument, r.store.Calls(storagetest.PutDocument)+2); err != nil {
			t.Fatal(err)
		}
		open()
		if err := <-changed; err != nil {
			t.Errorf("update: %v", err)
		}
		if err := <-fired; err != nil {
			t.Errorf("fire: %v", err)
		}
		r.fire()
		r.wantTimes(time.Minute)
		if got := r.sched(); got.Labels["a"] != "b" || !got.LastAt.Equal(newYear.Add(time.Minute)) {
			t.Errorf("got %+v, want the label and the fire", got)
		}
	})
}

func TestService_PauseSurvivesAndIsNotMadeUpFor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("*/10 * * * *", schedules.Change{Missed: missed(schedules.Missed{Policy: schedules.MissAll, Max: 100})})
		r.serve(10 * time.Minute)
		for range 2 { // the second changes nothing
			sched, err := r.Pause(t.Context(), ns, "sched")
			if err != nil || !sched.Paused || !sched.FiresAt().IsZero() {
				t.Fatalf("paused %+v, %v", sched, err)
			}
		}
		r.Service = r.otherNode()
		r.serve(time.Hour)
		r.update(schedules.Change{Cron: new("*/20 * * * *")})
		r.serve(time.Hour)
		r.wantTimes(10 * time.Minute)
		pass(5 * time.Minute)
		for range 2 {
			sched, err := r.Resume(t.Context(), ns, "sched")
			if want := newYear.Add(140 * time.Minute); err != nil || sched.Paused || !sched.FiresAt().Equal(want) {
				t.Fatalf("resumed %+v, %v; want to fire at %v", sched, err, want)
			}
		}
		r.serve(10 * time.Minute)
		r.wantTimes(10*time.Minute, 140*time.Minute)
		r.wantCounts(0, 0)
		_, err := r.Pause(t.Context(), ns, "other")
		r.wantError(err, queue.ErrNotFound)
		_, err = r.Resume(t.Context(), ns, "other")
		r.wantError(err, queue.ErrNotFound)
	})
}

func TestService_CreatedPausedDoesNotFire(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		p := params("* * * * *", schedules.Change{})
		p.Paused = true
		if _, err := r.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		r.serve(time.Hour)
		r.wantTimes()
	})
}

var errRefused = errors.New("refused")

func TestService_TriggerIsBesideTheTimes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		p := params("@hourly", schedules.Change{})
		p.Paused = true
		before, err := r.Create(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		pass(90 * time.Second)
		for i := range 2 { // each is another item
			made, err := r.Trigger(t.Context(), schedules.TriggerParams{Namespace: ns, Name: "sched"})
			if err != nil {
				t.Fatal(err)
			}
			if items := r.items(); len(items) != i+1 || items[i].ID != made.ID || items[i].Reference != "2000-01-01T00:01:30Z" {
				t.Errorf("items %+v, want %v, for now", items, made.ID)
			}
		}
		var first queue.Produced
		for i := range 2 { // of one key there is one, though the item tells another time
			pass(time.Second)
			made, err := r.Trigger(t.Context(), schedules.TriggerParams{Namespace: ns, Name: "sched", Key: "once"})
			if err != nil || len(r.items()) != 3 || made.Duplicate != (i == 1) || i == 1 && made.ID != first.ID {
				t.Errorf("trigger %d with a key: %+v, %v", i, made, err)
			}
			first = made
		}
		refused := func(q string) error { return fmt.Errorf("%s: %w", q, errRefused) }
		_, err = r.Trigger(t.Context(), schedules.TriggerParams{Namespace: ns, Name: "sched", Allow: refused})
		if !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "orders") {
			t.Errorf("trigger without a right to its queue: %v", err)
		}
		if len(r.items()) != 3 {
			t.Errorf("%d items, want none of what was refused", len(r.items()))
		}
		if got := r.sched(); got.Revision != before.Revision {
			t.Error("a trigger changed the schedule")
		}
		_, err = r.Trigger(t.Context(), schedules.TriggerParams{Namespace: ns, Name: "other"})
		r.wantError(err, queue.ErrNotFound)
	})
}

func TestService_DeletedIsGoneAndItsItemsStay(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		first := r.create("* * * * *", schedules.Change{})
		r.serve(time.Minute)
		pass(time.Minute)
		if err := r.Delete(t.Context(), ns, "sched"); err != nil {
			t.Fatal(err)
		}
		r.serve(2 * time.Minute)
		r.wantTimes(time.Minute)
		r.wantError(r.Delete(t.Context(), ns, "sched"), queue.ErrNotFound)
		// One of the same name is another one.
		if again := r.create("* * * * *", schedules.Change{}); again.ID == first.ID || again.MissedCount != 0 || !again.LastAt.IsZero() {
			t.Errorf("made %+v, want a fresh one", again)
		}
	})
}

func TestService_ItemSaysItsTimes(t *testing.T) {
	t.Parallel()
	const all = "{{schedule}} {{nominal_at}} {{fired_at}} {{other}} {{ schedule }}"
	inBubble(t, func(t *testing.T, r *rig) {
		item := queue.ProduceItem{
			Content: queue.Content{
				Kind: "{{schedule}}", Encoding: "text/plain", Reference: "{{schedule}}/{{nominal_at}}",
				Headers: map[string]string{"X-All": all, "X-None": "none"}, Payload: []byte(all),
			},
			MaxAttempts: 3, ExpireTTL: time.Hour,
		}
		made := r.create("* * * * *", schedules.Change{Item: &item})
		pass(61500 * time.Millisecond)
		r.fire()
		it := r.items()[0]
		want := "sched 2000-01-01T00:01:00Z 2000-01-01T00:01:01.500000Z {{other}} {{ schedule }}"
		if it.Reference != "sched/2000-01-01T00:01:00Z" || string(it.Payload) != want || it.Headers["X-All"] != want || it.Headers["X-None"] != "none" {
			t.Errorf("got %+v, want what stands for times replaced", it.Content)
		}
		if it.Kind != "{{schedule}}" || it.Encoding != "text/plain" || it.MaxAttempts != 3 || !it.ExpiresAt.Equal(it.FirstDueAt.Add(time.Hour)) {
			t.Errorf("got %+v, want the rest as it was given", it)
		}
		// What is kept is what was given.
		if got := r.sched(); string(got.Item.Payload) != all || made.Item.Headers["X-All"] != all {
			t.Errorf("kept %+v", got.Item)
		}
	})
}

func TestService_BinaryIsNotTouched(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		payload := "\xff\x00{{nominal_at}}\xfe"
		r.create("* * * * *", schedules.Change{Item: &queue.ProduceItem{Content: queue.Content{Payload: []byte(payload)}}})
		r.serve(time.Minute)
		if got := string(r.items()[0].Payload); got != payload {
			t.Errorf("got %q, want %q", got, payload)
		}
	})
}
