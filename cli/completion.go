package cli

import (
	"context"
	_ "embed"
	"iter"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/posthaste-io/posthaste/api/client"
)

// The scripts ask the program for the words that may follow, so that they know all
// commands of the program that is installed, and the names that the server has.
var (
	//go:embed completion/posthaste.bash
	bashScript string
	//go:embed completion/_posthaste
	zshScript string
	//go:embed completion/posthaste.fish
	fishScript string
)

// completionCommand prints a script for a shell.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish. For bash: source <(posthaste completion bash); for zsh: posthaste completion zsh > \"$${fpath[1]}/_posthaste\"; for fish: posthaste completion fish > ~/.config/fish/completions/posthaste.fish."`
}

// run implements Command.
func (f *completionCommand) run(_ context.Context, c *console) error {
	return c.printf("%s", map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[f.Shell])
}

// wordsCommand prints the words that may follow, for the scripts.
type wordsCommand struct {
	Words []string `arg:"" optional:""`

	model *kong.Node
}

// AfterApply is called by kong, with what it parsed.
func (f *wordsCommand) AfterApply(parsed *kong.Context) error {
	f.model = parsed.Model.Node
	return nil
}

// completionTime bounds how long a shell waits for names from the server.
const completionTime = time.Second

// run implements Command.
func (f *wordsCommand) run(ctx context.Context, c *console) error {
	words := f.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	p := followWords(f.model, words[:len(words)-1])
	word := words[len(words)-1]
	candidates := p.candidates(word)
	if p.names != "" {
		ctx, cancel := context.WithTimeout(ctx, completionTime)
		defer cancel()
		candidates = append(candidates, serverNames(ctx, p.names, p.connection)...)
	}
	for _, candidate := range candidates {
		if strings.HasPrefix(candidate, word) {
			if err := c.printf("%s\n", candidate); err != nil {
				return err
			}
		}
	}
	return nil
}

// place is where a command line stands.
type place struct {
	node *kong.Node
	// value is the flag whose value is next, or nil.
	value *kong.Flag
	// positional is the argument that is next, or nil.
	positional *kong.Value
	// names says what the server knows names of that may be next: queue, subscription,
	// schedule.
	names      string
	connection connection
}

// followWords reads the words before the one that is completed.
func followWords(root *kong.Node, words []string) place {
	p := place{node: root, connection: connection{KeyFile: os.Getenv("POSTHASTE_KEY_FILE")}}
	args := 0
	for _, word := range words {
		switch {
		case p.value != nil:
			p.take(p.value.Name, word)
			p.value = nil
		case strings.HasPrefix(word, "-") && word != "-":
			name, value, joined := strings.Cut(word, "=")
			flag := findFlag(p.node, name)
			switch {
			case flag == nil:
			case joined:
				p.take(flag.Name, value)
			case !flag.IsBool():
				p.value = flag
			}
		default:
			if child := findChild(p.node, word); child != nil {
				p.node = child
				continue
			}
			args++
		}
	}
	if list := p.node.Positional; len(list) > 0 {
		if next := list[min(args, len(list)-1)]; args < len(list) || next.IsCumulative() {
			p.positional = next
		}
	}
	switch {
	case p.value != nil:
		p.names = namesOf(p.value.Name)
	case p.positional != nil && p.positional.Name == "topic":
		p.names = "topic" // so is one of --topic
	case p.positional != nil && p.positional.Name == "schedule":
		p.names = "schedule" // a flag of this name takes something else
	case p.positional != nil:
		p.names = namesOf(p.positional.Name)
	}
	return p
}

// take keeps what says which server is meant.
func (p *place) take(flag, value string) {
	switch flag {
	case "url":
		p.connection.URL = value
	case "key-file":
		p.connection.KeyFile = value
	}
}

// namesOf says which names of the server's an argument or a flag takes.
func namesOf(name string) string {
	switch name {
	case "queue", "to", "from", "dead-queue", "on-done":
		return "queue"
	case "subscription":
		return "subscription"
	default:
		return ""
	}
}

func findFlag(n *kong.Node, word string) *kong.Flag {
	for ; n != nil; n = n.Parent {
		for _, flag := range n.Flags {
			if word == "--"+flag.Name || flag.Short != 0 && word == "-"+string(flag.Short) {
				return flag
			}
		}
	}
	return nil
}

func findChild(n *kong.Node, word string) *kong.Node {
	i := slices.IndexFunc(n.Children, func(child *kong.Node) bool { return child.Name == word && !child.Hidden })
	if i < 0 {
		return nil
	}
	return n.Children[i]
}

// candidates are the words that the program itself knows.
func (p *place) candidates(word string) []string {
	if p.value != nil {
		return enumOf(p.value.Value)
	}
	var out []string
	if strings.HasPrefix(word, "-") {
		for n := p.node; n != nil; n = n.Parent {
			for _, flag := range n.Flags {
				if flag.Hidden {
					continue
				}
				out = append(out, "--"+flag.Name)
				if flag.Tag.Negatable != "" {
					out = append(out, "--no-"+flag.Name)
				}
			}
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	for _, child := range p.node.Children {
		if !child.Hidden {
			out = append(out, child.Name)
		}
	}
	if p.positional != nil {
		out = append(out, enumOf(p.positional)...)
	}
	return out
}

func enumOf(v *kong.Value) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(v.EnumMap())), func(word string) bool { return word == "" })
}

// serverNames asks the server. Without an answer there are none: a shell is no place
// for errors.
func serverNames(ctx context.Context, of string, f connection) []string {
	cl, err := f.dial(client.Options{Tries: 1})
	if err != nil {
		return nil
	}
	defer cl.Close()
	switch of {
	case "queue":
		return namesIn(cl.Queues(ctx), func(q client.Queue) string { return q.Name })
	case "topic":
		return namesIn(cl.Topics(ctx), func(t client.Topic) string { return t.Name })
	case "schedule":
		return namesIn(cl.Schedules(ctx), func(s client.Schedule) string { return s.Name })
	default:
		return namesIn(cl.Subscriptions(ctx), func(s client.Subscription) string { return s.Name })
	}
}

func namesIn[T any](list iter.Seq2[T, error], name func(T) string) []string {
	var out []string
	for it, err := range list {
		if err != nil {
			return out
		}
		// A shell puts it into a command line: a server that is none of ours must not write
		// commands there.
		if n := name(it); plainName.MatchString(n) {
			out = append(out, n)
		}
	}
	return out
}

// plainName is a name as servers take it.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~-]*$`)
