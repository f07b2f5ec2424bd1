package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var update = flag.Bool("update", false, "write golden files anew")

const referencePath = "../../docs/cli.md"

// The reference is made from what the parser knows, so it cannot tell of a flag that
// there is not. go test ./cmd/posthaste -run Reference -update writes it anew.
func TestReference_TellsEveryCommandAndFlag(t *testing.T) {
	t.Parallel()
	parser, err := newParser(io.Discard, io.Discard, func() {})
	if err != nil {
		t.Fatal(err)
	}
	want := reference(parser.Model)
	if *update {
		if err := os.WriteFile(referencePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the program takes; write it anew with -update", referencePath)
	}
}

const referenceHead = `<!-- Made from the program by go test ./cmd/posthaste -run Reference -update; change its help texts. -->

# The command line

` + "`posthaste <command> --help`" + ` tells what stands here. Commands that call a server take ` + "`--url`" + ` (or
` + "`$POSTHASTE_URL`" + `; http://127.0.0.1:2319), ` + "`--key-file`" + ` (or ` + "`$POSTHASTE_KEY_FILE`; `$POSTHASTE_KEY`" + ` is the key itself) and ` + "`--json`" + `. They print
tables and colours on a terminal; elsewhere they print one line a row, with tabs between its fields and without a head.
` + "`NO_COLOR`" + ` turns colours off. ` + "`--json`" + ` prints one object a line, with the names of [the HTTP interface](api.md). What destroys
something asks on a terminal, and is refused elsewhere, unless ` + "`--yes`" + ` says that it is meant.

| exit status | of what calls a server | of what runs here |
|---|---|---|
| 0 | done | ended well |
| 1 | refused, not found, or did not work; some of it, for several lines or leases | did not work |
| 2 | the command line makes no sense | the same |
| 3 | | the store broke while serving |
| 4 | no server was reached, or it takes no calls now | |
| 5 | nothing came (` + "`lease`" + `) or ended (` + "`items wait`" + `) in the time that was given | |
| 130 | interrupted before it was done, or somebody said no | |

Completion in bash: ` + "`source <(posthaste completion bash)`" + `. It knows commands, flags, and the names of queues, subscriptions and schedules
of the server that ` + "`$POSTHASTE_URL` or `--url`" + ` names.
`

func reference(root *kong.Application) string {
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, group := range groups {
		heading := strings.TrimSuffix(group.Title, ":")
		for _, command := range root.Children {
			if command.Group == nil || command.Group.Key != group.Key || command.Hidden {
				continue
			}
			if heading != "" {
				fmt.Fprintf(&b, "\n## %s\n", heading)
				heading = ""
			}
			for _, leaf := range leaves(command) {
				describeCommand(&b, leaf)
			}
		}
	}
	return b.String()
}

// leaves are a command's own commands, or itself if it has none.
func leaves(n *kong.Node) []*kong.Node {
	if n.Leaf() {
		return []*kong.Node{n}
	}
	return n.Leaves(true)
}

func describeCommand(b *strings.Builder, n *kong.Node) {
	usage := "posthaste " + n.Path()
	for _, arg := range n.Positional {
		usage += " " + arg.Summary()
	}
	fmt.Fprintf(b, "\n### posthaste %s\n\n`%s`\n\n%s\n", n.Path(), usage, n.Help)
	calls := false
	var rows strings.Builder
	for _, arg := range n.Positional {
		fmt.Fprintf(&rows, "| `%s` | | %s |\n", arg.Summary(), inCell(arg.Help))
	}
	asServe := n.Name == "config"
	for _, f := range n.Flags {
		switch {
		case f.Name == "help" || f.Hidden || asServe && f.Name != "json":
			continue
		case f.Group != nil && f.Group.Key == "connection":
			calls = true
			continue
		}
		name := "`--" + f.Name + "`"
		if f.Short != 0 {
			name = fmt.Sprintf("`-%c`, %s", f.Short, name)
		}
		if f.Tag.Negatable != "" {
			name += ", `--no-" + f.Name + "`"
		}
		value := ""
		if f.HasDefault {
			value = "`" + f.Default + "`"
		}
		help := f.Help
		if len(f.Envs) > 0 {
			help = strings.TrimSuffix(help, " ($"+f.Envs[0]+")") + " `$" + f.Envs[0] + "`"
		}
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", name, strings.ReplaceAll(value, "``", ""), inCell(help))
	}
	if rows.Len() > 0 {
		fmt.Fprintf(b, "\n| | default | |\n|---|---|---|\n%s", rows.String())
	}
	if asServe {
		b.WriteString("\nAlso the flags of `posthaste serve`.\n")
	}
	if calls {
		b.WriteString("\nAlso `--url`, `--key-file`, `--json`.\n")
	}
}

// inCell keeps text from ending a cell of a table.
func inCell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
