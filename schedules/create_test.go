package schedules_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/cron"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/schedules"
)

func TestService_CreateTakesDefaultsAndPlans(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		pass(90 * time.Second)
		made := r.create("*/5 * * * *", schedules.Change{})
		if made.Zone != "UTC" || made.Missed != (schedules.Missed{Max: schedules.DefaultMissedMax}) || made.Overlap != schedules.OverlapAllow || made.ID == "" {
			t.Errorf("made %+v, want the defaults", made)
		}
		if want := newYear.Add(5 * time.Minute); !made.NominalAt.Equal(want) || !made.FiresAt().Equal(want) {
			t.Errorf("fires at %v, want %v", made.FiresAt(), want)
		}
		if got := r.sched(); got.ID != made.ID || got.Revision != made.Revision || got.Revision == 0 {
			t.Errorf("read %+v, want what was made", got)
		}
		_, err := r.Create(t.Context(), params("* * * * *", schedules.Change{}))
		r.wantError(err, queue.ErrExists)
	})
}

// I-03: whoever sends a fault is told where it is.
func TestI03_CreateNamesTheFieldAtFault(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	zone := func(name string) schedules.CreateParams {
		return params("* * * * *", schedules.Change{Zone: &name})
	}
	change := func(c schedules.Change) schedules.CreateParams { return params("* * * * *", c) }
	item := func(it queue.ProduceItem) schedules.CreateParams { return change(schedules.Change{Item: &it}) }
	many := map[string]string{}
	for i := range 65 {
		many[strings.Repeat("x", i+1)] = "x"
	}
	unnamed := change(schedules.Change{})
	unnamed.Name = ""
	spelled := change(schedules.Change{})
	spelled.Name = "a b"
	timeless, queueless := change(schedules.Change{}), change(schedules.Change{})
	timeless.Cron, queueless.Queue = nil, nil
	tests := []struct {
		name  string
		p     schedules.CreateParams
		field string
	}{
		{"no name", unnamed, "name"},
		{"a name with a space", spelled, "name"},
		{"no expression", timeless, "cron"},
		{"no queue", queueless, "queue_name"},
		{"an empty expression", params("", schedules.Change{}), "cron"},
		{"an expression of three fields", params("* * *", schedules.Change{}), "cron"},
		{"a minute that is none", params("61 * * * *", schedules.Change{}), "cron"},
		{"a day that never comes", params("0 0 30 2 *", schedules.Change{}), "cron"},
		{"a zone in the expression", params("TZ=UTC * * * * *", schedules.Change{}), "cron"},
		{"every no time", params("@every 0s", schedules.Change{}), "cron"},
		{"no zone", zone(""), "zone"},
		{"the machine's zone", zone("Local"), "zone"},
		{"the machine's zone in small", zone("local"), "zone"},
		{"a zone outside of the database", zone("../../etc/passwd"), "zone"},
		{"a zone that is a path", zone("/etc/localtime"), "zone"},
		{"a zone with a backslash", zone(`Europe\Berlin`), "zone"},
		{"a zone with a NUL", zone("Europe/\x00"), "zone"},
		{"a zone that is not there", zone("Europe/Atlantis"), "zone"},
		{"a zone that is too long", zone(long), "zone"},
		{"an empty queue name", change(schedules.Change{Queue: new("")}), "queue_name"},
		{"a negative jitter", change(schedules.Change{Jitter: new(-time.Second)}), "jitter"},
		{"an empty part of a zone", zone("Europe//Berlin"), "zone"},
		{"a zone from here", zone("Europe/./Berlin"), "zone"},
		{"a zone with leap seconds", zone("right/Europe/Berlin"), "zone"},
		{"a zone of another tree", zone("posix/Europe/Berlin"), "zone"},
		{"the rules of POSIX", zone("posixrules"), "zone"},
		{"a jitter of less than a second", change(schedules.Change{Jitter: new(500 * time.Millisecond)}), "jitter"},
		{"a start after all times", change(schedules.Change{StartAt: new(time.Date(9999, 12, 31, 23, 59, 30, 0, time.UTC))}), "start_at"},
		{"a jitter of over a day", change(schedules.Change{Jitter: new(24*time.Hour + 1)}), "jitter"},
		{"too many to make up for", change(schedules.Change{Missed: missed(schedules.Missed{Max: 101})}), "missed.max"},
		{"less than none to make up for", change(schedules.Change{Missed: missed(schedules.Missed{Max: -1})}), "missed.max"},
		{"a negative grace", change(schedules.Change{Missed: missed(schedules.Missed{Grace: -1})}), "missed.grace"},
		{"a grace of over a year", change(schedules.Change{Missed: missed(schedules.Missed{Grace: 367 * 24 * time.Hour})}), "missed.grace"},
		{"an end at the start", change(schedules.Change{StartAt: &newYear, EndAt: &newYear}), "end_at"},
		{"too many labels", change(schedules.Change{Labels: many}), "labels"},
		{"a label without a name", change(schedules.Change{Labels: map[string]string{"": "x"}}), "labels"},
		{"a label that is too long", change(schedules.Change{Labels: map[string]string{"x": long}}), "labels"},
		{"a delay", item(queue.ProduceItem{Delay: time.Second}), "item"},
		{"a due time", item(queue.ProduceItem{DueAt: newYear}), "item"},
		{"an idempotency key", item(queue.ProduceItem{IdempotencyKey: "x"}), "item"},
		{"a reference that is too long", item(queue.ProduceItem{Content: queue.Content{Reference: long}}), "item.reference"},
		{"a reference that grows too long", item(queue.ProduceItem{Content: queue.Content{Reference: strings.Repeat("{{nominal_at}}", 18)}}), "item.reference"},
	}
	inBubble(t, func(t *testing.T, r *rig) {
		for _, tt := range tests {
			_, err := r.Create(t.Context(), tt.p)
			if invalid, ok := errors.AsType[*queue.InvalidError](err); !ok || invalid.Field != tt.field || invalid.Reason == "" {
				t.Errorf("%s: got %v, want the field %s", tt.name, err, tt.field)
			}
		}
		if left, err := r.List(t.Context(), ns, "", 10); err != nil || len(left) > 0 {
			t.Errorf("kept %v, %v; want nothing", left, err)
		}
	})
}

