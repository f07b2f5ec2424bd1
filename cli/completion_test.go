package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/test/inproc"
)

func TestCompletion_KnowsCommandsFlagsAndNames(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "orders")
	s.ok("queues", "create", "bills")
	s.ok("subscriptions", "create", "shop", "orders", "https://shop.example/")
	tests := []struct {
		words string // the last of them is completed
		want  []string
	}{
		{"que", []string{"queues"}},
		{"queues re", []string{"resume", "reload"}},
		{"queues pause --si", []string{"--side"}},
		{"queues pause --side ", []string{"both", "lease", "produce"}},
		{"queues pause --side lease ", []string{"bills", "orders"}},
		{"queues info or", []string{"orders"}},
		{"queues info orders ", nil},
		{"queues stats orders ", []string{"bills", "orders"}},
		{"subscriptions info ", []string{"shop"}},
		{"redrive --to b", []string{"bills"}},
		{"redrive --dry-run --to=bills o", []string{"orders"}},
		{"completion ", []string{"bash", "fish", "zsh"}},
		{"items cancel --queue o", []string{"orders"}},
		{"queues info --url http://127.0.0.1:1 ", nil},
		{"produce -k kind o", []string{"orders"}},
		{"__comp", nil},
	}
	for _, tt := range tests {
		got := strings.Fields(s.ok(append([]string{"__complete", "--"}, strings.Split(tt.words, " ")...)...))
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %q, want %q", tt.words, got, tt.want)
		}
	}
}

func TestCompletion_PrintsAScriptForEachShell(t *testing.T) {
	s := newShell(t, inproc.Options{})
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if script := s.ok("completion", shell); !strings.Contains(script, "__complete --") || !strings.Contains(script, shell+" completion of posthaste") {
			t.Errorf("%s: got\n%s", shell, script)
		}
	}
	if _, err := parse(t, "completion", "tcsh"); err == nil {
		t.Error("a shell that is not known was taken")
	}
}
