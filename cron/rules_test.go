package cron_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/cron"
)

// rules is what a spec asks for, read without the package that is tested: for each value
// of each field, whether it is wanted.
type rules struct {
	second, minute, hour, day, month, weekday [61]bool
	// bothDays says that day and weekday have to match.
	bothDays bool
	// wild says that every hour is wanted.
	wild bool
	// every is in seconds; the fields are not used.
	every int64
}

var shortcuts = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

const (
	monthNames   = "jan feb mar apr may jun jul aug sep oct nov dec"
	weekdayNames = "sun mon tue wed thu fri sat"
)

func readRules(t testing.TB, text string) *rules {
	t.Helper()
	text = strings.ToLower(text)
	if long, ok := shortcuts[strings.TrimSpace(text)]; ok {
		text = long
	}
	parts := strings.Fields(text)
	if parts[0] == "@every" {
		every, err := time.ParseDuration(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		return &rules{every: int64(every.Seconds())}
	}
	if len(parts) == 5 {
		parts = append([]string{"0"}, parts...)
	}
	r := rules{bothDays: strings.ContainsAny(parts[3][:1]+parts[5][:1], "*?"), wild: true}
	read := func(into *[61]bool, text string, low, high int, names string) {
		for _, term := range strings.Split(text, ",") {
			mark(t, into, term, low, high, names)
		}
	}
	read(&r.second, parts[0], 0, 59, "")
	read(&r.minute, parts[1], 0, 59, "")
	read(&r.hour, parts[2], 0, 23, "")
	read(&r.day, parts[3], 1, 31, "")
	read(&r.month, parts[4], 1, 12, monthNames)
	read(&r.weekday, parts[5], 0, 6, weekdayNames)
	for h := range 24 {
		r.wild = r.wild && r.hour[h]
	}
	return &r
}

// mark marks the values of a term: those that are a multiple of the step from its start,
// and no farther from it than its end is.
func mark(t testing.TB, into *[61]bool, term string, low, high int, names string) {
	t.Helper()
	number := func(text string) int {
		if at := strings.Index(names, text); at >= 0 && text != "" {
			return low + at/4
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", term, err)
		}
		return n
	}
	span, stepText, stepped := strings.Cut(term, "/")
	step := 1
	if stepped {
		step = number(stepText)
	}
	start, end := low, high
	if span != "*" && span != "?" {
		from, to, ranged := strings.Cut(span, "-")
		start = number(from)
		switch {
		case ranged:
			end = number(to)
		case !stepped:
			end = start
		}
	}
	size := high - low + 1
	if end < start {
		end += size
	}
	for v := low; v <= high; v++ {
		distance := ((v-start)%size + size) % size
		if distance <= end-start && distance%step == 0 {
			into[v] = true
		}
	}
}

// dense says that it fires often; then some days have to do for all.
func (r *rules) dense() bool {
	count := func(values [61]bool) (n int) {
		for _, wanted := range values {
			if wanted {
				n++
			}
		}
		return n
	}
	return r.every == 0 && count(r.second)*count(r.minute)*count(r.hour) > 48
}

// shown is what a clock on a wall shows.
type shown struct {
	month, day, weekday, hour, minute uint8
	// turn is which of two this is, where the clock shows the same twice.
	turn turn
	// jumped says that the clock did not show what comes before it.
	jumped bool
}

type turn uint8

const (
	only turn = iota
	theFirst
	theSecond
)

func (r *rules) match(s shown) bool {
	if !r.minute[s.minute] || !r.hour[s.hour] || !r.month[s.month] {
		return false
	}
	if r.bothDays {
		return r.day[s.day] && r.weekday[s.weekday]
	}
	return r.day[s.day] || r.weekday[s.weekday]
}

// stretch is a time of a zone, minute by minute.
type stretch struct {
	zone     *time.Location
	start    int64 // Unix
	from, to int   // those to be checked; the others around them tell what comes twice
	minutes  []shown
	// lost is what the clock never showed before the minute with an index that jumped.
	lost map[int][]shown
}

// margin is more minutes than clocks go back by at once.
const margin = 4 * 60

func walk(t testing.TB, zone *time.Location, from, to time.Time) *stretch {
	t.Helper()
	s := &stretch{zone: zone, start: from.Unix() - margin*60, from: margin, to: margin + int(to.Sub(from)/time.Minute), lost: map[int][]shown{}}
	s.minutes = make([]shown, s.to+margin)
	counts := make([]int64, len(s.minutes)) // minutes that the wall's calendar has counted
	latest := int64(-1 << 62)
	for i := range s.minutes {
		at := time.Unix(s.start+int64(i)*60, 0).In(zone)
		year, month, day := at.Date()
		hour, minute, second := at.Clock()
		if second != 0 {
			t.Fatalf("%s shows seconds", at)
		}
		wall := time.Date(year, month, day, hour, minute, 0, 0, time.UTC)
		counts[i] = wall.Unix() / 60
		s.minutes[i] = shown{
			month: uint8(month), day: uint8(day), weekday: uint8(wall.Weekday()), hour: uint8(hour), minute: uint8(minute),
		}
		if i > 0 && counts[i] > counts[i-1]+1 {
			s.minutes[i].jumped = true
			for gone := counts[i-1] + 1; gone < counts[i]; gone++ {
				s.lost[i] = append(s.lost[i], face(time.Unix(gone*60, 0).UTC()))
			}
		}
		if counts[i] <= latest {
			s.minutes[i].turn = theSecond
		}
		latest = max(latest, counts[i])
	}
	earliest := int64(1 << 62)
	for i := len(counts) - 1; i >= 0; i-- {
		if counts[i] >= earliest {
			s.minutes[i].turn = theFirst
		}
		earliest = min(earliest, counts[i])
	}
	return s
}

func face(wall time.Time) shown {
	return shown{
		month: uint8(wall.Month()), day: uint8(wall.Day()), weekday: uint8(wall.Weekday()),
		hour: uint8(wall.Hour()), minute: uint8(wall.Minute()),
	}
}

// fire is an instant and a piece of its note.
type fire struct {
	at   int64
	note string
}

// fires says at which instants of a stretch a spec fires.
func (r *rules) fires(s *stretch, clock cron.Clock) []fire {
	var all []fire
	if r.every > 0 {
		for at := s.start + int64(s.from)*60; at < s.start+int64(s.to)*60; at += 60 {
			if (at-clock.Anchor.Unix())%r.every == 0 {
				all = append(all, fire{at: at})
			}
		}
		return all
	}
	for i := s.from; i < s.to; i++ {
		m := &s.minutes[i]
		if !r.minute[m.minute] && !m.jumped {
			continue // as most
		}
		at := s.start + int64(i)*60
		instead := m.jumped && !r.wild && clock.Forward == cron.RunAfter && slices.ContainsFunc(s.lost[i], r.match)
		if instead {
			all = append(all, fire{at: at, note: "clocks go forward"})
		}
		if !r.match(*m) {
			continue
		}
		note := ""
		switch {
		case r.wild || m.turn == only:
		case m.turn == theFirst && clock.Back != cron.Second:
			note = "this is the first"
		case m.turn == theSecond && clock.Back != cron.First:
			note = "this is the second"
		default:
			continue
		}
		for second := range int64(60) {
			if r.second[second] && (second > 0 || !instead) {
				all = append(all, fire{at: at + second, note: note})
			}
		}
	}
	return all
}
