package docs_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/test/harness"
)

// walk is one reader with one page.
type walk struct {
	*testing.T
	page *page
	// host takes the place of 127.0.0.1.
	host string
	dir  string
	env  []string
	// shell is opened by the first block that needs one.
	shell     *shell
	terminals map[string]*terminal
}

func newWalk(t *testing.T, p *page, number int) *walk {
	t.Helper()
	w := &walk{T: t, page: p, dir: t.TempDir(), terminals: map[string]*terminal{}}
	w.host = fmt.Sprintf("127.%d.%d.%d", 64+number, os.Getpid()>>8&255, os.Getpid()&255)
	return w
}

// prepare gives the walk its surroundings once a block needs them.
func (w *walk) prepare() {
	if w.shell != nil {
		return
	}
	w.Helper()
	if l, err := net.Listen("tcp", w.host+":0"); err != nil {
		w.Skipf("this system has one loopback address alone: %v", err)
	} else {
		l.Close()
	}
	bin := filepath.Dir(harness.Build(w))
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "POSTHASTE_") && !strings.HasPrefix(variable, "PATH=") {
			w.env = append(w.env, variable)
		}
	}
	w.env = append(w.env,
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"POSTHASTE_URL=http://"+w.host+":2319",
		"POSTHASTE_LISTEN="+w.host+":2319",
		"POSTHASTE_ADMIN_LISTEN="+w.host+":2320",
		"POSTHASTE_LISTEN_ADDR="+w.host+":8080",
		"NO_COLOR=1",
	)
	w.env = append(w.env, goEnv...)
	writeModule(w, w.dir)
	w.shell = openShell(w.T, w.dir, w.env)
	if !w.beginsWithServer() {
		if err := w.open("server", "posthaste serve --dev", ""); err != nil {
			w.Fatal(err)
		}
	}
}

// beginsWithServer says whether the first block that is run starts a server.
func (w *walk) beginsWithServer() bool {
	i := slices.IndexFunc(w.page.steps, func(s step) bool {
		_, skipped := s.words["skip"]
		return !skipped && (s.lang == "sh" || s.lang == "console")
	})
	return i >= 0 && w.page.steps[i].words["terminal"] != "" && strings.Contains(w.local(w.page.steps[i].text), "posthaste serve")
}

// local is a block as it is run here.
func (w *walk) local(text string) string {
	return strings.NewReplacer("127.0.0.1", w.host, "localhost", w.host, "0.0.0.0", w.host, "go run ./cmd/posthaste", "posthaste").Replace(text)
}

// printed is an output as the page would show it.
func (w *walk) printed(text string) string { return strings.ReplaceAll(text, w.host, "127.0.0.1") }

// takeAll takes step after step, up to the first that goes wrong: what follows stands on it.
func (w *walk) takeAll() error {
	for i := range w.page.steps {
		s := &w.page.steps[i]
		if _, skipped := s.words["skip"]; skipped {
			continue
		}
		if err := w.take(s); err != nil {
			return fmt.Errorf("%s:%d: %w", w.page.name, s.line, err)
		}
	}
	return nil
}

// take takes one step.
func (w *walk) take(s *step) error {
	if s.stop != "" {
		return w.close(s.stop)
	}
	if name := s.words["file"]; name != "" {
		w.prepare()
		path := filepath.Join(w.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(w.local(s.text)), 0o644); err != nil {
			return err
		}
	}
	switch s.lang {
	case "sh":
		w.prepare()
		if name := s.words["terminal"]; name != "" {
			return w.open(name, w.local(s.text), s.words["until"])
		}
		return w.sh(s)
	case "console":
		w.prepare()
		return w.console(s)
	case "text":
		return w.shows(s)
	default:
		return w.check(s)
	}
}

