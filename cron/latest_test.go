package cron_test

import (
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/cron"
)

func TestLatest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, spec, zone, after, until string
		clock                          cron.Clock
		want                           string // none if it is empty
	}{
		{name: "none", spec: "0 9 * * *", after: "2026-03-01T09:00:00Z", until: "2026-03-02T08:59:59.9Z"},
		{name: "the end counts", spec: "0 9 * * *", after: "2026-03-01T09:00:00Z", until: "2026-03-02T09:00:00Z", want: "2026-03-02T09:00:00Z"},
		{name: "the start does not", spec: "0 9 * * *", after: "2026-03-01T09:00:00Z", until: "2026-03-01T10:00:00Z"},
		{name: "one just after the start", spec: "0 9 * * *", after: "2026-03-01T08:59:59.9Z", until: "2026-03-02T08:00:00Z", want: "2026-03-01T09:00:00Z"},
		{name: "no time at all", spec: "* * * * * *", after: "2026-03-01T09:00:00Z", until: "2026-03-01T09:00:00Z"},
		{name: "backwards", spec: "* * * * * *", after: "2026-03-01T09:00:00Z", until: "2026-03-01T08:00:00Z"},
		{name: "within a second", spec: "* * * * * *", after: "2026-03-01T09:00:00.1Z", until: "2026-03-01T09:00:00.9Z"},
		{name: "the only one, far from the end", spec: "0 0 29 2 *", after: "2028-02-28T00:00:00Z", until: "2032-02-28T00:00:00Z", want: "2028-02-29T00:00:00Z"},
		{name: "many", spec: "* * * * * *", after: "1970-01-01T00:00:00Z", until: "2026-03-01T09:00:00.5Z", want: "2026-03-01T09:00:00Z"},
		{name: "many on one day in years", spec: "* * * 29 2 *", after: "2000-01-01T00:00:00Z", until: "2027-12-31T00:00:00Z", want: "2024-02-29T23:59:59Z"},
		{name: "since the zero time", spec: "0 0 1 1 *", after: "0001-01-01T00:00:00Z", until: "2026-03-01T00:00:00Z", want: "2026-01-01T00:00:00Z"},
		{name: "until the year 9999", spec: "0 0 1 1 *", after: "2026-01-01T00:00:00Z", until: "9999-12-31T00:00:00Z", want: "9999-01-01T00:00:00Z"},
		{name: "every", spec: "@every 90s", after: "2026-03-01T09:00:00Z", until: "2026-03-01T09:04:00Z", want: "2026-03-01T09:03:00Z"},
		{name: "every, before its anchor", spec: "@every 90s", after: "0001-01-01T00:00:00Z", until: "2025-12-31T23:59:59Z"},
		{name: "the anchor itself", spec: "@every 90s", after: "2025-12-31T23:59:59Z", until: "2026-01-01T00:00:00Z", want: "2026-01-01T00:00:00Z"},
		{
			name: "the first of two", spec: "30 1 * * *", zone: "America/New_York",
			after: "2026-10-31T12:00:00Z", until: "2026-11-01T12:00:00Z", want: "2026-11-01T05:30:00Z",
		},
		{
			name: "the second of two", spec: "30 1 * * *", zone: "America/New_York", clock: cron.Clock{Back: cron.Both},
			after: "2026-10-31T12:00:00Z", until: "2026-11-01T12:00:00Z", want: "2026-11-01T06:30:00Z",
		},
		{
			name: "skipped", spec: "30 2 * * *", zone: "America/New_York", clock: cron.Clock{Forward: cron.SkipForward},
			after: "2026-03-07T12:00:00Z", until: "2026-03-08T12:00:00Z",
		},
	} {
		clock := tt.clock
		clock.Zone, clock.Anchor = time.UTC, instant(t, "2026-01-01T00:00:00Z")
		if tt.zone != "" {
			clock.Zone = zone(t, tt.zone)
		}
		want := time.Time{}
		if tt.want != "" {
			want = instant(t, tt.want)
		}
		got, ok := parse(t, tt.spec).Latest(instant(t, tt.after), instant(t, tt.until), clock)
		if ok != (tt.want != "") || !got.At.Equal(want) {
			t.Errorf("%s: got %s, %t, want %s", tt.name, got.At, ok, tt.want)
		}
	}
}

// An anchor is not given in some calls, and then years lie between that do not fit into a
// duration.
func TestNext_EveryFromTheZeroTime(t *testing.T) {
	t.Parallel()
	spec := parse(t, "@every 24h")
	fire, ok := spec.Next(instant(t, "2026-03-01T09:00:00.5Z"), cron.Clock{Zone: time.UTC})
	if want := instant(t, "2026-03-02T00:00:00Z"); !ok || !fire.At.Equal(want) {
		t.Errorf("got %s, %t, want %s", fire.At, ok, want)
	}
}

func TestNext_TheZeroSpecNeverFires(t *testing.T) {
	t.Parallel()
	if fire, ok := (cron.Spec{}).Next(instant(t, "2026-03-01T09:00:00Z"), cron.Clock{Zone: zone(t, "Europe/London")}); ok {
		t.Errorf("it fires at %s", fire.At)
	}
}

func TestNext_NotesWhatIsOdd(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		spec, after string
		back        cron.Back
		want        string
	}{
		{spec: "30 2 * * *", after: "2026-03-07T12:00:00Z", want: "clocks go forward: runs at 03:00:00 instead of 02:30:00"},
		{spec: "*/20 2 * * *", after: "2026-03-07T12:00:00Z", want: "clocks go forward: runs at 03:00:00 instead of 02:00:00"},
		{spec: "30 3 * * *", after: "2026-03-07T12:00:00Z"},
		{spec: "30 1 * * *", after: "2026-10-31T12:00:00Z", want: "clocks go back: 01:30:00 comes twice, and this is the first"},
		{spec: "30 1 * * *", after: "2026-10-31T12:00:00Z", back: cron.Second, want: "clocks go back: 01:30:00 comes twice, and this is the second"},
		{spec: "30 * * * *", after: "2026-11-01T05:00:00Z"},
	} {
		fire, ok := parse(t, tt.spec).Next(instant(t, tt.after), cron.Clock{Zone: zone(t, "America/New_York"), Back: tt.back})
		if !ok || fire.Note != tt.want {
			t.Errorf("%s after %s: got %q, want %q", tt.spec, tt.after, fire.Note, tt.want)
		}
	}
}

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func BenchmarkNext(b *testing.B) {
	clock := cron.Clock{Zone: zone(b, "America/New_York")}
	from := instant(b, "2026-03-08T05:00:00Z")
	for _, text := range []string{"* * * * *", "30 2 * * *", "0 9 * * MON-FRI", "0 0 29 2 *", "0 0 29 2 */7", "@every 90s"} {
		b.Run(text, func(b *testing.B) {
			spec := parse(b, text)
			b.ReportAllocs()
			for b.Loop() {
				spec.Next(from, clock)
			}
		})
	}
}

func BenchmarkLatest(b *testing.B) {
	clock := cron.Clock{Zone: zone(b, "America/New_York")}
	until := instant(b, "2026-03-08T05:00:00Z")
	spec := parse(b, "* * * * * *")
	b.ReportAllocs()
	for b.Loop() {
		spec.Latest(until.AddDate(-1, 0, 0), until, clock)
	}
}
