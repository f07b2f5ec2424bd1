package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/posthaste-io/posthaste/cli"
)

// parseServe reads a command line of serve.
func parseServe(t *testing.T, args ...string) (config, error) {
	t.Helper()
	command, err := parse(append([]string{"serve"}, args...), io.Discard, io.Discard)
	if err != nil {
		return config{}, err
	}
	return command.(*serveCommand).config("")
}

func TestServe_Defaults(t *testing.T) {
	t.Parallel()
	c, err := parseServe(t)
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		stdout: io.Discard,
		listen: "127.0.0.1:2319", adminListen: "127.0.0.1:2320",
		store: storeURL{kind: storeBadger, dir: "posthaste-data"}, limits: limitFlags{
			MaxPushes: 1024, MaxItems: 1000, MaxPayload: 1e6, MaxCall: 5e6, MaxBodyMemory: 256 << 20, MaxAnswerMemory: 256 << 20,
			MaxWaiting: 10_000, MaxPolls: 1000, KeepRecords: 72 * time.Hour,
		},
		logFormat: logJSON, logLevel: slog.LevelInfo, grace: 10 * time.Second, window: 1_000_000,
		schema: "posthaste", migrate: true, hints: true,
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v, want %+v", c, want)
	}
}

func TestServe_DevIsForDevelopment(t *testing.T) {
	t.Parallel()
	c, err := parseServe(t, "--dev", "--egress-allow", "10.0.0.0/8:8443")
	if err != nil {
		t.Fatal(err)
	}
	if c.store.kind != storeMemory || c.logFormat != logText || !c.dev || len(c.allow) != 3 {
		t.Errorf("got %+v; want the memory store, text, loopback and one more prefix open", c)
	}
	c, err = parseServe(t, "--dev", "--store", "badger:x", "--log-format", "json")
	if err != nil {
		t.Fatal(err)
	}
	if c.store != (storeURL{kind: storeBadger, dir: "x"}) || c.logFormat != logJSON {
		t.Errorf("got %+v; want what was asked for", c)
	}
}

func TestParse_NamesTheValuesThatAFlagTakes(t *testing.T) {
	t.Parallel()
	_, err := parse([]string{"subscriptions", "update", "s", "--filter-on-error", "drop"}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), `--filter-on-error must be one of "deliver","skip" but got "drop"`) {
		t.Errorf("got %v, want the two values and not the empty one, which is that of a flag left out", err)
	}
}

func TestServe_RefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--listen", "0.0.0.0:2319"}, "not a loopback address"},
		{[]string{"--listen", ":2319"}, "not a loopback address"},
		{[]string{"--listen", "192.168.1.7:2319"}, "not a loopback address"},
		{[]string{"--listen", "example.com:80"}, "not a loopback address"},
		{[]string{"--admin-listen", "[::]:2320"}, "--admin-listen"},
		{[]string{"--listen", "2319"}, "want host:port"},
		{[]string{"--listen", "127.0.0.1:99999"}, "no port"},
		{[]string{"--admin-listen", "127.0.0.1:nonsense"}, "no port"},
		{[]string{"--store", "mysql://user:secret@host/x"}, "want badger:///"},
		{[]string{"--store", "postgres:///"}, "want postgres://"},
		{[]string{"--store", "memory:x"}, "takes nothing"},
		{[]string{"--store", "badger:"}, "names no directory"},
		{[]string{"--store", "badger:///"}, "names no directory"},
		{[]string{"--store", "badger://data/x"}, `the host "data"`},
		{[]string{"--store", "badger:x?sync=false"}, "no options"},
		{[]string{"--egress-allow", "127.0.0.1/8"}, "--egress-allow"},
		{[]string{"--max-pushes", "0"}, "--max-pushes"},
		{[]string{"--max-items", "1001"}, "--max-items"},
		{[]string{"--max-payload", "2MB"}, "--max-payload"},
		{[]string{"--max-call", "500kB"}, "--max-call"},
		{[]string{"--max-call", "1kB", "--max-payload", "1"}, "--max-call"},
		{[]string{"--max-body-memory", "1MB"}, "--max-body-memory"},
		{[]string{"--max-answer-memory", "1MB"}, "--max-answer-memory"},
		{[]string{"--max-connections", "-1"}, "--max-connections"},
		{[]string{"--keep-records", "0s"}, "--keep-records"},
		{[]string{"--window", "0"}, "--window"},
		{[]string{"--schema", "Public; drop"}, "--schema"},
		{[]string{"--grace=-1s"}, "--grace"},
		{[]string{"--log-level", "loud"}, "log-level"},
		{[]string{"--log-format", "xml"}, "log-format"},
		{[]string{"--min-free-disk", "lots"}, "min-free-disk"},
		{[]string{"--min-free-disk", "99999999TB"}, "min-free-disk"},
		{[]string{"--root-key-file", "no/such/file"}, "--root-key-file"},
		{[]string{"--tls-cert", "cert.pem"}, "want both or neither"},
		{[]string{"--dev", "--listen", "0.0.0.0:2319", "--allow-plaintext"}, "whoever reaches it"},
		{[]string{"--listen", "0.0.0.0:2319"}, "--allow-plaintext"},
		{[]string{"--admin-listen", "0.0.0.0:2319", "--allow-plaintext"}, "--admin-listen"},
		{[]string{"--no-such-flag"}, "no-such-flag"},
	}
	for _, tt := range tests {
		_, err := parseServe(t, tt.args...)
		if err == nil || !strings.Contains(err.Error(), tt.want) || exitCode(err) != exitUsage {
			t.Errorf("%v: got %v (exit code %d); want %q and %d", tt.args, err, exitCode(err), tt.want, exitUsage)
		}
	}
}

