package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// Report is what --json writes. Figures of one report were taken in one sitting,
// in interleaved rounds; compare the ratios of two reports, not their figures.
//
//	{
//	  "at": "2026-01-31T12:00:00Z", "go": "go1.26.8", "cpus": 2, "rounds": 3, "quick": false,
//	  "rows": [{
//	    "name": "e2e A", "store": "badger", "durable": true,
//	    "unit": "items/s", "values": [9100, 9400, 9250], "median": 9250,
//	    "extra": {"done_p50_ms": 3.1, "done_p99_ms": 9.0, "server_us_per_item": 80},
//	    "reference": "2,400 items/s, a peer without sync on such a machine",
//	    "ratio": 3.85, "goal": 3, "goal_is": "at least", "met": true
//	  }]
//	}
type Report struct {
	At     time.Time `json:"at"`
	Go     string    `json:"go"`
	CPUs   int       `json:"cpus"`
	Rounds int       `json:"rounds"`
	Quick  bool      `json:"quick"`
	Rows   []*Row    `json:"rows"`
}

// Row is one figure on one store.
type Row struct {
	Name  string `json:"name"`
	Store string `json:"store"`
	// Durable says that what was acknowledged survives a power cut: every commit was
	// synced.
	Durable bool   `json:"durable"`
	Unit    string `json:"unit"`
	// Values has one figure a round.
	Values []float64 `json:"values"`
	Median float64   `json:"median"`
	// Extra holds medians of what was measured beside it.
	Extra map[string]float64 `json:"extra,omitempty"`

	// Reference is what the median is divided by to get Ratio. Goal, if not 0, is
	// what the ratio should be "at least" or "at most".
	Reference string  `json:"reference,omitempty"`
	Ratio     float64 `json:"ratio,omitempty"`
	Goal      float64 `json:"goal,omitempty"`
	GoalIs    string  `json:"goal_is,omitempty"`
	Met       bool    `json:"met"`

	extras map[string][]float64
}

const (
	atLeast = "at least"
	atMost  = "at most"
)

// sheet gathers the figures of all rounds.
type sheet struct{ rows []*Row }

// row returns the row of a name and store, a new one at the first call.
func (s *sheet) row(name string, on store, unit string) *Row {
	for _, r := range s.rows {
		if r.Name == name && r.Store == on.name {
			return r
		}
	}
	r := &Row{Name: name, Store: on.name, Durable: on.durable, Unit: unit, extras: map[string][]float64{}}
	s.rows = append(s.rows, r)
	return r
}

// add takes one round's figure.
func (r *Row) add(value float64) {
	r.Values = append(r.Values, value)
	r.Median = median(r.Values)
}

// also takes one round's figure of something beside it.
func (r *Row) also(name string, value float64) {
	r.extras[name] = append(r.extras[name], value)
	if r.Extra == nil {
		r.Extra = map[string]float64{}
	}
	r.Extra[name] = median(r.extras[name])
}

// against compares the row with a reference.
func (r *Row) against(value float64, reference, is string, goal float64) {
	if value == 0 {
		return
	}
	r.Reference, r.Ratio, r.Goal, r.GoalIs = reference, r.Median/value, goal, is
	switch is {
	case atLeast:
		r.Met = r.Ratio >= goal
	case atMost:
		r.Met = r.Ratio <= goal
	}
}

// print writes the table.
func (s *sheet) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "row\tstore\tdurable\tmedian\tlow … high\tbeside it\tratio\tgoal")
	for _, r := range s.rows {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s %s\t%s … %s\t%s\t%s\n", r.Name, r.Store, yes(r.Durable),
			figure(r.Median), r.Unit, figure(slices.Min(r.Values)), figure(slices.Max(r.Values)), r.beside(), r.judged())
	}
	return table.Flush()
}

func (r *Row) beside() string {
	names := make([]string, 0, len(r.Extra))
	for name := range r.Extra {
		names = append(names, name)
	}
	slices.Sort(names)
	text := ""
	for _, name := range names {
		text += name + " " + figure(r.Extra[name]) + "  "
	}
	return text
}

// judged fills the last two columns.
func (r *Row) judged() string {
	switch {
	case r.Goal == 0:
		return "\t"
	case r.Met:
		return fmt.Sprintf("%.2f of %s\t%s %g: met", r.Ratio, r.Reference, r.GoalIs, r.Goal)
	default:
		return fmt.Sprintf("%.2f of %s\t%s %g: MISSED", r.Ratio, r.Reference, r.GoalIs, r.Goal)
	}
}

// write puts the report into a file.
func (r *Report) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

func yes(b bool) string {
	if b {
		return "synced"
	}
	return "no"
}

// figure writes a number with about three digits that mean something.
func figure(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}

// median returns the middle value, or the mean of the middle two; 0 of none.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	switch {
	case n == 0:
		return 0
	case n%2 == 0:
		return (sorted[n/2-1] + sorted[n/2]) / 2
	default:
		return sorted[n/2]
	}
}

// quantile returns the value below which the given share of the values lies.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
