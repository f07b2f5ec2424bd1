package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/apikeys"
)

// inForce runs config --json and returns the settings by name.
func inForce(t *testing.T, args ...string) map[string]setting {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), append([]string{"config", "--json"}, args...), strings.NewReader(""), &stdout, &stderr); code != exitOK {
		t.Fatalf("%v: got %d, %s", args, code, stderr.String())
	}
	all := map[string]setting{}
	for d := json.NewDecoder(&stdout); ; {
		var it setting
		if err := d.Decode(&it); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[it.Name] = it
	}
}

// The environment is the process's, so this test does not run beside others.
func TestConfig_SaysFromWhereEachSettingIs(t *testing.T) {
	t.Setenv("POSTHASTE_GRACE", "3s")
	t.Setenv("POSTHASTE_MAX_ITEMS", "7")
	t.Setenv("POSTHASTE_STORE", "postgres://app:canary@db.example/queue?password=canary")
	all := inForce(t, "--max-items", "8")
	for _, want := range []setting{
		{"--grace", "3s", "$POSTHASTE_GRACE", "POSTHASTE_GRACE"},
		{"--max-items", "8", "flag", "POSTHASTE_MAX_ITEMS"},
		{"--window", "1000000", "default", "POSTHASTE_WINDOW"},
		{"--log-format", "json", "default", "POSTHASTE_LOG_FORMAT"},
		{"--store", "postgres://app:xxxxx@db.example/queue", "$POSTHASTE_STORE", "POSTHASTE_STORE"},
	} {
		if got := all[want.Name]; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestConfig_RefusesWhatServeRefusesOfTheCollector(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "zipkin")
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"config"}, strings.NewReader(""), io.Discard, &stderr); code != exitUsage {
		t.Errorf("got %d, %s; want %d", code, stderr.String(), exitUsage)
	}
}

func TestConfig_HasEveryFlagOfServe(t *testing.T) {
	parser, err := newParser(io.Discard, io.Discard, func() {})
	if err != nil {
		t.Fatal(err)
	}
	all := inForce(t)
	n := 0
	for _, command := range parser.Model.Children {
		if command.Name != "serve" {
			continue
		}
		for _, flag := range command.Flags {
			if _, ok := all["--"+flag.Name]; !ok && flag.Name != "help" {
				t.Errorf("--%s is not told of", flag.Name)
			}
			n++
		}
	}
	if n < 15 {
		t.Errorf("only %d flags were looked at", n)
	}
}

func TestConfig_ShowsNoKey(t *testing.T) {
	key, err := apikeys.New("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(rootKeyVariable, key.Reveal())
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"config"}, strings.NewReader(""), &stdout, &stderr)
	text := stdout.String() + stderr.String()
	if code != exitOK || strings.Contains(text, key.Reveal()) || !strings.Contains(text, key.Record().ID) {
		t.Errorf("got %d and\n%s", code, text)
	}
}

func TestConfig_RefusesWhatServeRefuses(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"config", "--max-items", "0"}, strings.NewReader(""), &stdout, &stderr)
	if code != exitUsage || !strings.Contains(stderr.String(), "--max-items 0") || stdout.Len() > 0 {
		t.Errorf("got %d, %q, %q", code, stdout.String(), stderr.String())
	}
}