func TestServe_TakesLoopbackInAnySpelling(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "127.8.9.10:1", "[::1]:2319", "localhost:2319", "[::ffff:127.0.0.1]:5"} {
		if _, err := parseServe(t, "--listen", address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestStoreURL_IsWrittenAsItIsRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"memory:", "badger:data", "badger:../up/data", "badger:///var/lib/posthaste"} {
		u, err := parseStoreURL(text)
		if err != nil || u.String() != text {
			t.Errorf("%s: got %s, %v", text, u, err)
		}
	}
}

func TestStoreURL_ShowsNoPassword(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"postgres://app:secret@db.example:5432/queue?password=secret": "postgres://app:xxxxx@db.example:5432/queue",
		"postgresql:///queue?host=/run/postgresql&password=secret":    "postgresql:///queue",
	} {
		u, err := parseStoreURL(text)
		if err != nil || u.String() != want || u.database != text {
			t.Errorf("%s: got %s, %v; want %s", text, u, err, want)
		}
	}
	for _, text := range []string{"postgres://app:secret@:x/", "postgres:secret", "mysql://app:secret@db/"} {
		if _, err := parseStoreURL(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func TestByteSize_Units(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]byteSize{"0": 0, "1048576": 1 << 20, "7B": 7, "512MB": 512e6, "64kB": 64e3, "2GiB": 2 << 30} {
		var got byteSize
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: got %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MB", "-1", "1.5GB", "1 MB", "+1"} {
		var got byteSize
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken as %d", text, got)
		}
	}
}

// The environment is the process's, so this test does not run beside others.
func TestServe_EveryFlagIsAVariable(t *testing.T) {
	t.Setenv("POSTHASTE_STORE", "memory:")
	t.Setenv("POSTHASTE_EGRESS_ALLOW", "10.0.0.0/8,192.168.0.0/16:8080")
	t.Setenv("POSTHASTE_GRACE", "3s")
	c, err := parseServe(t, "--grace", "4s")
	if err != nil {
		t.Fatal(err)
	}
	if c.store.kind != storeMemory || len(c.allow) != 2 || c.grace != 4*time.Second {
		t.Errorf("got %+v; want the variables, and the flag over them", c)
	}
}

// What runs here is configured by variables as well. Commands that call a server have
// them for the server alone, which they share.
func TestFlags_HaveVariablesOfTheirOwn(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&commands{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, command := range parser.Model.Children {
		if _, calls := command.Target.Addr().Interface().(cli.Command); calls || command.Name == "config" {
			continue
		}
		for _, flag := range command.Flags {
			name := command.Name + " --" + flag.Name
			if len(flag.Envs) != 1 || !strings.HasPrefix(flag.Envs[0], "POSTHASTE_") {
				t.Errorf("%s has the variables %v, want one that starts with POSTHASTE_", name, flag.Envs)
				continue
			}
			if flag.Envs[0] == "POSTHASTE_URL" {
				continue // the server that is asked, whoever asks
			}
			if other, taken := seen[flag.Envs[0]]; taken {
				t.Errorf("%s and %s share %s", name, other, flag.Envs[0])
			}
			seen[flag.Envs[0]] = name
		}
	}
	if len(seen) < 15 {
		t.Errorf("only %d flags were looked at", len(seen))
	}
}

func TestRun_HelpAndUsage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{nil, exitOK, "demo", ""},
		{[]string{"--help"}, exitOK, "Exit codes", ""},
		{[]string{"serve", "--help"}, exitOK, "$POSTHASTE_ADMIN_LISTEN", ""},
		{[]string{"version"}, exitOK, "posthaste ", ""},
		{[]string{"fly"}, exitUsage, "", "fly"},
		{[]string{"listen", "--fail", "2"}, exitUsage, "", "--fail 2"},
		{[]string{"listen", "--secret", "x"}, exitUsage, "", "--secret"},
	}
	for _, tt := range tests {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), tt.args, strings.NewReader(""), &stdout, &stderr)
		if code != tt.code || !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
			t.Errorf("%v: got %d, %q, %q; want %d, %q, %q", tt.args, code, stdout.String(), stderr.String(), tt.code, tt.stdout, tt.stderr)
		}
	}
}

func TestExitCode_TellsWhatBroke(t *testing.T) {
	t.Parallel()
	for want, err := range map[int]error{
		exitOK:     nil,
		exitFailed: errors.New("x"),
		exitUsage:  fmt.Errorf("serve: %w", usagef("x")),
		exitStore:  errors.Join(storeError{errors.New("sync refused")}, errors.New("close")),
	} {
		if got := exitCode(err); got != want {
			t.Errorf("%v: got %d, want %d", err, got, want)
		}
	}
}
