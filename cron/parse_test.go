package cron_test

import (
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/cron"
)

func TestC12_ParseRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"", "is empty; want five fields such as 30 9 * * MON-FRI, or one of @hourly, @daily, @weekly, @monthly, @yearly, @every 90s"},
		{" \t\n", "is empty; want five fields such as 30 9 * * MON-FRI, or one of @hourly, @daily, @weekly, @monthly, @yearly, @every 90s"},
		{strings.Repeat("1,", 200) + "1 * * * *", "is longer than 255 bytes"},
		{strings.Repeat(",", 1000), "is longer than 255 bytes"},
		{"TZ=", "names a time zone; give it as zone"},
		{"TZ=UTC 0 0 * * *", "names a time zone; give it as zone"},
		{"CRON_TZ=../../etc/passwd * * * * *", "names a time zone; give it as zone"},
		{"*", "has 1 fields; want 5 (minute, hour, day of month, month, day of week), or 6 with seconds first"},
		{"0 0 0 1 1 ? 2030", "has 7 fields; want 5 (minute, hour, day of month, month, day of week), or 6 with seconds first"},
		{"0 0 30 2 *", "never fires: no date matches its days and months"},
		{"0 0 31 4,6,9,11 *", "never fires: no date matches its days and months"},
		{"0 0 31 6 */2", "never fires: no date matches its days and months"},

		{"60 0 * * *", `minute has "60"; want 0 to 59`},
		{"60 0 0 * * *", `second has "60"; want 0 to 59`},
		{"0 24 * * *", `hour has "24"; want 0 to 23`},
		{"0 0 0 * *", `day of month has "0"; want 1 to 31`},
		{"0 0 1-32 * *", `day of month has "1-32"; want 1 to 31`},
		{"0 0 * 13 *", `month has "13"; want 1 to 12, or a name such as FEB`},
		{"0 0 * * 8", `day of week has "8"; want 0 to 7, or a name such as MON`},
		{"0 0 * MON *", `month has "MON"; want 1 to 12, or a name such as FEB`},
		{"0 0 * * WEDNESDAY", `day of week has "WEDNESDAY"; want 0 to 7, or a name such as MON`},
		{"FRI 0 * * *", `minute has "FRI"; want 0 to 59`},
		{"-1 0 * * *", `minute has "-1"; want 0 to 59`},
		{"+1 0 * * *", `minute has "+1"; want 0 to 59`},
		{"1.5 0 * * *", `minute has "1.5"; want 0 to 59`},
		{"99999999999999999999 0 * * *", `minute has "9999999999"; want 0 to 59`},
		{"\u0663 0 * * *", `minute has "` + "\u0663" + `"; want 0 to 59`},
		{"1,,2 0 * * *", `minute has ""; want 0 to 59`},
		{", 0 * * *", `minute has ""; want 0 to 59`},
		{"1- 0 * * *", `minute has "1-"; want 0 to 59`},
		{"1-2-3 0 * * *", `minute has "1-2-3"; want 0 to 59`},
		{"*-5 0 * * *", `minute has "*-5"; want 0 to 59`},
		{"** 0 * * *", `minute has "**"; want 0 to 59`},
		{"*/0 0 * * *", `minute has the step "0"; want 1 to 65535`},
		{"*/-5 0 * * *", `minute has the step "-5"; want 1 to 65535`},
		{"*/+5 0 * * *", `minute has the step "+5"; want 1 to 65535`},
		{"*/ 0 * * *", `minute has the step ""; want 1 to 65535`},
		{"1-9/2/3 0 * * *", `minute has the step "2/3"; want 1 to 65535`},
		{"1/9223372036854775807 0 * * *", `minute has the step "9223372036"; want 1 to 65535`},

		{"0 0 L * *", `day of month has "L"; L, W and # are not supported`},
		{"0 0 l-3 * *", `day of month has "l-3"; L, W and # are not supported`},
		{"0 0 15W * *", `day of month has "15W"; L, W and # are not supported`},
		{"0 0 LW * *", `day of month has "LW"; L, W and # are not supported`},
		{"0 0 1,L * *", `day of month has "L"; L, W and # are not supported`},
		{"0 0 ? * 5L", `day of week has "5L"; L, W and # are not supported`},
		{"0 0 ? * FRIL", `day of week has "FRIL"; L, W and # are not supported`},
		{"0 0 ? * 1#1", `day of week has "1#1"; L, W and # are not supported`},
		{"0 0 ? * MON#2", `day of week has "MON#2"; L, W and # are not supported`},

		{"@every", "@every wants a duration, such as @every 90s"},
		{"@every 90", "@every wants a duration, such as @every 90s"},
		{"@every 1h 30m", "@every wants a duration, such as @every 90s"},
		{"@every 0s", "@every 0s is not between 1s and 8784h0m0s"},
		{"@every -1h", "@every -1h0m0s is not between 1s and 8784h0m0s"},
		{"@every 999ms", "@every 999ms is not between 1s and 8784h0m0s"},
		{"@every 8785h", "@every 8785h0m0s is not between 1s and 8784h0m0s"},
		{"@every 1.5s", "@every 1.5s is not whole seconds"},
		{"@every90s", `"@every90s" is not one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, @every`},
		{"@reboot", `"@reboot" is not one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, @every`},
		{"@daily 5", `"@daily 5" is not one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, @every`},
	} {
		spec, err := cron.Parse(tt.text)
		if err == nil || err.Error() != tt.want || spec != (cron.Spec{}) {
			t.Errorf("%.40q: got %v, %v, want %s", tt.text, spec, err, tt.want)
		}
	}
}

