package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/posthaste-io/posthaste/test/harness"
)

// cli runs commands of the real program against a server.
type cli struct {
	t      *testing.T
	server *harness.Server
}

func (c *cli) options() harness.Options {
	return harness.Options{Env: []string{"POSTHASTE_URL=" + c.server.URL, "POSTHASTE_KEY=" + harness.Key}}
}

func (c *cli) run(args ...string) (code int, stdout, stderr string) {
	c.t.Helper()
	return harness.Run(c.t, c.options(), args...)
}

func (c *cli) ok(args ...string) string {
	c.t.Helper()
	code, stdout, stderr := c.run(args...)
	if code != 0 {
		c.t.Fatalf("%v: exit status %d\n%s%s", args, code, stdout, stderr)
	}
	return stdout
}

// command is one that the test starts itself.
func (c *cli) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.t.Context(), harness.Build(c.t), args...)
	cmd.Env = append(os.Environ(), c.options().Env...)
	return cmd
}

func newCLI(t *testing.T, args ...string) *cli {
	t.Helper()
	return &cli{t, harness.Start(t, harness.Options{Store: "badger:data", Args: args})}
}

// writeLines writes items as JSON lines, those of odd ones wrong, and returns the path.
func writeLines(t *testing.T, n int, odd map[int]string) string {
	t.Helper()
	var b bytes.Buffer
	for i := 1; i <= n; i++ {
		if text, ok := odd[i]; ok {
			fmt.Fprintln(&b, text)
			continue
		}
		fmt.Fprintf(&b, `{"kind": "row", "json": {"n": %d}, "idempotency_key": "row-%d"}`+"\n", i, i)
	}
	path := filepath.Join(t.TempDir(), "items.jsonl")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCLI_TenThousandLinesWithAWrongOne(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.ok("queues", "create", "rows")
	path := writeLines(t, 10_000, map[int]string{7777: `{"kind": "row", "idempotency_key": "nö"}`})
	code, stdout, stderr := c.run("produce", "rows", "--lines", "-f", path)
	if code != 1 || stdout != "9999 lines kept\n" || !strings.Contains(stderr, "line 7777: idempotency_key: ") || !strings.Contains(stderr, "1 line refused") {
		t.Errorf("got %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, _ = c.run("produce", "rows", "--lines", "-f", path)
	if code != 1 || stdout != "9999 lines kept, 9999 of them known already\n" {
		t.Errorf("the repeat: got %d\n%s", code, stdout)
	}
	if got := newClient(t, c.server.URL).stats("rows").Total; got != 9999 {
		t.Errorf("the queue has %d items, want 9999", got)
	}
}

// As with | head: what reads the output goes away.
func TestCLI_BrokenPipeStopsProduceAndTheRepeatIsWhole(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.ok("queues", "create", "rows")
	path := writeLines(t, 10_000, nil)
	cmd := c.command("produce", "rows", "--lines", "--json", "-f", path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	out.Close()
	err = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), "broken pipe") || !strings.Contains(stderr.String(), "stopped at line ") {
		t.Errorf("got %v\n%s", err, stderr.String())
	}
	c.ok("produce", "rows", "--lines", "-f", path)
	if got := newClient(t, c.server.URL).stats("rows").Total; got != 10_000 {
		t.Errorf("the queue has %d items, want 10000", got)
	}
}

func TestCLI_InterruptsEndCommandsCleanly(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.ok("queues", "create", "idle")
	for _, tt := range []struct {
		args []string
		code int
	}{
		{[]string{"lease", "idle", "--wait", "5m"}, 130},
		{[]string{"top", "--json"}, 0},
	} {
		s := harness.Spawn(t, c.options(), tt.args...)
		eventually(t, strings.Join(tt.args, " "), func() bool {
			return s.Stdout() != "" || newClient(t, c.server.URL).stats("idle").LeaseWaiting == 1
		})
		s.Signal(syscall.SIGINT)
		if code := s.Wait(); code != tt.code {
			t.Errorf("%v: got exit status %d, want %d\n%s", tt.args, code, tt.code, s.Log())
		}
	}
}

func TestCLI_ShellsTakeTheCompletionScripts(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.ok("queues", "create", "orders")
	checked := 0
	for _, shell := range []string{"bash", "zsh", "fish"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			continue // a machine has some of them
		}
		checked++
		script := filepath.Join(t.TempDir(), shell)
		if err := os.WriteFile(script, []byte(c.ok("completion", shell)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), path, "-n", script).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s -n: %v\n%s", shell, err, out)
		}
		if shell != "bash" {
			continue
		}
		for line, want := range map[string]string{
			"queues pause --side l":                              "lease",
			"queues info --url " + c.server.URL + " ord":         "orders",
			"queues pause orders --url=" + c.server.URL + " --s": "--side",
		} {
			line = harness.Build(t) + " " + line
			run := exec.CommandContext(t.Context(), path, "-euc",
				`source "$1"; COMP_LINE=$2; COMP_POINT=${#COMP_LINE}; _posthaste; printf '%s\n' "${COMPREPLY[@]}"`, "bash", script, line)
			run.Env = append(os.Environ(), c.options().Env...)
			out, err := run.Output()
			if err != nil || strings.TrimSpace(string(out)) != want {
				t.Errorf("%s: got %q, %v; want %q", line, out, err, want)
			}
		}
	}
	if checked == 0 {
		t.Skip("there is none of bash, zsh and fish")
	}
}

