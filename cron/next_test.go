package cron_test

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/posthaste-io/posthaste/cron"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func parse(t testing.TB, text string) cron.Spec {
	t.Helper()
	s, err := cron.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

// Each line: what fires after an instant, in local time with its offset.
func TestC11_FiresAtChangesOfTheClocks(t *testing.T) {
	t.Parallel()
	const minute = "2006-01-02 15:04 -0700"
	for _, tt := range []struct {
		spec, zone, after string
		clock             cron.Clock
		want              string
	}{
		{spec: "30 2 * * *", zone: "America/New_York", after: "2026-03-07 12:00 -0500", want: "2026-03-08 03:00 -0400, 2026-03-09 02:30 -0400"},
		{spec: "30 2 * * *", zone: "America/New_York", after: "2026-03-07 12:00 -0500", clock: cron.Clock{Forward: cron.SkipForward}, want: "2026-03-09 02:30 -0400"},
		{spec: "30 1 * * *", zone: "America/New_York", after: "2026-10-31 12:00 -0400", want: "2026-11-01 01:30 -0400, 2026-11-02 01:30 -0500"},
		{spec: "30 1 * * *", zone: "America/New_York", after: "2026-10-31 12:00 -0400", clock: cron.Clock{Back: cron.Second}, want: "2026-11-01 01:30 -0500, 2026-11-02 01:30 -0500"},
		{spec: "30 1 * * *", zone: "America/New_York", after: "2026-10-31 12:00 -0400", clock: cron.Clock{Back: cron.Both}, want: "2026-11-01 01:30 -0400, 2026-11-01 01:30 -0500, 2026-11-02 01:30 -0500"},
		{spec: "0 * * * *", zone: "America/New_York", after: "2026-10-31 23:30 -0400", want: "2026-11-01 00:00 -0400, 2026-11-01 01:00 -0400, 2026-11-01 01:00 -0500, 2026-11-01 02:00 -0500"},
		{spec: "0 * * * *", zone: "America/New_York", after: "2026-03-08 00:30 -0500", want: "2026-03-08 01:00 -0500, 2026-03-08 03:00 -0400"},
		{spec: "0 1 * * 0", zone: "Europe/London", after: "2026-03-28 12:00 +0000", want: "2026-03-29 02:00 +0100, 2026-04-05 01:00 +0100"},
		{spec: "0 0 * * *", zone: "America/Sao_Paulo", after: "2018-11-02 12:00 -0300", want: "2018-11-03 00:00 -0300, 2018-11-04 01:00 -0200, 2018-11-05 00:00 -0200"},
		{spec: "15 0 * * *", zone: "Africa/Cairo", after: "2026-04-23 12:00 +0200", want: "2026-04-24 01:00 +0300, 2026-04-25 00:15 +0300"},
		{spec: "0 3 * * *", zone: "Australia/Lord_Howe", after: "2026-10-03 12:00 +1030", want: "2026-10-04 03:00 +1100"},
		{spec: "15 2 * * *", zone: "Australia/Lord_Howe", after: "2026-10-03 12:00 +1030", want: "2026-10-04 02:30 +1100, 2026-10-05 02:15 +1100"},
		{spec: "45 1 * * *", zone: "Australia/Lord_Howe", after: "2026-04-04 12:00 +1100", want: "2026-04-05 01:45 +1100, 2026-04-06 01:45 +1030"},
		{spec: "0 0 * * *", zone: "America/Santiago", after: "2026-09-05 12:00 -0400", want: "2026-09-06 01:00 -0300, 2026-09-07 00:00 -0300"},
		// Several times in the gap are one fire, and one that is there anyway is no second.
		{spec: "*/15 2 * * *", zone: "America/New_York", after: "2026-03-08 00:00 -0500", want: "2026-03-08 03:00 -0400, 2026-03-09 02:00 -0400"},
		{spec: "0 2,3 * * *", zone: "America/New_York", after: "2026-03-08 00:00 -0500", want: "2026-03-08 03:00 -0400, 2026-03-09 02:00 -0400"},
		// A day that did not exist.
		{spec: "0 9 * * *", zone: "Pacific/Apia", after: "2011-12-29 12:00 -1000", want: "2011-12-31 00:00 +1400, 2011-12-31 09:00 +1400"},
		// On the last day of a leap year after 2037 the library does not know when a zone changes next.
		{spec: "0 6,18 31 12 *", zone: "America/New_York", after: "2039-12-31 12:00 -0500", want: "2039-12-31 18:00 -0500, 2040-12-31 06:00 -0500, 2040-12-31 18:00 -0500, 2041-12-31 06:00 -0500"},
		{spec: "0 0 29 2 */7", zone: "Australia/Sydney", after: "2088-03-01 00:00 +1100", want: "2128-02-29 00:00 +1100"},
		{spec: "0 0 29 2 *", zone: "UTC", after: "2096-03-01 00:00 +0000", want: "2104-02-29 00:00 +0000"},
		{spec: "0 0 */2 * 1", zone: "UTC", after: "2026-01-01 12:00 +0000", want: "2026-01-05 00:00 +0000, 2026-01-19 00:00 +0000"},
		{spec: "0 0 13 * 5", zone: "UTC", after: "2026-01-01 12:00 +0000", want: "2026-01-02 00:00 +0000, 2026-01-09 00:00 +0000, 2026-01-13 00:00 +0000"},
		{spec: "0 0 * * FRI-MON", zone: "UTC", after: "2026-01-01 12:00 +0000", want: "2026-01-02 00:00 +0000, 2026-01-03 00:00 +0000, 2026-01-04 00:00 +0000, 2026-01-05 00:00 +0000, 2026-01-09 00:00 +0000"},
		{spec: "0 0 * * 7", zone: "UTC", after: "2026-01-01 12:00 +0000", want: "2026-01-04 00:00 +0000, 2026-01-11 00:00 +0000"},
		{spec: "0 22-2 * * *", zone: "UTC", after: "2026-01-01 21:00 +0000", want: "2026-01-01 22:00 +0000, 2026-01-01 23:00 +0000, 2026-01-02 00:00 +0000, 2026-01-02 01:00 +0000, 2026-01-02 02:00 +0000, 2026-01-02 22:00 +0000"},
	} {
		clock := tt.clock
		clock.Zone = zone(t, tt.zone)
		at, err := time.Parse(minute, tt.after)
		if err != nil {
			t.Fatal(err)
		}
		spec := parse(t, tt.spec)
		var got []string
		for range strings.Count(tt.want, ",") + 1 {
			fire, ok := spec.Next(at, clock)
			if !ok {
				break
			}
			at = fire.At
			got = append(got, at.Format(minute))
		}
		if text := strings.Join(got, ", "); text != tt.want {
			t.Errorf("%s in %s after %s:\ngot  %s\nwant %s", tt.spec, tt.zone, tt.after, text, tt.want)
		}
	}
}
