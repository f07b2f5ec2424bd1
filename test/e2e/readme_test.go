package e2e_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/test/harness"
)

// walkBlock is a shell block of the README that the test runs.
var walkBlock = regexp.MustCompile("(?s)<!-- walk: ([a-z]+) -->\n```sh\n(.*?)```")

// The blocks are run as they are printed, but for addresses: a test takes free ports.
func TestReadme_WalkWorksAsPrinted(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "sed"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the walk needs %s: %v", tool, err)
		}
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string][]string{}
	for _, m := range walkBlock.FindAllStringSubmatch(string(readme), -1) {
		blocks[m[1]] = append(blocks[m[1]], m[2])
	}
	if len(blocks["serve"]) != 1 || len(blocks["listen"]) != 1 || len(blocks["run"]) < 3 {
		t.Fatalf("the README has %d blocks to serve, %d to listen, %d to run", len(blocks["serve"]), len(blocks["listen"]), len(blocks["run"]))
	}

	server := harness.Start(t, harness.Options{
		Args: program(t, blocks["serve"][0], "serve"),
		Env:  []string{"POSTHASTE_ROOT_KEY="}, // readers have none
	})
	args := append(program(t, blocks["listen"][0], "listen"), "--addr", "127.0.0.1:0")
	endpoint := harness.Spawn(t, harness.Options{}, append([]string{"listen"}, args...)...)
	listening := regexp.MustCompile(`listening on http://(\S+)`)
	var address []string
	eventually(t, "listening", func() bool {
		address = listening.FindStringSubmatch(endpoint.Stdout())
		return address != nil
	})

	script := strings.NewReplacer(
		"http://127.0.0.1:2319", server.URL,
		"127.0.0.1:8080", address[1],
	).Replace(strings.Join(blocks["run"], "\n"))
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if regexp.MustCompile(`"code": ?[45]`).Match(out) {
		t.Errorf("a call was refused:\n%s", out)
	}
	for _, want := range []string{`"item_id"`, `"receipt"`, "pull me"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the calls did not print %s:\n%s", want, out)
		}
	}
	for _, want := range []string{"hello, posthaste", "greeting", `{"order": 17}`, "order 17 again", "signature ok"} {
		eventually(t, "printed by the endpoint: "+want, func() bool { return strings.Contains(endpoint.Stdout(), want) })
	}
	if strings.Contains(endpoint.Stdout(), "pull me") {
		t.Error("what was pulled was pushed as well")
	}
	c := newClient(t, server.URL)
	eventually(t, "an empty queue", func() bool { return c.stats("orders").Total == 0 })
}

// program returns the flags of a block that is one command of the program.
func program(t *testing.T, block, command string) []string {
	t.Helper()
	words := strings.Fields(block)
	if len(words) < 4 || strings.Join(words[:4], " ") != "go run ./cmd/posthaste "+command {
		t.Fatalf("block %q does not run posthaste %s", block, command)
	}
	return words[4:]
}
