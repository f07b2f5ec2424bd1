package cron_test

import (
	"archive/zip"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/cron"
)

// Specs of each shape. Those of @every are whole minutes, as the walk takes.
var specs = []string{
	"* * * * *", "*/5 * * * *", "7-59/13 * * * *", "0 * * * *", "59 * * * *", "15,45 * * * MON-FRI",
	"30 * 1,15 * *", "0 0-23 * * *", "30 20-19 * * SUN", "@hourly",
	"0 0 * * *", "30 0 * * *", "59 23 * * *", "30 1 * * *", "45 1 * * *", "0 2 * * *", "15 2 * * *",
	"30 2 * * *", "0 3 * * *", "30 3 * * *", "*/15 2 * * *", "* 1 * * *", "0 */2 * * *", "0 1,2,3 * * *",
	"30 22-2 * * *", "20/20 0/3 * * *", "1 1-3 * * *", "0 9 * * MON-FRI", "0 1 * * 0", "30 2 * * 7", "0 0 * * FRI-MON",
	"0 0 13 * 5", "0 2 */2 * 1", "30 1 ? * SUN", "0 2 1-7 * */7", "0 0 31 * *", "0 0 29 2 *", "30 2 * 3,4,9-11 *",
	"0 12 1 1,7 *", "15 10 * NOV-FEB sat", "0 0 29 2 */7", "0 4 1-31/10 */3 *",
	"20 30 2 * * *", "*/20 0-30/10 1-3 * * *", "59 59 23 * * *", "0,30 */30 * * * 0", "5-10 0 0 * * *",
	"@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually", "@every 7m", "@every 36h",
}

// The years that are checked.
const (
	firstYear = 2024
	lastYear  = 2032
)

// variable chooses the zones: with all, those of Go's tz database whose clocks have changed
// since 2020, and all days for specs that do not fire often; that takes minutes. Otherwise
// some with odd changes. What is around changes is checked for all specs, and some other days.
const variable = "POSTHASTE_TEST_CRON"

// odd are zones that change at midnight, by half an hour, by two hours, around Ramadan; and one
// that stopped.
var odd = []string{
	"America/New_York", "Europe/London", "Australia/Lord_Howe", "Africa/Cairo", "Africa/Casablanca",
	"America/Santiago", "Antarctica/Troll", "Pacific/Apia",
}

// Next says the same as a walk through all minutes that looks at what the clock shows.
func TestC11_FiresAsAWalkThroughAllMinutesSays(t *testing.T) {
	t.Parallel()
	var zones []*time.Location
	all := os.Getenv(variable) == "all"
	if all {
		zones = changingZones(t)
	} else {
		for _, name := range odd {
			zones = append(zones, zone(t, name))
		}
	}
	if len(specs) < 40 {
		t.Errorf("%d specs are too few", len(specs))
	}
	for _, zone := range zones {
		t.Run(zone.String(), func(t *testing.T) {
			t.Parallel()
			o := newOracle(t, zone)
			for _, at := range changes(zone, firstYear, lastYear+1) {
				o.checkAround(t, at)
			}
			o.checkDays(t, 9)
			if all {
				o.checkYears(t)
			}
		})
	}
}

type oracle struct {
	zone   *time.Location
	rules  []*rules
	specs  []cron.Spec
	random *rand.Rand
}

func newOracle(t *testing.T, zone *time.Location) *oracle {
	t.Helper()
	seed := fnv.New64()
	io.WriteString(seed, zone.String())
	o := &oracle{zone: zone, random: rand.New(rand.NewPCG(seed.Sum64(), 0))}
	for _, text := range specs {
		o.specs = append(o.specs, parse(t, text))
		o.rules = append(o.rules, readRules(t, text))
	}
	return o
}

// checkAround checks all policies from hours before a change until a day after it.
func (o *oracle) checkAround(t *testing.T, at time.Time) {
	t.Helper()
	s := walk(t, o.zone, at.Add(-4*time.Hour), at.Add(26*time.Hour))
	for i := range o.specs {
		for _, forward := range []cron.Forward{cron.RunAfter, cron.SkipForward} {
			for _, back := range []cron.Back{cron.First, cron.Second, cron.Both} {
				o.check(t, s, i, forward, back)
			}
		}
	}
}