// Each line: texts that say the same.
func TestParse_TakesManyForms(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"0 0 * * 0|0 0 * * 7|0 0 * * SUN|0 0 * * sun|0 0 * * 7-7|0 0 0 * * Sun|  0\t0  ?  *  0 |0 0 * * */7|@weekly|@Weekly",
		"0 0 * * 1-5|0 0 * * MON-FRI|0 0 * * mon-5|0 0 * * 1,2,3,4,5|0 0 * * 5,4,3,2,1,1",
		"0 0 * * 0,1,5,6|0 0 * * FRI-MON|0 0 * * 5-7,1|0 0 * * 5-1",
		"0 0 * * 0-6|0 0 * * 0-7|0 0 * * 1-7|0 0 * * 7-6|0 0 * * *|0 0 * * ?|0 0 ? * *|@daily|@midnight|@DAILY",
		"0 0 * * 0,2,4,6|0 0 * * */2|0 0 * * 0/2|0 0 * * 7/2",
		"0 22,23,0,1,2 * * *|0 22-2 * * *",
		"0 22,0,2 * * *|0 22-2/2 * * *",
		"0 0 1 11,12,1,2 *|0 0 1 NOV-FEB *|0 0 1 11-feb *",
		"* * * * *|*/1 * * * *|0-59 * * * *|0 * * * * *|0 0/1 * * * *|? ? ? ? ?|1-0 * * * *",
		"5,20,35,50 * * * *|5/15 * * * *|5-59/15 * * * *",
		"0 * * * *|*/60 * * * *|*/65535 * * * *|0-30/65535 * * * *|@hourly",
		"59 * * * *|59/65535 * * * *",
		"0 0 1 1 *|@yearly|@annually",
		"0 0 1 * *|@monthly|0 0 */31 * *",
		"@every 90s|@every 1m30s|@EVERY  90s",
	} {
		var want string
		for i, text := range strings.Split(line, "|") {
			got := firesOf(t, text)
			if i == 0 {
				want = got
			}
			if got != want {
				t.Errorf("%s: got %s, want %s", text, got, want)
			}
		}
	}
}

func TestC12_FiresOnceASecondAtMost(t *testing.T) {
	t.Parallel()
	start := instant(t, "2026-03-01T09:00:00.7Z")
	for _, text := range []string{"* * * * * *", "0-59/1 * * * * *", "@every 1s"} {
		spec, at := parse(t, text), start
		for i := range 100 {
			fire, ok := spec.Next(at, cron.Clock{Zone: time.UTC, Anchor: start})
			if want := start.Truncate(time.Second).Add(time.Duration(i+1) * time.Second); !ok || !fire.At.Equal(want) {
				t.Fatalf("%s after %s: got %s, %t, want %s", text, at, fire.At, ok, want)
			}
			at = fire.At
		}
	}
}

// firesOf tells the first fires in words.
func firesOf(t *testing.T, text string) string {
	t.Helper()
	spec := parse(t, text)
	if want := strings.TrimSpace(text); spec.String() != want {
		t.Errorf("got the text %q, want %q", spec, want)
	}
	var all []string
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 150 {
		fire, ok := spec.Next(at, cron.Clock{Zone: time.UTC, Anchor: at})
		if !ok {
			t.Fatalf("%s: none after %s", text, at)
		}
		at = fire.At
		all = append(all, at.Format(time.RFC3339))
	}
	return strings.Join(all, " ")
}

// A day field that begins with a star makes both have to match, even with a step or in a
// list; what it says otherwise is or.
func TestParse_JoinsDayFields(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"0 0 13 * 5", "2026-01-02 2026-01-09 2026-01-13"},
		{"0 0 ? * 5", "2026-01-02 2026-01-09 2026-01-16"},
		{"0 0 13 * ?", "2026-01-13 2026-02-13 2026-03-13"},
		{"0 0 */2 * 1", "2026-01-05 2026-01-19 2026-02-09"},
		{"0 0 1-31/2 * 1", "2026-01-03 2026-01-05 2026-01-07"},
		{"0 0 13 * */5", "2026-02-13 2026-03-13 2026-09-13"},
		{"0 0 13 * 0/5", "2026-01-02 2026-01-04 2026-01-09"},
		{"0 0 5,*/10 * 1", "2026-01-05 2026-01-11 2026-01-12"},
		{"0 0 */10,5 * 1", "2026-01-05 2026-05-11 2026-06-01"},
	} {
		spec := parse(t, tt.text)
		at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		var got []string
		for range 3 {
			fire, ok := spec.Next(at, cron.Clock{Zone: time.UTC})
			if !ok {
				break
			}
			at = fire.At
			got = append(got, at.Format(time.DateOnly))
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s: got %s, want %s", tt.text, text, tt.want)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, text := range []string{"30 9 * * MON-FRI", "*/20 0-30/10 22-2 1,15 NOV-FEB *", "@every 90s", "0 0 30 2 *"} {
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = cron.Parse(text) // the last never fires, which is what takes longest to know
			}
		})
	}
}
