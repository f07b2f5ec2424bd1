package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/seal"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/memory"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

// keptStore is a store that outlives its app, as a database does.
type keptStore struct{ storage.Backend }

func (keptStore) Close() error { return nil }

// node starts an app on the store, with these keys, and ends it. The kind is what the
// configuration names.
func node(t *testing.T, store storage.Backend, kind storeURL, keys string, use func(*subscriptions.Service)) (string, error) {
	t.Helper()
	var log lockedBuffer
	c := testConfig(t)
	c.store = kind
	var err error
	if c.encryption, err = new(encryptionFlags).keys(keys); err != nil {
		t.Fatal(err)
	}
	open := func(config, *slog.Logger) (storage.Backend, error) { return keptStore{store}, nil }
	a, err := newApp(open, c, newLogger(&log, logJSON, slog.LevelInfo))
	if err != nil {
		return log.String(), err
	}
	if use != nil {
		// Verbs of the broker need its batches.
		a.start()
		use(serviceOf(a, &c, store))
	}
	return log.String(), a.stop()
}

// serviceOf is a second service on the store of an app, with the same keys.
func serviceOf(a *app, c *config, store storage.Backend) *subscriptions.Service {
	secrets, err := sealerOf(c, store, a.log)
	if err != nil {
		panic(err) // the app has opened it the same way
	}
	return subscriptions.New(subscriptions.Options{
		Docs:   storage.NewCollection[subscriptions.Document](store, subscriptionKind),
		Claims: storage.NewCollection[subscriptions.Claim](store, "claim"),
		Queues: a.broker, Sealer: secrets,
		CheckURL: func(string) error { return nil }, CheckHeaders: webhooks.CheckHeaders, CheckSecret: checkSecret,
		NewSecret: webhooks.NewSecret,
	})
}