// checkDays checks as many days, by one policy each.
func (o *oracle) checkDays(t *testing.T, count int) {
	t.Helper()
	for range count {
		from := time.Date(firstYear, 1, 1+o.random.IntN(365*(lastYear-firstYear+1)), o.random.IntN(24), 0, 0, 0, time.UTC)
		s := walk(t, o.zone, from, from.AddDate(0, 0, 1))
		for i := range o.specs {
			o.check(t, s, i, cron.Forward(o.random.IntN(2)), cron.Back(o.random.IntN(3)))
		}
	}
}

// checkYears checks all years, by one policy, of specs that do not fire too often for that.
func (o *oracle) checkYears(t *testing.T) {
	t.Helper()
	s := walk(t, o.zone, time.Date(firstYear, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(lastYear+1, 1, 1, 0, 0, 0, 0, time.UTC))
	for i := range o.specs {
		if !o.rules[i].dense() {
			o.check(t, s, i, cron.Forward(o.random.IntN(2)), cron.Back(o.random.IntN(3)))
		}
	}
}

func (o *oracle) check(t *testing.T, s *stretch, spec int, forward cron.Forward, back cron.Back) {
	t.Helper()
	clock := cron.Clock{Zone: o.zone, Forward: forward, Back: back, Anchor: time.Date(2023, 5, 6, 7, 8, 0, 0, time.UTC)}
	at := time.Unix(s.start+int64(s.from)*60-1, 0)
	end := time.Unix(s.start+int64(s.to)*60, 0)
	wrong := func(got cron.Fire, ok bool, want string) {
		t.Errorf("%s, forward %d, back %d, after %s:\ngot  %s %q, %t\nwant %s", o.specs[spec], forward, back, at.In(o.zone), got.At, got.Note, ok, want)
	}
	for _, want := range o.rules[spec].fires(s, clock) {
		got, ok := o.specs[spec].Next(at, clock)
		if !ok || got.At.Unix() != want.at || got.At.Nanosecond() != 0 || !strings.Contains(got.Note, want.note) || (got.Note == "") != (want.note == "") {
			wrong(got, ok, fmt.Sprintf("%s %q", time.Unix(want.at, 0).In(o.zone), want.note))
			return
		}
		at = got.At
	}
	if got, ok := o.specs[spec].Next(at, clock); !ok || got.At.Before(end) {
		wrong(got, ok, "none before "+end.In(o.zone).String())
	}
}

// changes returns when a zone's clocks change, from one year until another, found by asking
// what they show at each hour.
func changes(zone *time.Location, from, to int) []time.Time {
	offset := func(t time.Time) int {
		_, seconds := t.In(zone).Zone()
		return seconds
	}
	var all []time.Time
	at := time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC)
	for end := time.Date(to, 1, 1, 0, 0, 0, 0, time.UTC); at.Before(end); at = at.Add(time.Hour) {
		if offset(at) == offset(at.Add(time.Hour)) {
			continue
		}
		change := at
		for offset(change) == offset(at) {
			change = change.Add(time.Minute)
		}
		all = append(all, change)
	}
	return all
}

// changingZones reads the tz database that comes with Go, one zone of those that share
// their rules.
func changingZones(t *testing.T) []*time.Location {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	var zones []*time.Location
	seen := map[string]bool{}
	for _, entry := range archive.File {
		if entry.FileInfo().IsDir() {
			continue
		}
		file, err := entry.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(file)
		if err != nil {
			t.Fatal(err)
		}
		zone, err := time.LoadLocationFromTZData(entry.Name, data)
		if err != nil {
			t.Fatal(err)
		}
		if !seen[string(data)] && len(changes(zone, 2020, lastYear+1)) > 0 {
			seen[string(data)] = true
			zones = append(zones, zone)
		}
	}
	if len(zones) < 50 {
		t.Fatalf("only %d zones change", len(zones))
	}
	return zones
}