// open runs a script in the terminal of this name, and waits until it is ready.
func (w *walk) open(name, script, until string) error {
	w.Helper()
	if w.terminals[name] != nil {
		if err := w.close(name); err != nil {
			return err
		}
	}
	term := openTerminal(w.T, w.dir, w.env, script)
	w.terminals[name] = term
	if until == "" {
		until = "listening"
	}
	if !term.await(func(output string) bool { return strings.Contains(w.printed(output), until) }) {
		return fmt.Errorf("terminal %s does not print %q:\n%s", name, until, term)
	}
	return nil
}

func (w *walk) close(name string) error {
	term := w.terminals[name]
	if term == nil {
		return fmt.Errorf("there is no terminal %s to stop", name)
	}
	if !term.stop() {
		return fmt.Errorf("terminal %s does not end on Ctrl-C:\n%s", name, term)
	}
	return nil
}

// refusal is an answer of the server that refuses the call.
var refusal = regexp.MustCompile(`"code": ?[45]\d\d`)

// malformed is one that no server could have taken.
var malformed = regexp.MustCompile(`"code": ?400`)

func (w *walk) sh(s *step) error {
	want, err := s.status()
	if err != nil {
		return err
	}
	output, status, err := w.shell.run(w.local(s.text), want == 0)
	_, mayRefuse := s.words["refused"]
	bad := refusal
	if w.page.generated {
		// Its calls are examples that stand alone, of items that are not there.
		bad = malformed
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w\n%s", err, output)
	case status != want:
		return fmt.Errorf("status %d, want %d:\n%s", status, want, output)
	case !mayRefuse && bad.MatchString(output):
		return fmt.Errorf("a call was refused:\n%s", output)
	case mayRefuse && !refusal.MatchString(output):
		return fmt.Errorf("no call was refused:\n%s", output)
	}
	return nil
}

// status is how the step's last command should end.
func (s *step) status() (int, error) {
	if s.words["status"] == "" {
		return 0, nil
	}
	return strconv.Atoi(s.words["status"])
}

// console runs the commands of a dialogue one by one.
func (w *walk) console(s *step) error {
	want, err := s.status()
	if err != nil {
		return err
	}
	commands := dialogue(s.text)
	if len(commands) == 0 {
		return fmt.Errorf("no line begins with $ and a space")
	}
	for i, c := range commands {
		output, status, err := w.shell.run(w.local(c.command), false)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w\n%s", c.command, err, output)
		case i < len(commands)-1 && status != 0, i == len(commands)-1 && status != want:
			return fmt.Errorf("%s: status %d:\n%s", c.command, status, output)
		case !matches(c.shown, w.printed(output)):
			return fmt.Errorf("%s\nprints\n%s\nand the page shows\n%s", c.command, w.printed(output), c.shown)
		}
	}
	return nil
}

// exchange is a command and what is shown below it.
type exchange struct{ command, shown string }

// dialogue takes a console apart. A command goes on in lines that begin with > and a
// space, or behind a backslash.
func dialogue(text string) []exchange {
	var all []exchange
	goesOn := false
	for line := range strings.Lines(text) {
		command, begins := strings.CutPrefix(line, "$ ")
		more, continues := strings.CutPrefix(line, "> ")
		switch {
		case begins:
			all = append(all, exchange{command: command})
		case len(all) == 0:
			continue
		case goesOn:
			all[len(all)-1].command += line
		case continues && all[len(all)-1].shown == "":
			all[len(all)-1].command += more
		default:
			all[len(all)-1].shown += line
		}
		goesOn = (begins || goesOn) && strings.HasSuffix(line, "\\\n")
	}
	return all
}

// shows waits until a terminal shows what the page says it does.
func (w *walk) shows(s *step) error {
	name := s.words["from"]
	if name == "" {
		return nil // a drawing
	}
	term := w.terminals[name]
	if term == nil {
		return fmt.Errorf("there is no terminal %s", name)
	}
	if !term.await(func(output string) bool { return contains(w.printed(output), s.text) }) {
		return fmt.Errorf("terminal %s does not come to show\n%s\nbut\n%s", name, s.text, w.printed(term.String()))
	}
	return nil
}