func create(t *testing.T, name string) func(*subscriptions.Service) {
	return func(s *subscriptions.Service) {
		t.Helper()
		_, err := s.Create(t.Context(), subscriptions.CreateParams{
			Namespace: queue.DefaultNamespace, Name: name, Queue: "q-" + name,
			Change: subscriptions.Change{URL: new("https://example.com")},
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func wantUsage(t *testing.T, err error, parts ...string) {
	t.Helper()
	if exitCode(err) != exitUsage {
		t.Errorf("got %v, with status %d", err, exitCode(err))
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want %q in it", err, part)
		}
	}
}

func TestA07_DatabaseWithoutAKeyStartsUntilThereAreSecrets(t *testing.T) {
	t.Parallel()
	store := memory.New(memory.Options{})
	database := storeURL{kind: storePostgres}
	older, newer := seal.NewKey(), seal.NewKey()
	id, _, _ := strings.Cut(older, ":")
	_, err := node(t, store, database, "", func(s *subscriptions.Service) {
		_, err := s.Create(t.Context(), subscriptions.CreateParams{
			Namespace: queue.DefaultNamespace, Name: "billing", Queue: "orders",
			Change: subscriptions.Change{URL: new("https://example.com")},
		})
		if !errors.Is(err, subscriptions.ErrNoKey) {
			t.Errorf("create without a key: %v", err)
		}
	})
	if err != nil {
		t.Errorf("without subscriptions: %v", err)
	}
	if _, err := node(t, store, database, older, create(t, "billing")); err != nil {
		t.Fatal(err)
	}
	_, err = node(t, store, database, "", nil)
	wantUsage(t, err, id, "--encryption-key-file", "$POSTHASTE_ENCRYPTION_KEY")
	_, err = node(t, store, database, newer, nil)
	wantUsage(t, err, id)
	log, err := node(t, store, database, newer+"\n"+older, nil)
	if err != nil || !strings.Contains(log, `"had_another_key":1`) {
		t.Errorf("with both keys: %v\n%s", err, log)
	}
	if log, err = node(t, store, database, newer, nil); err != nil || strings.Contains(log, "had_another_key") {
		t.Errorf("with the new one alone: %v\n%s", err, log)
	}
}

func TestA07_EmbeddedStoreKeepsAKeyInItsDirectory(t *testing.T) {
	t.Parallel()
	store := memory.New(memory.Options{})
	dir := t.TempDir()
	name := filepath.Join(dir, encryptionKeyName)
	embedded := storeURL{kind: storeBadger, dir: dir}
	log, err := node(t, store, embedded, "", create(t, "billing"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info, err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	id, secret, _ := strings.Cut(string(lines[len(lines)-1]), ":")
	if strings.Count(log, "keep a copy of it apart") != 1 || strings.Contains(log, secret) {
		t.Errorf("the log of the first start:\n%s", log)
	}
	if log, err = node(t, store, embedded, "", create(t, "mail")); err != nil || strings.Contains(log, "keep a copy") {
		t.Errorf("second start: %v\n%s", err, log)
	}
	if again, err := os.ReadFile(name); err != nil || !bytes.Equal(again, text) {
		t.Errorf("the key is another one: %v", err)
	}

	// Gone: nothing is made in its place while its secrets are there.
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	_, err = node(t, store, embedded, "", nil)
	wantUsage(t, err, id, name)
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a key was made: %v", err)
	}

	// Back, and a configured one takes its place.
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	configured := seal.NewKey()
	if log, err = node(t, store, embedded, configured, nil); err != nil || !strings.Contains(log, `"had_another_key":2`) {
		t.Errorf("with a configured key: %v\n%s", err, log)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if _, err = node(t, store, embedded, configured, nil); err != nil {
		t.Errorf("with the configured key alone: %v", err)
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a key was made: %v", err)
	}
}

func TestA07_DamagedKeyFileIsRefusedAndNotReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, encryptionKeyName)
	for _, text := range []string{"k1:Y2FuYXJ5\n", "Y2FuYXJ5"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := node(t, memory.New(memory.Options{}), storeURL{kind: storeBadger, dir: dir}, "", nil)
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "line 1") || strings.Contains(err.Error(), "Y2FuYXJ5") {
			t.Errorf("got %v", err)
		}
		if kept, err := os.ReadFile(name); err != nil || string(kept) != text {
			t.Errorf("it was replaced: %v", err)
		}
	}
}

func TestEncryptionFlags_NameWhatIsWrongAndShowNoKey(t *testing.T) {
	t.Parallel()
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	good := seal.NewKey()
	id, bare, _ := strings.Cut(good, ":")
	for _, tt := range []struct{ file, text, want string }{
		{"", "", ""},
		{"", good, id},
		{"", bare, id},
		{file("# ours\n" + good + "\n"), "", id},
	} {
		e, err := (&encryptionFlags{EncryptionKeyFile: tt.file}).keys(tt.text)
		got := ""
		if e.keys != nil {
			got = e.keys.Current()
		}
		if err != nil || got != tt.want {
			t.Errorf("%s: got %q, %v, want %q", tt.file, got, err, tt.want)
		}
	}
	for _, tt := range []struct{ file, text, want string }{
		{"", "canary", "$POSTHASTE_ENCRYPTION_KEY: line 1: "},
		{"", "\n", "$POSTHASTE_ENCRYPTION_KEY: holds no key"},
		{file(""), "", "--encryption-key-file: holds no key"},
		{file(good + "\ncanary"), "", "--encryption-key-file: line 2: "},
		{file(good), good, "want one of them"},
		{filepath.Join(t.TempDir(), "none"), "", "--encryption-key-file: open"},
	} {
		_, err := (&encryptionFlags{EncryptionKeyFile: tt.file}).keys(tt.text)
		if exitCode(err) != exitUsage || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
}

func TestKeySigning_PrintsAPairThatFits(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if code := run(t.Context(), []string{"key", "signing"}, nil, &out, io.Discard); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	secret, public, ok := strings.Cut(strings.TrimSpace(out.String()), "\n")
	if want, err := webhooks.PublicKey(secret); !ok || err != nil || public != want {
		t.Errorf("printed %q, want a secret and its public key (%v)", out.String(), err)
	}
}

func TestKeyEncryption_PrintsAKeyAlone(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if code := run(t.Context(), []string{"key", "encryption"}, nil, &out, io.Discard); code != exitOK {
		t.Fatalf("got status %d", code)
	}
	e, err := new(encryptionFlags).keys(out.String())
	if err != nil || e.keys.Current() == "" || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("got %d bytes, %v", out.Len(), err)
	}
}

func TestCheckAuth_NamesTheFieldAsTheInterfaceDoes(t *testing.T) {
	t.Parallel()
	check := checkAuth(webhooks.NewGuard(webhooks.GuardOptions{}))
	if err := check(subscriptions.Auth{Basic: &subscriptions.BasicAuth{Username: "u", Password: "p"}}); err != nil {
		t.Error(err)
	}
	for field, auth := range map[string]subscriptions.Auth{
		"auth.basic":              {Basic: &subscriptions.BasicAuth{}},
		"auth.basic.username":     {Basic: &subscriptions.BasicAuth{Username: "a:b", Password: "canary"}},
		"auth.bearer":             {Bearer: "canary canary"},
		"auth.oauth2":             {Bearer: "canary", OAuth2: &subscriptions.OAuth2{TokenURL: "https://example.com", ClientID: "c", ClientSecret: "canary"}},
		"auth.oauth2.token_url":   {OAuth2: &subscriptions.OAuth2{TokenURL: "https://127.0.0.1", ClientID: "c", ClientSecret: "canary"}},
		"auth.client_certificate": {ClientCertificate: "canary", ClientKey: "canary"},
		"auth.root_cas":           {RootCAs: "canary"},
	} {
		err := check(auth)
		invalid, ok := errors.AsType[*queue.InvalidError](err)
		if !ok || invalid.Field != field || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %v", field, err)
		}
	}
}
