package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// heads are the columns of both tables, of which a row fills as many lines as it has
// comparisons.
var heads = []string{"row", "store", "synced", "median", "low … high", "beside it", "ratio", "goal"}

// lines are a row's cells.
func (r *Row) lines() [][]string {
	first := []string{
		r.Name, r.Store, yes(r.Durable), figure(r.Median) + " " + r.Unit,
		figure(slices.Min(r.Values)) + " … " + figure(slices.Max(r.Values)), r.beside(), "", "",
	}
	lines := [][]string{first}
	for i, c := range r.Compared {
		if i > 0 {
			lines = append(lines, make([]string, len(heads)))
		}
		ratio, goal := c.texts()
		copy(lines[i][len(heads)-2:], []string{ratio, goal})
	}
	return lines
}

func (r *Row) beside() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.Extra)) {
		parts = append(parts, name+" "+figure(r.Extra[name]))
	}
	return strings.Join(parts, ", ")
}

func (c Comparison) texts() (ratio, goal string) {
	ratio = figure(c.Ratio) + " of " + c.Reference
	if c.Of != "" {
		ratio = c.Of + " " + ratio
	}
	goal = fmt.Sprintf("%s %g: ", c.GoalIs, c.Goal)
	switch {
	case c.GoalIs == "":
		return ratio, ""
	case c.Met:
		return ratio, goal + "met"
	default:
		return ratio, goal + "MISSED"
	}
}

// print writes the table for a terminal.
func (r *Report) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.Join(heads, "\t"))
	for _, row := range r.Rows {
		for _, line := range row.lines() {
			fmt.Fprintln(table, strings.Join(line, "\t"))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, why := range r.Skipped {
		if _, err := fmt.Fprintln(w, "skipped:", why); err != nil {
			return err
		}
	}
	return nil
}

// markdown is the report for people.
func (r *Report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Measured on %s\n\n", r.At.Format(time.DateOnly))
	if r.Quick {
		b.WriteString("Taken with `-quick`: the figures mean nothing.\n\n")
	}
	fmt.Fprintf(&b, "%d rounds, begun at %s. How it is measured and how to read it: [bench.md](../../docs/bench.md).\n\n", r.Rounds, r.At.Format(time.RFC3339))
	b.WriteString("| machine | |\n|---|---|\n")
	for _, fact := range r.Machine.facts() {
		fmt.Fprintf(&b, "| %s | %s |\n", fact.name, fact.value)
	}
	fmt.Fprintf(&b, "\n| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
	for _, row := range r.Rows {
		for _, line := range row.lines() {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
		}
	}
	for i, why := range r.Skipped {
		if i == 0 {
			b.WriteString("\nNot measured:\n\n")
		}
		fmt.Fprintf(&b, "- %s\n", why)
	}
	return b.String()
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// figure writes a number with about three digits that mean something.
func figure(v float64) string {
	switch {
	case v >= 1000:
		return grouped(v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}

// grouped writes 1234567 as 1,234,567.
func grouped(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	head := cmp.Or(len(digits)%3, 3)
	var b strings.Builder
	b.WriteString(digits[:head])
	for rest := digits[head:]; rest != ""; rest = rest[3:] {
		b.WriteString("," + rest[:3])
	}
	return b.String()
}
