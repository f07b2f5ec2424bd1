package docs_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A reader who does what the pages say, in their order, sees what the pages show.
func TestPages_WorkAsPrinted(t *testing.T) {
	t.Parallel()
	needTools(t)
	for i, p := range readPages(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			w := newWalk(t, p, i)
			if err := w.takeAll(); err != nil {
				t.Fatal(err)
			}
			if p.name == "README.md" {
				w.wantPulledAlone()
			}
		})
	}
}

// wantPulledAlone is what README says of the item that it pulls.
func (w *walk) wantPulledAlone() {
	w.Helper()
	got := w.terminals["endpoint"].String()
	if !strings.Contains(got, "order 17 again") || strings.Contains(got, "pull me") {
		w.Errorf("what was pulled was pushed as well, or nothing was:\n%s", got)
	}
}

// needTools skips a test without them; where everything has to be there, it fails it.
func needTools(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"bash", "curl", "sed", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("pages need %s: %v", tool, err)
			}
			t.Skipf("pages need %s: %v", tool, err)
		}
	}
}

// skips is how many blocks may be left out, over all pages. What is left out here should
// be tried by another test.
const skips = 15

func TestPages_SkipLittle(t *testing.T) {
	t.Parallel()
	n := 0
	for _, p := range readPages(t) {
		for _, s := range p.steps {
			reason, skipped := s.words["skip"]
			if !skipped {
				continue
			}
			n++
			if len(strings.Fields(reason)) < 3 {
				t.Errorf("%s:%d: %q is no reason to skip a block", p.name, s.line, reason)
			}
		}
	}
	if n > skips {
		t.Errorf("%d blocks are skipped, want %d at most", n, skips)
	}
}

// A walk that lets mistakes pass would prove nothing.
func TestWalk_StopsAtWhatIsWrong(t *testing.T) {
	t.Parallel()
	needTools(t)
	const server = "http://127.0.0.1:2319"
	for i, tt := range []struct{ name, page, want string }{
		{"a command fails", "```sh\nfalse\ntrue\n```\n", "status 1"},
		{"a call is refused", "```sh\ncurl -sS --json '{}' " + server + "/v1/queue.lease\n```\n", "was refused"},
		{"a call is not refused", "```sh refused\ncurl -sS --json '{}' " + server + "/v1/queues.list\n```\n", "no call was refused"},
		{"an output differs", "```console\n$ echo one\ntwo\n```\n", "prints\none"},
		{"an output is longer", "```console\n$ echo one; echo two\none\n```\n", "prints\none\ntwo"},
		{"a dialogue fails", "```console\n$ false\n```\n", "status 1"},
		{"a dialogue does not fail", "```console status=1\n$ true\n```\n", "status 0"},
		{"a terminal ends", "```sh terminal=a\ntrue\n```\n", "does not print"},
		{"a terminal shows something else", "```sh terminal=a until=one\necho one\n```\n```text from=a\ntwo\n```\n", "does not come to show"},
		{"there is no such terminal", "```text from=a\ntwo\n```\n", "no terminal a"},
		{"a program does not compile", "```go file=a/main.go\npackage main\n\nfunc main() { frob() }\n```\n", "undefined: frob"},
		{"a part does not compile", "```go\nerr := c.Frob(ctx)\n```\n", "Frob"},
		{"an example is another", "<!-- file: examples/worker/main.go -->\n```go\npackage main\n```\n", "another"},
		{"JSON is none", "```json\n{,}\n```\n", "invalid character"},
		{"YAML is none", "```yaml\na: [\n```\n", ""},
		{"a block has no language", "```\nls\n```\n", "no language"},
		{"a language is not known", "```ts\nlet a\n```\n", "no way is known"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := parsePage("a.md", tt.page)
			if err != nil {
				t.Fatal(err)
			}
			if err := newWalk(t, p, 100+i).takeAll(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
