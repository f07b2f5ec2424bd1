package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"go.uber.org/goleak"

	"github.com/posthaste-io/posthaste/test/inproc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// result is what a command left.
type result struct {
	status      int
	out, errors string
	err         error
}

// shell runs commands against one server.
type shell struct {
	t   *testing.T
	url string
}

func newShell(t *testing.T, o inproc.Options) *shell {
	t.Helper()
	// Those of whoever runs the tests must not get in.
	for _, name := range []string{"POSTHASTE_URL", "POSTHASTE_KEY", "POSTHASTE_KEY_FILE"} {
		t.Setenv(name, "")
	}
	url := inproc.Start(t, o)
	t.Setenv("POSTHASTE_URL", url)
	return &shell{t, url}
}

// parse reads a command line.
func parse(t *testing.T, args ...string) (Command, error) {
	t.Helper()
	parser, err := kong.New(new(Commands), kong.Name("posthaste"), kong.ExplicitGroups(Groups), kong.Writers(io.Discard, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return nil, err
	}
	return parsed.Selected().Target.Addr().Interface().(Command), nil
}

// run runs a command with text on its standard input.
func (s *shell) run(stdin string, args ...string) result {
	s.t.Helper()
	var out bytes.Buffer
	return s.runTo(s.t.Context(), &out, strings.NewReader(stdin), args...)
}

func (s *shell) runTo(ctx context.Context, out io.Writer, in io.Reader, args ...string) result {
	s.t.Helper()
	command, err := parse(s.t, args...)
	if err != nil {
		s.t.Fatalf("%v: %v", args, err)
	}
	var messages bytes.Buffer
	r := result{err: Run(ctx, command, Streams{In: in, Out: out, Err: &messages})}
	r.errors = messages.String()
	if text, ok := out.(*bytes.Buffer); ok {
		r.out = text.String()
	}
	if r.err != nil {
		known, ok := errors.AsType[*statusError](r.err)
		if !ok {
			s.t.Fatalf("%v: %v, which has no exit status", args, r.err)
		}
		r.status = known.ExitStatus()
	}
	return r
}

// ok runs a command that must do its work, and returns what it printed.
func (s *shell) ok(args ...string) string {
	s.t.Helper()
	r := s.run("", args...)
	if r.err != nil {
		s.t.Fatalf("%v: status %d: %v", args, r.status, r.err)
	}
	return r.out
}

// object runs a command with --json that prints one object.
func (s *shell) object(args ...string) map[string]any {
	s.t.Helper()
	list := s.objects(append(args, "--json")...)
	if len(list) != 1 {
		s.t.Fatalf("%v: printed %d objects, want one", args, len(list))
	}
	return list[0]
}

func (s *shell) objects(args ...string) []map[string]any {
	s.t.Helper()
	return decode(s.t, s.ok(args...))
}

func decode(t *testing.T, text string) []map[string]any {
	t.Helper()
	var list []map[string]any
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var v map[string]any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		list = append(list, v)
	}
}

// onScreen is what print prints on a terminal, with colours or without.
func onScreen(t *testing.T, coloured bool, print func(c *console) error) string {
	t.Helper()
	var b bytes.Buffer
	c := &console{out: bufio.NewWriter(&b), err: &b, shown: true, coloured: coloured}
	if err := print(c); err != nil {
		t.Fatal(err)
	}
	if err := c.flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
