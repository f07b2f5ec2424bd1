package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the source tree.
const root = "../.."

// page is a document, as the steps that a reader takes with it.
type page struct {
	// name is its path below root.
	name  string
	text  string
	steps []step
	// generated says that the page is made from something that has tests of its own.
	generated bool
}

// step is a fenced block, or something that the prose asks the reader to do.
type step struct {
	line int
	// lang is the block's language, empty if none was given; words are what follows.
	lang  string
	words map[string]string
	text  string
	// example is the file of examples/ that the block shows.
	example string
	// stop is the terminal in which the reader presses Ctrl-C here; such a step has no block.
	stop string
}

// readPages reads README.md and docs/*.md.
func readPages(t *testing.T) []*page {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	names = append(names, filepath.Join(root, "README.md"))
	pages := make([]*page, len(names))
	for i, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		short, err := filepath.Rel(root, name)
		if err != nil {
			t.Fatal(err)
		}
		if pages[i], err = parsePage(short, string(text)); err != nil {
			t.Fatal(err)
		}
	}
	return pages
}

var (
	comment = regexp.MustCompile(`^\s*<!-- (\w+): (\S+) -->$`)
	word    = regexp.MustCompile(`^([a-z]+)(?:=(?:"([^"]*)"|([^"\s]\S*)))?(?:\s+|$)`)
)

// parsePage takes a page apart.
func parsePage(name, text string) (*page, error) {
	p := &page{name: filepath.ToSlash(name), text: text, generated: strings.HasPrefix(text, "<!-- Made from ")}
	lines := strings.Split(text, "\n")
	example := ""
	for i := 0; i < len(lines); i++ {
		if m := comment.FindStringSubmatch(lines[i]); m != nil {
			switch m[1] {
			case "file":
				example = m[2]
			case "stop":
				p.steps = append(p.steps, step{line: i + 1, stop: m[2]})
			}
			continue
		}
		line := strings.TrimLeft(lines[i], " ")
		if !strings.HasPrefix(line, "```") {
			continue
		}
		fence := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		s := step{line: i + 1, example: example, words: map[string]string{}}
		example = ""
		if err := s.readInfo(line[len(fence):]); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		indent := lines[i][:len(lines[i])-len(line)]
		var body strings.Builder
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != fence; i++ {
			body.WriteString(strings.TrimPrefix(lines[i], indent) + "\n")
		}
		if i == len(lines) {
			return nil, fmt.Errorf("%s:%d: the block does not end", name, s.line)
		}
		s.text = body.String()
		p.steps = append(p.steps, s)
	}
	return p, nil
}

// readInfo reads what stands behind the fence: a language, and words for this test.
func (s *step) readInfo(info string) error {
	var rest string
	s.lang, rest, _ = strings.Cut(strings.TrimSpace(info), " ")
	for rest = strings.TrimSpace(rest); rest != ""; {
		m := word.FindStringSubmatch(rest)
		if m == nil {
			return fmt.Errorf("%q is no word such as skip=\"a reason\"", rest)
		}
		if !strings.Contains(wordsOf[s.lang], " "+m[1]+" ") {
			return fmt.Errorf("a block of %s takes no word %q", s.lang, m[1])
		}
		s.words[m[1]] = m[2] + m[3]
		rest = rest[len(m[0]):]
	}
	return nil
}

// wordsOf are the words that blocks of a language take; doc.go tells what they mean.
var wordsOf = map[string]string{
	"sh":      " skip terminal until refused status ",
	"console": " skip status ",
	"text":    " from ",
	"go":      " skip file ",
	"py":      " skip file ",
	"python":  " skip file ",
	"ts":      " skip ",
	"json":    " skip file ",
	"yaml":    " skip file ",
	"sql":     " skip ",
	"ini":     " ",
	"promql":  " ",
	"mermaid": " ",
}

func TestParsePage_FindsBlocksWordsAndStops(t *testing.T) {
	t.Parallel()
	p, err := parsePage("a.md", "# A\n\n```sh terminal=one until=\"it runs\"\nx\n```\n\n<!-- stop: one -->\n\n* b\n\n  ```json\n  {}\n  ```\n<!-- file: examples/x.go -->\n```go\ny\n```\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.steps) != 4 {
		t.Fatalf("got %d steps, want 4: %+v", len(p.steps), p.steps)
	}
	one, stop, json, example := p.steps[0], p.steps[1], p.steps[2], p.steps[3]
	if one.lang != "sh" || one.words["terminal"] != "one" || one.words["until"] != "it runs" || one.text != "x\n" || one.line != 3 {
		t.Errorf("got %+v", one)
	}
	if stop.stop != "one" || json.text != "{}\n" || example.example != "examples/x.go" {
		t.Errorf("got %+v, %+v, %+v", stop, json, example)
	}
	for _, bad := range []string{"```sh\nnever ends\n", "```sh frob\n```\n", "```json terminal=x\n```\n", "```sh skip=\"x\n```\n"} {
		if _, err := parsePage("a.md", bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
