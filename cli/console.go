package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// console is where a command reads and writes, and what is at the ends. One goroutine
// uses it at a time.
type console struct {
	in  io.Reader
	out *bufio.Writer
	err io.Writer
	// asks says that somebody sits at in and err and can be asked.
	asks bool
	// shown and followed say that out, and err, is a terminal.
	shown, followed bool
	coloured        bool
	// screen is out's, if it is a terminal.
	screen *os.File
}

func newConsole(s Streams) *console {
	c := &console{in: s.In, out: bufio.NewWriter(s.Out), err: s.Err}
	_, inTerminal := terminal(s.In)
	_, c.followed = terminal(s.Err)
	c.screen, c.shown = terminal(s.Out)
	c.asks = inTerminal && c.followed
	c.coloured = c.shown && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return c
}

func terminal(stream any) (*os.File, bool) {
	f, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, false
	}
	return f, true
}

// height is how many lines the screen has.
func (c *console) height() int {
	if c.screen == nil {
		return 0
	}
	_, height, err := term.GetSize(int(c.screen.Fd()))
	if err != nil {
		return 24 // a terminal that does not tell has what terminals had first
	}
	return height
}

// errOutput is that nobody reads what is printed, or that it cannot be written.
var errOutput = errors.New("output")

// flush writes out what was printed.
func (c *console) flush() error {
	if err := c.out.Flush(); err != nil {
		return fmt.Errorf("%w: %w", errOutput, err)
	}
	return nil
}

// printf prints text that is fit for a terminal.
func (c *console) printf(format string, args ...any) error {
	if _, err := fmt.Fprintf(c.out, format, args...); err != nil {
		return fmt.Errorf("%w: %w", errOutput, err)
	}
	return nil
}

// object prints one object as a line of JSON.
func (c *console) object(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("%w: %w", errOutput, err)
	}
	if c.shown {
		// JSON leaves some characters as they are that terminals obey. They stand in strings
		// alone, where an escape means the same.
		return c.printf("%s", escaped(b.String()))
	}
	return c.printf("%s", b.String())
}

// note tells people something that is no result. It does not matter whether anybody
// reads it.
func (c *console) note(format string, args ...any) {
	_, _ = fmt.Fprintf(c.err, format+"\n", args...)
}

// read has do read standard input, and does not wait for it when ctx ends: a read of a
// terminal or a pipe cannot be broken off. What do sets is not to be looked at then.
func (c *console) read(ctx context.Context, do func(in io.Reader) error) error {
	done := make(chan error, 1)
	go func() { done <- do(c.in) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// confirm asks whether to do what cannot be undone.
func (c *console) confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if !c.asks {
		return usagef("%s Nobody can be asked here; --yes says that it is meant", question)
	}
	_, _ = fmt.Fprintf(c.err, "%s [y/N] ", question) // nobody answers what is not seen
	var answer string
	err := c.read(ctx, func(in io.Reader) (err error) {
		answer, err = bufio.NewReader(in).ReadString('\n')
		return err
	})
	if ctx.Err() != nil {
		return err
	}
	if err != nil && answer == "" {
		return &statusError{errors.New("no answer, so nothing was done"), exitInterrupted}
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	default:
		return &statusError{errors.New("nothing was done"), exitInterrupted}
	}
}

// colour is an ANSI code.
type colour string

const (
	plain  colour = ""
	bold   colour = "1"
	dim    colour = "2"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
)

func (c *console) paint(with colour, text string) string {
	if !c.coloured || with == plain || text == "" {
		return text
	}
	return "\x1b[" + string(with) + "m" + text + "\x1b[0m"
}
