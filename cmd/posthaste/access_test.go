package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/apikeys"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/memory"
)

func newKey(t *testing.T) apikeys.Key {
	t.Helper()
	key, err := apikeys.New("test")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// writeFile writes a file of the test.
func writeFile(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAccess_SaysWhoMayCall(t *testing.T) {
	t.Parallel()
	a, b := newKey(t), newKey(t)
	file := writeFile(t, "key", a.Reveal()+"\n"+b.Reveal()+"\n")
	for name, tt := range map[string]struct {
		flags        accessFlags
		key          string
		dev          bool
		open, remote bool
		keys         int
	}{
		"nothing said":                  {},
		"for development":               {dev: true, open: true},
		"for development with a key":    {dev: true, key: a.Reveal(), keys: 1},
		"a key":                         {key: " " + a.Reveal() + "\n", keys: 1},
		"two while they are changed":    {key: a.Reveal() + " " + b.Reveal(), keys: 2},
		"a file":                        {flags: accessFlags{RootKeyFile: file}, keys: 2},
		"TLS":                           {flags: accessFlags{TLSCert: "c", TLSKey: "k"}, remote: true},
		"in the clear":                  {flags: accessFlags{AllowPlaintext: true}, remote: true},
		"open and in the clear":         {flags: accessFlags{AllowPlaintext: true}, dev: true, open: true},
		"development with TLS":          {flags: accessFlags{TLSCert: "c", TLSKey: "k"}, dev: true, open: true},
		"development with TLS and keys": {flags: accessFlags{TLSCert: "c", TLSKey: "k"}, dev: true, key: a.Reveal(), keys: 1, remote: true},
	} {
		got, err := tt.flags.judge(tt.key, tt.dev)
		if err != nil || got.open != tt.open || got.remote != tt.remote || len(got.keys) != tt.keys {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func TestA11_RefusedKeysAreNotShown(t *testing.T) {
	t.Parallel()
	key := newKey(t).Reveal()
	typo := key[:30] + strings.Repeat("z", 10) + key[40:]
	for name, judge := range map[string]func() (access, error){
		"a typing error": func() (access, error) { return new(accessFlags).judge(typo, false) },
		"no key":         func() (access, error) { return new(accessFlags).judge(key[4:], false) },
		"in a file":      func() (access, error) { return (&accessFlags{RootKeyFile: writeFile(t, "key", typo)}).judge("", false) },
		"two sources":    func() (access, error) { return (&accessFlags{RootKeyFile: writeFile(t, "key", key)}).judge(key, true) },
		"a blank":        func() (access, error) { return new(accessFlags).judge(" ", true) },
		"an empty file":  func() (access, error) { return (&accessFlags{RootKeyFile: writeFile(t, "key", "\n")}).judge("", true) },
	} {
		_, err := judge()
		if exitCode(err) != exitUsage || strings.Contains(err.Error(), key[20:30]) || strings.Contains(err.Error(), typo[25:45]) {
			t.Errorf("%s: got %v; want a usage error without the key", name, err)
		}
	}
}

func TestServe_OffLoopbackWantsKeysAndSecrecy(t *testing.T) {
	t.Parallel()
	key := newKey(t).Reveal()
	for _, tt := range []struct {
		key  string
		args []string
		want string
	}{
		{key, []string{"--listen", "0.0.0.0:0", "--allow-plaintext"}, ""},
		{"", []string{"--listen", ":0", "--tls-cert", "c", "--tls-key", "k"}, ""}, // with the key that the store has
		{key, []string{"--dev", "--listen", "[::]:0", "--allow-plaintext"}, ""},
		{key, []string{"--listen", "0.0.0.0:0"}, "--tls-cert"},
		{"", []string{"--dev", "--listen", "0.0.0.0:0", "--allow-plaintext"}, "without a key"},
		{key, []string{"--admin-listen", "0.0.0.0:0", "--allow-plaintext"}, "profiles"},
	} {
		command, err := parse(append([]string{"serve"}, tt.args...), io.Discard, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		_, err = command.(*serveCommand).config(tt.key)
		if tt.want == "" && err != nil || tt.want != "" && (exitCode(err) != exitUsage || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v: got %v, want %q", tt.args, err, tt.want)
		}
	}
}

// keyLine is a key alone on a line.
var keyLine = regexp.MustCompile(`(?m)^pdk_live_[0-9A-Za-z]{12}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$`)

func TestA04_TheFirstOfManyNodesPrintsItsKey(t *testing.T) {
	t.Parallel()
	docs := storage.NewCollection[apikeys.Record](memory.New(memory.Options{}), "rootkey")
	const nodes = 8
	printed := make([]bytes.Buffer, nodes)
	records := make([]apikeys.Record, nodes)
	errs := make([]error, nodes)
	var started sync.WaitGroup
	for i := range nodes {
		started.Go(func() { records[i], errs[i] = storedKey(t.Context(), docs, &printed[i]) })
	}
	started.Wait()
	var all bytes.Buffer
	for i := range nodes {
		if errs[i] != nil || records[i] != records[0] {
			t.Errorf("node %d has %v, %v; node 0 %v", i, records[i], errs[i], records[0])
		}
		all.Write(printed[i].Bytes())
	}
	lines := keyLine.FindAllString(all.String(), -1)
	if len(lines) != 1 {
		t.Fatalf("printed %d keys, want one:\n%s", len(lines), all.String())
	}
	key, err := apikeys.Parse(lines[0])
	if err != nil || !apikeys.NewRing(records[0]).Holds(key) {
		t.Errorf("printed %v, %v; kept %v", key, err, records[0])
	}
}

// lostPut inserts, and cannot say whether it did.
type lostPut struct{ rootKeys }

func (p lostPut) Put(ctx context.Context, ns queue.Namespace, name string, r apikeys.Record, revision uint64, wakeAt time.Time, items ...queue.NewItem) (uint64, error) {
	if _, err := p.rootKeys.Put(ctx, ns, name, r, revision, wakeAt, items...); err != nil {
		return 0, err
	}
	return 0, queue.ErrUnknownOutcome
}

func TestStoredKey_IsPrintedWhenItTurnsOutToBeThere(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	docs := storage.NewCollection[apikeys.Record](memory.New(memory.Options{}), "rootkey")
	record, err := storedKey(t.Context(), lostPut{docs}, &out)
	key, parseErr := apikeys.Parse(keyLine.FindString(out.String()))
	if err != nil || parseErr != nil || key.Record() != record {
		t.Errorf("got %v, %v; printed %q", record, err, out.String())
	}
}

// closedOutput takes nothing.
type closedOutput struct{}

func (closedOutput) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestStoredKey_IsNotKeptIfNobodyCanSeeIt(t *testing.T) {
	t.Parallel()
	docs := storage.NewCollection[apikeys.Record](memory.New(memory.Options{}), "rootkey")
	if _, err := storedKey(t.Context(), docs, closedOutput{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v, want the reason", err)
	}
	var out bytes.Buffer
	if _, err := storedKey(t.Context(), docs, &out); err != nil || !keyLine.MatchString(out.String()) {
		t.Errorf("the next start: %v, printed %q; want a key", err, out.String())
	}
}

func TestKeyNew_PrintsAKeyAlone(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := (&keyNewCommand{For: "test"}).Run(t.Context(), streams{stdout: &out}); err != nil {
		t.Fatal(err)
	}
	if key, err := apikeys.Parse(strings.TrimSuffix(out.String(), "\n")); err != nil || !strings.HasPrefix(key.Reveal(), "pdk_test_") {
		t.Errorf("printed %q: %v", out.String(), err)
	}
	if err := (&keyNewCommand{For: "my server"}).Run(t.Context(), streams{stdout: &out}); exitCode(err) != exitUsage {
		t.Errorf("got %v, want a usage error", err)
	}
}