// What only a server that pushes has: lanes, breakers, endpoints that are gone.
func TestCLI_TopAndDoctorSeePushes(t *testing.T) {
	t.Parallel()
	c := newCLI(t, loopback...)
	r := scriptedReceiver(t, func(w http.ResponseWriter, _ push) { w.WriteHeader(http.StatusGone) })
	c.ok("subscriptions", "create", "shop", "orders", r.URL)
	id := strings.TrimSpace(c.ok("produce", "orders", "x"))
	eventually(t, "a disabled subscription", func() bool {
		return strings.Contains(c.ok("subscriptions", "list"), "\tdisabled\t")
	})
	code, stdout, _ := c.run("doctor")
	if code != 1 || !strings.Contains(stdout, "bad\tsubscription\tshop is disabled") || !strings.Contains(stdout, "ok\tdurable\t") || !strings.Contains(stdout, "1 item in orders") {
		t.Errorf("doctor: got %d\n%s", code, stdout)
	}
	if got := c.ok("items", "info", id); !strings.Contains(got, "why\tsubscription_disabled\n") {
		t.Errorf("info: got\n%s", got)
	}
	var top struct {
		Queues        []struct{ Ready int }
		Subscriptions []struct {
			State string
			Lane  *struct{ Breaker string }
		}
	}
	if err := json.Unmarshal([]byte(c.ok("top", "--json", "--once")), &top); err != nil {
		t.Fatal(err)
	}
	if len(top.Queues) != 1 || top.Queues[0].Ready != 1 || len(top.Subscriptions) != 1 || top.Subscriptions[0].State != "disabled" {
		t.Errorf("top: got %+v", top)
	}
}

// The whole way by pipes alone, as in a script.
func TestCLI_PipesFromLeaseToComplete(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.ok("queues", "create", "orders")
	for range 3 {
		c.ok("produce", "orders", "x")
	}
	leased := c.ok("lease", "orders", "-n", "3")
	var receipts []string
	for line := range strings.Lines(leased) {
		receipts = append(receipts, strings.Split(line, "\t")[0])
	}
	slices.Reverse(receipts)
	cmd := c.command("complete", "-")
	cmd.Stdin = strings.NewReader(strings.Join(receipts, "\n"))
	if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), "\tcompleted\n") != 3 {
		t.Errorf("got %v\n%s", err, out)
	}
	if code, _, stderr := c.run("lease", "orders", "--wait", "50ms"); code != 5 || !strings.Contains(stderr, "no item came") {
		t.Errorf("an empty queue: got %d\n%s", code, stderr)
	}
	if code, _, stderr := harness.Run(t, harness.Options{}, "queues", "list", "--url", "http://127.0.0.1:1"); code != 4 || !strings.Contains(stderr, "127.0.0.1:1") {
		t.Errorf("nobody there: got %d\n%s", code, stderr)
	}
}
