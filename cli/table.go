package cli

import (
	"strings"

	"github.com/rivo/uniseg"
)

// cell is one field of a table.
type cell struct {
	text   string
	colour colour
}

func cells(texts ...string) []cell {
	out := make([]cell, len(texts))
	for i, text := range texts {
		out[i] = cell{text: text}
	}
	return out
}

// table is rows below a head. A head that begins with > is of a column that is aligned
// to the right, as numbers are.
type table struct {
	head []string
	rows [][]cell
}

func newTable(head ...string) *table { return &table{head: head} }

func (t *table) add(row ...cell) { t.rows = append(t.rows, row) }

// print prints columns below their head on a terminal. Elsewhere it prints rows alone
// with tabs between their fields, so that cut and awk read them.
func (t *table) print(c *console) error {
	switch {
	case c.shown && len(t.rows) == 0:
		c.note("there are none")
		return nil
	case c.shown:
		return c.printf("%s", t.aligned(c))
	}
	for _, row := range t.rows {
		fields := make([]string, len(row))
		for i, it := range row {
			fields[i] = printable(it.text)
		}
		if err := c.printf("%s\n", strings.Join(fields, "\t")); err != nil {
			return err
		}
	}
	return nil
}

// aligned returns the table as columns.
func (t *table) aligned(c *console) string {
	head := make([]cell, len(t.head))
	right := make([]bool, len(t.head))
	for i, name := range t.head {
		name, right[i] = strings.CutPrefix(name, ">")
		head[i] = cell{strings.ToUpper(name), bold}
	}
	rows := append([][]cell{head}, t.rows...)
	widths := make([]int, len(head))
	for _, row := range rows {
		for i, it := range row {
			widths[i] = max(widths[i], uniseg.StringWidth(printable(it.text)))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, it := range row {
			text := printable(it.text)
			// Padded beside the paint, whose codes have no width.
			pad := strings.Repeat(" ", widths[i]-uniseg.StringWidth(text))
			text = c.paint(it.colour, text)
			switch {
			case right[i]:
				line.WriteString(pad + text)
			default:
				line.WriteString(text + pad)
			}
			line.WriteString("  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// record is names and values, a line each.
type record struct {
	names  []string
	values []cell
}

// set adds a line, unless the value is empty.
func (r *record) set(name, value string) { r.paint(name, value, plain) }

func (r *record) paint(name, value string, with colour) {
	if value != "" {
		r.names, r.values = append(r.names, name), append(r.values, cell{value, with})
	}
}

func (r *record) print(c *console) error {
	width := 0
	for _, name := range r.names {
		width = max(width, len(name))
	}
	for i, name := range r.names {
		text := printable(r.values[i].text)
		if !c.shown {
			if err := c.printf("%s\t%s\n", name, text); err != nil {
				return err
			}
			continue
		}
		pad := strings.Repeat(" ", width-len(name))
		if err := c.printf("%s%s  %s\n", c.paint(dim, name), pad, c.paint(r.values[i].colour, text)); err != nil {
			return err
		}
	}
	return nil
}
