package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

// What differs from run to run is taken for the same wherever it stands, from the most
// special to the most general.
var varying = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "ID"},
	{regexp.MustCompile(`\b(AQ|Ag|Aw|BA)AA[A-Za-z0-9_-]{30,}`), "RECEIPT"},
	{regexp.MustCompile(`whsec_[A-Za-z0-9+/=]+`), "SECRET"},
	{regexp.MustCompile(`pdk_[a-z]+_[0-9A-Za-z]+_[0-9A-Za-z]+_[0-9A-Za-z]+`), "KEY"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`\d{4}[-/]\d\d[-/]\d\d \d\d:\d\d:\d\d(\.\d+)?Z?`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d(\.\d+)?\b`), "TIME"},
	{regexp.MustCompile(`\b\d+\.\d+(h|m|s|ms|µs|ns)+\b`), "DURATION"},
	{regexp.MustCompile(`(<|\b)\d+(ms|µs|ns)\b`), "DURATION"},
	{regexp.MustCompile(`"revision": ?"\d+"`), "REVISION"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

// plain is text without what varies.
func plain(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.name)
	}
	return strings.TrimSpace(text)
}

func plainLines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = plain(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// gap stands for any lines where it is alone on one, and for any text within a line.
const gap = "…"

// matches says whether the output of a command is what a page shows of it.
func matches(shown, output string) bool {
	want, got := plainLines(shown), plainLines(output)
	return matchLines(want, got, true)
}

// contains says whether what a page shows stands somewhere in the output.
func contains(output, shown string) bool {
	want, got := plainLines(shown), plainLines(output)
	for i := range got {
		if matchLines(want, got[i:], false) {
			return true
		}
	}
	return len(want) == 0
}

// matchLines compares from the first line on; whole says that nothing may be left over.
func matchLines(want, got []string, whole bool) bool {
	if len(want) == 0 {
		return !whole || len(got) == 0
	}
	if want[0] == gap {
		for skip := range len(got) + 1 {
			if matchLines(want[1:], got[skip:], whole) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && matchLine(want[0], got[0]) && matchLines(want[1:], got[1:], whole)
}

func matchLine(want, got string) bool {
	head, rest, gapped := strings.Cut(want, gap)
	if !gapped {
		return want == got
	}
	got, ok := strings.CutPrefix(got, head)
	parts := strings.Split(rest, gap)
	for i, part := range parts {
		if i == len(parts)-1 {
			return ok && strings.HasSuffix(got, part)
		}
		var found bool
		_, got, found = strings.Cut(got, part)
		ok = ok && found
	}
	return ok
}

func TestMatches_ToleratesWhatVariesAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		shown, output string
		want          bool
	}{
		{"ok\n", "ok\n", true},
		{"ok\n", "not ok\n", false},
		{"ok\n", "ok\nmore\n", false},
		{"ok\n…\n", "ok\nmore\nand more\n", true},
		{"…\nlast\n", "first\nlast\n", true},
		{"…\nlast\n", "first\nlast\nmore\n", false},
		{`{"item_id":"01a2296b-7aff-7b7e-857c-b839f159d25d","n":1}`, `{"item_id":"01a2296b-0000-7b7e-857c-b839f159d25d","n":1}`, true},
		{`{"item_id":"01a2296b-7aff-7b7e-857c-b839f159d25d","n":1}`, `{"item_id":"01a2296b-0000-7b7e-857c-b839f159d25d","n":2}`, false},
		{"at 2026-11-29T22:27:19.35847Z", "at 2027-01-01T00:00:00Z", true},
		{"waited 5s", "waited 6s", false},
		{"waited 5.1s", "waited 4.998s", true},
		{"took 4ms", "took <1ms", true},
		{"a   b", "a b", true},
		{`{"a":1,…}`, `{"a":1,"b":2}`, true},
		{`{"a":1,…"c":3}`, `{"a":1,"b":2}`, false},
		{"…one…two", "x one y two", true},
		{"…one…two", "x two y one", false},
	} {
		if got := matches(tt.shown, tt.output); got != tt.want {
			t.Errorf("matches(%q, %q) = %v", tt.shown, tt.output, got)
		}
	}
	if !contains("a\nb\nc\nd\n", "b\nc\n") || contains("a\nb\nc\nd\n", "b\nd\n") || !contains("a\nb\nc\nd\n", "b\n…\nd\n") {
		t.Error("contains looks elsewhere")
	}
}