func TestService_CreateWantsItsQueueAndRoom(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		_, err := r.Create(t.Context(), params("* * * * *", schedules.Change{Queue: new("missing")}))
		r.wantError(err, queue.ErrNotFound)
		large := queue.ProduceItem{Content: queue.Content{Payload: make([]byte, 900_000)}}
		_, err = r.Create(t.Context(), params("* * * * *", schedules.Change{Item: &large}))
		if tooLarge, ok := errors.AsType[*queue.TooLargeError](err); !ok || tooLarge.Field != "item" {
			t.Errorf("got %v, want that the item is too large", err)
		}
	})
}

func TestService_ListGoesThroughTheNames(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		for _, name := range []string{"c", "a", "b"} {
			p := params("@hourly", schedules.Change{})
			p.Name = name
			if _, err := r.Create(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		var names []string
		for after := ""; ; after = names[len(names)-1] {
			page, err := r.List(t.Context(), ns, after, 2)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range page {
				names = append(names, s.Name)
			}
			if len(page) < 2 {
				break
			}
		}
		if got := strings.Join(names, " "); got != "a b c" {
			t.Errorf("listed %q", got)
		}
	})
}

func TestService_PreviewTellsOfTheClocks(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		p := schedules.PreviewParams{
			Namespace: ns, Count: 3, From: time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC),
			Change: schedules.Change{Cron: new("30 2 * * *"), Zone: new("America/New_York")},
		}
		fires, err := r.Preview(t.Context(), p)
		if err != nil || len(fires) != 3 {
			t.Fatalf("got %v, %v", fires, err)
		}
		for i, want := range []string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00", "2026-03-10T02:30:00-04:00"} {
			if got := fires[i].At.Format(time.RFC3339); got != want || (fires[i].Note != "") != (i == 0) {
				t.Errorf("fire %d: %s %q, want %s, and a note with the first", i, got, fires[i].Note, want)
			}
		}
		p.Forward = new(cron.SkipForward)
		fires, err = r.Preview(t.Context(), p)
		if err != nil || fires[0].At.Day() != 9 || fires[0].Note != "none on 2026-03-08, when clocks go forward over it" || fires[1].Note != "" {
			t.Errorf("got %v, %v, want to begin on the 9th, and why", fires, err)
		}
		for _, count := range []int{0, schedules.MaxPreview + 1} {
			p.Count = count
			_, err := r.Preview(t.Context(), p)
			if invalid, ok := errors.AsType[*queue.InvalidError](err); !ok || invalid.Field != "count" {
				t.Errorf("count %d: %v", count, err)
			}
		}
		_, err = r.Preview(t.Context(), schedules.PreviewParams{Namespace: ns, Count: 1})
		if invalid, ok := errors.AsType[*queue.InvalidError](err); !ok || invalid.Field != "cron" {
			t.Errorf("without a name and an expression: %v", err)
		}
	})
}

// What is kept is previewed with its start and end, and without its jitter.
func TestService_PreviewOfWhatIsKept(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		start, end := newYear.Add(2*time.Hour), newYear.Add(4*time.Hour)
		r.create("@hourly", schedules.Change{StartAt: &start, EndAt: &end, Jitter: new(time.Hour)})
		fires, err := r.Preview(t.Context(), schedules.PreviewParams{Namespace: ns, Name: "sched", Count: 5})
		if err != nil || len(fires) != 2 || !fires[0].At.Equal(start) || !fires[1].At.Equal(start.Add(time.Hour)) {
			t.Errorf("got %v, %v, want 02:00 and 03:00", fires, err)
		}
		_, err = r.Preview(t.Context(), schedules.PreviewParams{Namespace: ns, Name: "other", Count: 5})
		r.wantError(err, queue.ErrNotFound)
	})
}

// The distances of @every begin at a start, which is a time, or at the creation, which is none;
// the preview of one that is kept says so as well.
func TestService_EveryBeginsWhereItSays(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		start := newYear.Add(time.Hour)
		for _, tt := range []struct {
			start *time.Time
			want  time.Time
		}{{nil, newYear.Add(90 * time.Second)}, {&start, start}} {
			made := r.create("@every 90s", schedules.Change{StartAt: tt.start})
			fires, err := r.Preview(t.Context(), schedules.PreviewParams{Namespace: ns, Name: "sched", Count: 2, From: newYear.Add(-time.Hour)})
			if err != nil || !made.NominalAt.Equal(tt.want) || !fires[0].At.Equal(tt.want) || !fires[1].At.Equal(tt.want.Add(90*time.Second)) {
				t.Errorf("next at %v, preview %v, %v; want %v first", made.NominalAt, fires, err, tt.want)
			}
			if err := r.Delete(t.Context(), ns, "sched"); err != nil {
				t.Fatal(err)
			}
		}
	})
}
