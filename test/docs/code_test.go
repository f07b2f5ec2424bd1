package docs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/go-yaml"
)

// check judges a block that is not run by itself.
func (w *walk) check(s *step) error {
	if s.example != "" {
		return sameAsExample(s)
	}
	switch s.lang {
	case "go":
		w.prepare()
		return w.compile(s)
	case "py", "python":
		return compilePython(w.local(s.text))
	case "json":
		return parseAll(json.NewDecoder(strings.NewReader(s.text)).Decode)
	case "yaml":
		return parseAll(yaml.NewDecoder(strings.NewReader(s.text)).Decode)
	case "mermaid":
		return checkDiagram(s.text)
	case "ini", "promql", "sql":
		return nil // for other programs
	case "":
		return errors.New("the block has no language; want sh, console, text or another that this test knows")
	default:
		return fmt.Errorf("no way is known to check a block of %s; it may be a file of examples/", s.lang)
	}
}

// sameAsExample: a file of examples/ has a test that runs it.
func sameAsExample(s *step) error {
	content, err := os.ReadFile(filepath.Join(root, s.example))
	if err != nil {
		return err
	}
	if string(content) != s.text {
		return fmt.Errorf("it is another %s", s.example)
	}
	return nil
}

// parseAll reads one document after the other.
func parseAll(decode func(any) error) error {
	for {
		var v any
		if err := decode(&v); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func compilePython(source string) error {
	python, err := exec.LookPath("python3")
	if err != nil {
		return nil // those who have it will see
	}
	cmd := exec.Command(python, "-c", "import ast, sys; ast.parse(sys.stdin.read())")
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

var diagrams = []string{"flowchart", "stateDiagram-v2", "sequenceDiagram", "graph"}

func checkDiagram(text string) error {
	kind, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if kind, _, _ = strings.Cut(kind, " "); !slices.Contains(diagrams, kind) {
		return fmt.Errorf("%q is no kind of diagram; want one of %v", kind, diagrams)
	}
	return nil
}

// goEnv has Go build without the network, from what this source tree needs itself.
var goEnv = []string{"GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off"}

var (
	moduleLine = regexp.MustCompile(`(?m)^module (.+)$`)
	toolBlock  = regexp.MustCompile(`(?ms)^tool \(.*?^\)$`)
)

// writeModule makes dir a module in which this one can be imported, as readers have it.
func writeModule(tb testing.TB, dir string) {
	tb.Helper()
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			tb.Fatal(err)
		}
		if name == "go.mod" {
			tree, err := filepath.Abs(root)
			if err != nil {
				tb.Fatal(err)
			}
			path := moduleLine.FindSubmatch(content)[1]
			content = moduleLine.ReplaceAll(content, []byte("module reader"))
			content = toolBlock.ReplaceAll(content, nil)
			content = fmt.Appendf(content, "\nrequire %s v0.0.0\n\nreplace %s => %s\n", path, path, tree)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			tb.Fatal(err)
		}
	}
}

// compile builds a block, as the file that it is or as a part of one.
func (w *walk) compile(s *step) error {
	source := w.local(s.text)
	dir := filepath.Dir(s.words["file"])
	if s.words["file"] == "" {
		dir = fmt.Sprintf("line%d", s.line)
		if err := os.MkdirAll(filepath.Join(w.dir, dir), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(w.dir, dir, "main.go"), []byte(wrap(source)), 0o644); err != nil {
			return err
		}
	}
	cmd := exec.Command("go", "vet", "./"+filepath.ToSlash(dir))
	cmd.Dir, cmd.Env = w.dir, w.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// What parts of programs may use without saying so.
var packages = map[string]string{
	"bytes": "bytes", "context": "context", "errors": "errors", "fmt": "fmt", "http": "net/http", "log": "log",
	"os": "os", "slog": "log/slog", "time": "time",
	"client":   "github.com/posthaste-io/posthaste/api/client",
	"webhooks": "github.com/posthaste-io/posthaste/webhooks",
}

// wrap makes a program of a part of one: declarations, or statements of a function that
// has a context and a client and returns an error.
func wrap(source string) string {
	if strings.HasPrefix(source, "package ") {
		return source
	}
	var b bytes.Buffer
	b.WriteString("package main\n\n")
	declares := regexp.MustCompile(`^(//|func|type|var|const|import) ?`).MatchString(source)
	whole := source
	if !declares {
		whole = "func part(ctx context.Context, c *client.Client) error {\n" + source + "\nreturn nil\n}\n"
	}
	for name, path := range packages {
		if regexp.MustCompile(`\b`+name+`\.`).MatchString(whole) && !strings.Contains(source, `"`+path+`"`) {
			fmt.Fprintf(&b, "import %q\n", path)
		}
	}
	b.WriteString(whole)
	b.WriteString("\nfunc main() {}\n")
	return b.String()
}
