package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	s.ok("schedules", "create", "nightly", "orders", "@daily")
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
		{"produce --on-done b", []string{"bills"}},
		{"tail --subscription ", []string{"shop"}},
		{"attempts list --type ", []string{"attempt", "ending", "lapse", "outcome"}},
		{"subscriptions rotate ", []string{"shop"}},
		{"subscriptions create shop --schedule ", nil},
		{"schedules pa", []string{"pause"}},
		{"schedules pause ", []string{"nightly"}},
		{"schedules create nightly ", []string{"bills", "orders"}},
		{"schedules create --overlap ", []string{"allow", "queue_one", "skip"}},
		{"subscriptions update shop --no-de", []string{"--no-defer"}},
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

func TestCompletion_NamesComeWithTheKeyOfTheVariable(t *testing.T) {
	t.Setenv("POSTHASTE_KEY", "")
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("k1"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("POSTHASTE_KEY_FILE", file)
	shown := ""
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { shown = r.Header.Get("Authorization") }))
	defer server.Close()
	t.Setenv("POSTHASTE_URL", server.URL)
	(&shell{t, server.URL}).ok("__complete", "--", "queues", "info", "")
	if shown != "Bearer k1" {
		t.Errorf("the server was shown %q, want the key of the file", shown)
	}
}

func TestNamesIn_LeavesOutWhatAShellWouldObey(t *testing.T) {
	t.Parallel()
	list := func(yield func(string, error) bool) {
		for _, name := range []string{"orders", "orders~dead", "$(reboot)", "a;b", "a\nb", "\x1b[2J", "*"} {
			if !yield(name, nil) {
				return
			}
		}
	}
	got := namesIn(list, func(name string) string { return name })
	if want := []string{"orders", "orders~dead"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
