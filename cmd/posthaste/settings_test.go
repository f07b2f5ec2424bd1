package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

//go:generate go test -count=1 -run ^TestSettings . -update

const settingsPath = "../../docs/configuration.md"

// settingsMarks stand around the tables that are made; the rest of the page is written
// by hand.
const (
	settingsBegin = "<!-- Made by go generate ./cmd/posthaste from here on; change the help of the flags. -->\n"
	settingsEnd   = "<!-- Made up to here. -->\n"
)

// settingsTopics put the flags of serve in an order in which people look for them. What
// is not named here is missed by the test.
var settingsTopics = []struct {
	title string
	flags []string
}{
	{"Where it listens, and for whom", []string{"listen", "admin-listen", "root-key-file", "encryption-key-file", "tls-cert", "tls-key", "allow-plaintext"}},
	{"Where items are kept", []string{"store", "window", "min-free-disk", "accept-data-loss", "keep-records", "schema", "migrate", "hints"}},
	{"Pushes", []string{"egress-allow", "egress-https-only", "max-pushes", "grace"}},
	{"Limits of calls", []string{"max-payload", "max-items", "max-call", "max-connections", "max-waiting", "max-polls", "max-body-memory", "max-answer-memory"}},
	{"Logs, and development", []string{"log-format", "log-level", "dev"}},
}

func TestSettings_PageTellsEveryFlagOfServe(t *testing.T) {
	t.Parallel()
	parser, err := newParser(io.Discard, io.Discard, func() {})
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(settingsPath)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, begins := strings.Cut(string(page), settingsBegin)
	_, tail, ends := strings.Cut(rest, settingsEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the tables", settingsPath)
	}
	tables, err := settingsTables(parser.Model)
	if err != nil {
		t.Fatal(err)
	}
	want := head + settingsBegin + tables + settingsEnd + tail
	if want == string(page) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the program takes; run go generate ./cmd/posthaste", settingsPath)
	}
	if err := os.WriteFile(settingsPath, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func settingsTables(root *kong.Application) (string, error) {
	flags := map[string]*kong.Flag{}
	for _, f := range commandNamed(root, "serve").Flags {
		if f.Name != "help" && !f.Hidden {
			flags[f.Name] = f
		}
	}
	var b strings.Builder
	for _, topic := range settingsTopics {
		fmt.Fprintf(&b, "\n## %s\n\n| flag, variable | default | |\n|---|---|---|\n", topic.title)
		for _, name := range topic.flags {
			f := flags[name]
			if f == nil {
				return "", fmt.Errorf("serve has no flag %s", name)
			}
			delete(flags, name)
			writeSetting(&b, f)
		}
	}
	for name := range flags {
		return "", fmt.Errorf("--%s stands under no topic", name)
	}
	b.WriteString("\n## Commands that call a server\n\n| flag, variable | default | |\n|---|---|---|\n")
	for _, f := range commandNamed(root, "produce").Flags {
		if f.Group != nil && f.Group.Key == "connection" {
			writeSetting(&b, f)
		}
	}
	b.WriteString("\n")
	return b.String(), nil
}

func commandNamed(root *kong.Application, name string) *kong.Node {
	i := slices.IndexFunc(root.Children, func(n *kong.Node) bool { return n.Name == name })
	return root.Children[i]
}

func writeSetting(b *strings.Builder, f *kong.Flag) {
	name, value, help := "`--"+f.Name+"`", "", f.Help
	if f.Tag.Negatable != "" {
		name += " `--no-" + f.Name + "`"
	}
	if len(f.Envs) > 0 {
		name += "<br>`" + f.Envs[0] + "`"
		help = strings.TrimSuffix(help, " ($"+f.Envs[0]+")")
	}
	if f.HasDefault && f.Default != "" {
		value = "`" + f.Default + "`"
	}
	fmt.Fprintf(b, "| %s | %s | %s |\n", name, value, inCell(help))
}
