package cron_test

import (
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/cron"
)

func FuzzParse(f *testing.F) {
	start := instant(f, "2026-03-07T12:00:00Z").Unix()
	for i, text := range append([]string{
		"", "TZ=", "CRON_TZ=../../etc/passwd * * * * *", "@every 0s", "@every -1h", "@every 1ns", "@every 8784h", "@every 2562047h47m16s",
		"0 0 30 2 *", "* * * * * *", "*/65535 * * * *", "1/9223372036854775807 * * * *", "7/7 7/7 7/7 7/7 7/7",
		strings.Repeat(",", 1000), strings.Repeat("*,", 120) + "* * * * *", "-1 -1 -1 -1 -1", "1--1 * * * *", "+5 * * * *",
		"\u0660 * * * *", "\xff * * * *", "@\U000e0001\U000e0001\U000e0001\U000e0001\U000e0001\U000e0001\U000e0001\U000e0001\U000e0001\U000e0001",
		"0\u00a00\u00a0*\u00a0*\u00a0*", "0 0 L * 1#1", "0 0 15W,LW * FRIL", "0 0 ? * \u017fun", "@wee\u212aly", "0-7 0-7 1-7 1-7 0-7/3",
	}, specs...) {
		f.Add(text, start+int64(i)*1e6, uint16(i))
	}
	newYork, lordHowe := zone(f, "America/New_York"), zone(f, "Australia/Lord_Howe")
	f.Fuzz(func(t *testing.T, text string, unix int64, choice uint16) {
		spec, err := cron.Parse(text)
		if err != nil {
			checkRefusal(t, text, spec, err)
			return
		}
		if again, err := cron.Parse(spec.String()); err != nil || again != spec {
			t.Fatalf("%q is read as %+v, and what it says as %+v, %v", text, spec, again, err)
		}
		clock := cron.Clock{Zone: newYork, Forward: cron.Forward(choice % 2), Back: cron.Back(choice / 2 % 3)}
		if choice&0x100 != 0 {
			clock.Zone = lordHowe
		}
		const years = 150 * 365 * 24 * 60 * 60 // from 1970 on
		after := time.Unix((unix%years+years)%years, 5e8)
		checkFires(t, spec, after, clock)
	})
}

func checkRefusal(t *testing.T, text string, spec cron.Spec, err error) {
	t.Helper()
	if spec != (cron.Spec{}) {
		t.Errorf("%q is refused, and yet %+v", text, spec)
	}
	message := err.Error()
	if len(message) > 200 {
		t.Errorf("%q: the error has %d bytes: %s", text, len(message), message)
	}
	for _, what := range []string{
		"second has ", "minute has ", "hour has ", "day of month has ", "month has ", "day of week has ",
		"is empty", "is longer", "names a time zone", "@every ", `"@`, "never fires",
	} {
		if strings.HasPrefix(message, what) {
			return
		}
	}
	if !strings.Contains(message, " fields; want 5 ") {
		t.Errorf("%q: the error does not say what is wrong: %s", text, message)
	}
}

// checkFires checks a few fires: that each comes after the one before, at a time that the
// rules want, and that Latest finds the last of them.
func checkFires(t *testing.T, spec cron.Spec, after time.Time, clock cron.Clock) {
	t.Helper()
	wanted := readRules(t, spec.String())
	at := after
	for range 20 {
		fire, ok := spec.Next(at, clock)
		if !ok {
			if clock.Forward == cron.SkipForward {
				return // its only times may be those that are skipped
			}
			t.Fatalf("%s: none after %s", spec, at)
		}
		if !fire.At.After(at) || fire.At.Nanosecond() != 0 || fire.At.After(at.AddDate(50, 0, 1)) {
			t.Fatalf("%s: after %s comes %s", spec, at, fire.At)
		}
		odd := strings.HasPrefix(fire.Note, "clocks go forward")
		if wanted.every == 0 && !odd && (!wanted.match(face(fire.At)) || !wanted.second[fire.At.Second()]) {
			t.Errorf("%s: %s does not match", spec, fire.At)
		}
		if wanted.every > 0 && at != after && fire.At.Sub(at) != time.Duration(wanted.every)*time.Second {
			t.Errorf("%s: after %s comes %s", spec, at, fire.At)
		}
		if last, ok := spec.Latest(after, fire.At, clock); !ok || last != fire {
			t.Errorf("%s: the last after %s and until %s is %s, %t", spec, after, fire.At, last.At, ok)
		}
		last, ok := spec.Latest(after, fire.At.Add(-time.Nanosecond), clock)
		if ok != (at != after) || ok && !last.At.Equal(at) {
			t.Errorf("%s: the last after %s and before %s is %s, %t", spec, after, fire.At, last.At, ok)
		}
		at = fire.At
	}
}
