package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// colour is an ANSI code.
type colour string

const (
	plain  colour = ""
	dim    colour = "2"
	bold   colour = "1"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
)

// terminal writes for people: whole blocks at a time, so that what several goroutines
// say does not mix, and colours only where somebody sees them.
type terminal struct {
	coloured bool
	// gone is told when nobody reads any more.
	gone func(error)

	mu sync.Mutex
	w  io.Writer
}

// newTerminal returns a terminal, and a context that ends once it cannot be written to:
// what is done for somebody to watch has no sense then.
func newTerminal(ctx context.Context, w io.Writer) (*terminal, context.Context) {
	ctx, gone := context.WithCancelCause(ctx)
	return &terminal{w: w, coloured: os.Getenv("NO_COLOR") == "" && isTerminal(w), gone: gone}, ctx
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// printf writes one block.
func (t *terminal) printf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := fmt.Fprintf(t.w, format, args...); err != nil {
		t.gone(fmt.Errorf("output: %w", err))
	}
}

func (t *terminal) paint(c colour, text string) string {
	if !t.coloured || c == plain {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// excerpt makes any bytes fit for one line of a terminal: text as it is, everything
// that is not printable escaped, at most so many bytes of the original.
func excerpt(b []byte, most int) string {
	rest := len(b) - most
	if rest > 0 {
		b = b[:most]
	}
	var line strings.Builder
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&line, `\x%02x`, b[0])
		case r == '\n':
			line.WriteString(`\n`)
		case r == '\t':
			line.WriteString(`\t`)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&line, `\u%04x`, r)
		default:
			line.WriteRune(r)
		}
		b = b[size:]
	}
	if rest > 0 {
		fmt.Fprintf(&line, " … and %d bytes more", rest)
	}
	return line.String()
}
