package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Report is what is measured in one sitting, in interleaved rounds; compare the ratios
// of two reports, not their figures.
//
//	{
//	  "at": "2026-01-31T12:00:00Z", "rounds": 3, "quick": false,
//	  "machine": {"processor": "…", "cpus": 2, "go": "go1.26.8", "postgresql": "15.20", …},
//	  "rows": [{
//	    "name": "e2e A", "store": "badger", "durable": true,
//	    "unit": "items/s", "values": [9100, 9400, 9250], "median": 9250,
//	    "extra": {"done_p50_ms": 3.1, "done_p99_ms": 9.0, "server_us_per_item": 80},
//	    "compared": [{
//	      "reference": "a peer's 2,400, unsynced",
//	      "value": 2400, "ratio": 3.85, "goal": 3, "goal_is": "at least", "met": true
//	    }]
//	  }]
//	}
type Report struct {
	At      time.Time `json:"at"`
	Machine Machine   `json:"machine"`
	Rounds  int       `json:"rounds"`
	// Quick says that the figures mean nothing.
	Quick bool `json:"quick"`
	// Skipped says what was not measured, and why.
	Skipped []string `json:"skipped,omitempty"`
	Rows    []*Row   `json:"rows"`
}

// Row is one figure on one store.
type Row struct {
	Name string `json:"name"`
	// Store is where items are kept; for a peer, its name.
	Store string `json:"store"`
	// Durable says that what was acknowledged survives a power cut: every commit was
	// synced.
	Durable bool   `json:"durable"`
	Unit    string `json:"unit"`
	// Values has one figure a round.
	Values []float64 `json:"values"`
	Median float64   `json:"median"`
	// Extra holds medians of what was measured beside it.
	Extra    map[string]float64 `json:"extra,omitempty"`
	Compared []Comparison       `json:"compared,omitempty"`

	extras map[string][]float64
}

// Comparison divides a row's median by a reference.
type Comparison struct {
	// Of names what of [Row.Extra] is divided; empty is the row's own median.
	Of        string  `json:"of,omitempty"`
	Reference string  `json:"reference"`
	Value     float64 `json:"value"`
	Ratio     float64 `json:"ratio"`
	// Goal is what the ratio should be "at least" or "at most". GoalIs is empty where
	// nothing is wanted.
	Goal   float64 `json:"goal,omitempty"`
	GoalIs string  `json:"goal_is,omitempty"`
	Met    bool    `json:"met"`
}

const (
	atLeast = "at least"
	atMost  = "at most"
)

// sheet gathers the figures of all rounds.
type sheet struct{ rows []*Row }

// row returns the row of a name and store, a new one at the first call.
func (s *sheet) row(name string, on store, unit string) *Row {
	if r := s.find(name, on.name); r != nil {
		return r
	}
	r := &Row{Name: name, Store: on.name, Durable: on.durable, Unit: unit, extras: map[string][]float64{}}
	s.rows = append(s.rows, r)
	return r
}

// find returns nil where nothing was measured.
func (s *sheet) find(name, on string) *Row {
	for _, r := range s.rows {
		if r.Name == name && r.Store == on {
			return r
		}
	}
	return nil
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

// against compares the row with a reference, once all rounds are over.
func (r *Row) against(of string, value float64, reference, is string, goal float64) {
	figure := r.Median
	if of != "" {
		figure = r.Extra[of]
	}
	if value == 0 || figure == 0 {
		return
	}
	c := Comparison{Of: of, Reference: reference, Value: value, Ratio: figure / value, Goal: goal, GoalIs: is}
	switch is {
	case atLeast:
		c.Met = c.Ratio >= goal
	case atMost:
		c.Met = c.Ratio <= goal
	default:
		c.Met = true
	}
	r.Compared = append(r.Compared, c)
}

// write puts the report into a file.
func (r *Report) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// keep writes the report into a folder, named after its day: once for programs, once
// for people.
func (r *Report) keep(dir string) error {
	name := filepath.Join(dir, r.At.Format(time.DateOnly))
	if err := r.write(name + ".json"); err != nil {
		return err
	}
	return os.WriteFile(name+".md", []byte(r.markdown()), 0o644)
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

// quantile returns the value below which the given share of sorted values lies.
func quantile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
