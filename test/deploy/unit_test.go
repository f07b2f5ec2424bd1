package deploy_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
	"github.com/posthaste-io/posthaste/test/harness"
)

// program is where the unit looks for posthaste.
const program = "/usr/local/bin/posthaste"

// unit returns a copy of the unit that runs the program under test.
func unit(t *testing.T) string {
	t.Helper()
	text := read(t, root+"/deploy/posthaste.service")
	if !strings.Contains(text, "ExecStart="+program+" serve\n") {
		t.Fatalf("the unit does not run %s serve", program)
	}
	path := filepath.Join(t.TempDir(), "posthaste.service")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, program, harness.Build(t))), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUnit_SystemdHasNothingToSay(t *testing.T) {
	t.Parallel()
	analyze := find(t, "systemd-analyze")
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", unit(t)).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("verify: %v\n%s", err, out)
	}
}

func TestUnit_MayDoLittle(t *testing.T) {
	t.Parallel()
	analyze := find(t, "systemd-analyze")
	const worst = "20" // of 100
	out, err := exec.CommandContext(t.Context(), analyze, "security", "--no-pager", "--offline=true", "--threshold="+worst, unit(t)).CombinedOutput()
	if err != nil {
		t.Errorf("security: %v\n%s", err, out)
	}
}

// What the filter of the unit does not let through would be seen first by a user.
func TestUnit_FilterLetsPassWhatAServerCalls(t *testing.T) {
	t.Parallel()
	analyze, strace := find(t, "systemd-analyze"), find(t, "strace")
	allowed := map[string]bool{}
	for _, filter := range regexp.MustCompile(`(?m)^SystemCallFilter=(~?)(@\S+)$`).FindAllStringSubmatch(read(t, unit(t)), -1) {
		for name := range syscallSet(t, analyze, filter[2]) {
			allowed[name] = filter[1] == ""
		}
	}
	calls := filepath.Join(t.TempDir(), "calls")
	// With -D the process that is spawned is the server, and strace another one.
	server := harness.Spawn(t, harness.Options{Program: strace}, "-D", "-f", "-q", "-o", calls, harness.Build(t),
		"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-format", "json", "--egress-allow", "127.0.0.1/32")
	var listening []string
	eventually(t, "listening", func() bool {
		listening = regexp.MustCompile(`"msg":"listening","api":"(.*?)"`).FindStringSubmatch(server.Log())
		return listening != nil
	})
	push(t, "http://"+listening[1])
	server.Stop()
	eventually(t, "traced to its end", func() bool {
		return strings.Contains(read(t, calls), "+++ exited with 0 +++")
	})
	seen := map[string]bool{}
	for line := range strings.Lines(read(t, calls)) {
		_, call, _ := strings.Cut(line, " ")
		name, _, ok := strings.Cut(strings.TrimSpace(call), "(")
		if !ok || strings.ContainsAny(name, " <") || seen[name] {
			continue
		}
		seen[name] = true
		if !allowed[name] {
			t.Errorf("calls %s, which the unit does not let pass", name)
		}
	}
	for _, name := range []string{"accept4", "connect", "openat", "msync"} {
		if !seen[name] {
			t.Errorf("did not call %s: nothing was looked at", name)
		}
	}
}

// push has a server push an item, and waits until it arrives.
func push(t *testing.T, url string) {
	t.Helper()
	arrived := make(chan struct{})
	endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(arrived) }))
	t.Cleanup(endpoint.Close)
	c, err := client.New(client.Options{URL: url, Key: harness.Key})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.CreateSubscription(t.Context(), client.Subscription{Name: "traced", Queue: "traced", URL: endpoint.URL}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Produce(t.Context(), "traced", client.Item{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-arrived:
	case <-time.After(30 * time.Second):
		t.Fatal("no push came")
	}
}

// syscallSet returns the names in one of systemd's groups, and in the groups within.
func syscallSet(t *testing.T, analyze, group string) map[string]bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), analyze, "syscall-filter", "--no-pager", group).Output()
	if err != nil {
		t.Fatalf("%s: %v", group, err)
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		name := strings.TrimSpace(line)
		switch {
		case name == "" || name == group || strings.HasPrefix(name, "#"):
		case strings.HasPrefix(name, "@"):
			maps.Copy(names, syscallSet(t, analyze, name))
		default:
			names[name] = true
		}
	}
	return names
}
