package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The report that is kept must be a whole one that this program wrote: no line of it made
// by hand, nothing left out.
func TestReport_NewestAgreesWithItsText(t *testing.T) {
	t.Parallel()
	file := newest(t, filepath.Join("..", "reports"))
	report := read(t, file)
	name := strings.TrimSuffix(file, ".json")
	if got, want := filepath.Base(name), report.At.Format("2006-01-02"); got != want {
		t.Errorf("%s is a report of %s", file, want)
	}
	if text := readText(t, name+".md"); text != report.markdown() {
		t.Errorf("%s.md does not say what %s says; make bench-report writes both", name, file)
	}
	if report.Quick || len(report.Skipped) > 0 || report.Rounds < full.rounds {
		t.Errorf("%s: quick %v, %d rounds, skipped %q: not a report to keep", file, report.Quick, report.Rounds, report.Skipped)
	}
	measured := sheet{rows: report.Rows}
	for _, g := range full.goals() {
		if row := measured.find(g.row, g.store); row == nil || !slices.ContainsFunc(row.Compared, func(c Comparison) bool { return c.Reference == g.reference }) {
			t.Errorf("%s on %s is not compared with %s", g.row, g.store, g.reference)
		}
	}
}

// newest returns the report of the latest day in a folder.
func newest(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "20??-??-??.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no report in %s (%v); make bench-report takes one", dir, err)
	}
	return slices.Max(files)
}

func read(t *testing.T, file string) *Report {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(readText(t, file)))
	d.DisallowUnknownFields()
	r := new(Report)
	if err := d.Decode(r); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return r
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
