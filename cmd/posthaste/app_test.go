package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/memory"
	"github.com/posthaste-io/posthaste/webhooks"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// lockedBuffer is a log that a test reads while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func testConfig(t *testing.T, args ...string) config {
	t.Helper()
	c, err := parseServe(t, append([]string{"--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestApp_StopsInOrderAndLogsEachStep(t *testing.T) {
	t.Parallel()
	var out lockedBuffer
	a, err := openApp(testConfig(t), newLogger(&out, logJSON, slog.LevelInfo))
	if err != nil {
		t.Fatal(err)
	}
	a.start()
	resp, err := http.Get(a.url() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("/readyz: got %d, want 200", resp.StatusCode)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("terminated"))
	if err := a.wait(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	last := 0
	for _, step := range []string{
		"told to stop", "say not ready", "end the scheduler", "end pushes",
		"drain the API and admin", "run batches dry", "close the store",
	} {
		at := strings.Index(out.String(), step)
		if at < last {
			t.Errorf("step %q is missing or too early in\n%s", step, out.String())
		}
		last = at
	}
	if _, err := net.DialTimeout("tcp", a.api.Addr().String(), time.Second); err == nil {
		t.Error("the API still listens")
	}
}

func TestApp_TwoLiveInOneProcess(t *testing.T) {
	t.Parallel()
	var apps []*app
	for range 2 {
		a, err := openApp(testConfig(t), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		a.start()
		apps = append(apps, a)
	}
	if apps[0].url() == apps[1].url() {
		t.Errorf("both listen on %s", apps[0].url())
	}
	for _, a := range slices.Backward(apps) {
		if err := a.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
}

// failingStore fails on command.
type failingStore struct {
	storage.Backend
	failed chan struct{}
	closed bool
}

func (s *failingStore) Failed() <-chan struct{} { return s.failed }

func (s *failingStore) Err() error { return errors.New("sync was refused") }

func (s *failingStore) Close() error {
	s.closed = true
	return s.Backend.Close()
}

// given is for apps on a store that is there.
func given(store storage.Backend) storeOpener {
	return func(config, *slog.Logger) (storage.Backend, error) { return store, nil }
}

func TestApp_EndsWithItsOwnCodeWhenTheStoreFails(t *testing.T) {
	t.Parallel()
	store := &failingStore{Backend: memory.New(memory.Options{}), failed: make(chan struct{})}
	a, err := newApp(given(store), testConfig(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a.start()
	ended := make(chan error, 1)
	go func() { ended <- a.wait(context.Background()) }()
	close(store.failed)
	select {
	case err := <-ended:
		if exitCode(err) != exitStore || !strings.Contains(err.Error(), "sync was refused") {
			t.Errorf("got %v, exit code %d; want the store's reason and %d", err, exitCode(err), exitStore)
		}
	case <-time.After(patience):
		t.Fatal("the app goes on without its store")
	}
	if !store.closed {
		t.Error("the store was not closed")
	}
}

func TestApp_OpensNoStoreWhenItsAddressIsTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	open := func(config, *slog.Logger) (storage.Backend, error) {
		t.Error("opened the store")
		return memory.New(memory.Options{}), nil
	}
	_, err = newApp(open, testConfig(t, "--admin-listen", l.Addr().String()), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "--admin-listen") || exitCode(err) != exitFailed {
		t.Errorf("got %v, exit code %d; want the flag named and %d", err, exitCode(err), exitFailed)
	}
}

func TestApp_GivesItsAddressesBackWhenTheStoreDoesNotOpen(t *testing.T) {
	t.Parallel()
	var out lockedBuffer
	open := func(config, *slog.Logger) (storage.Backend, error) { return nil, errors.New("disk is gone") }
	_, err := newApp(open, testConfig(t), newLogger(&out, logText, slog.LevelInfo))
	if err == nil || !strings.Contains(err.Error(), "disk is gone") {
		t.Errorf("got %v, want the store's reason", err)
	}
	if log := out.String(); strings.Count(log, `step="leave 127.0.0.1:0"`) != 2 || strings.Contains(log, "ok=false") {
		t.Errorf("not both addresses were left:\n%s", log)
	}
}

func TestCheckSecret_TakesWhatPushesCanBeSignedWith(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{webhooks.NewSecret(), "whsec_" + strings.Repeat("A", 32)} {
		if err := checkSecret(secret); err != nil {
			t.Errorf("%s: %v", secret, err)
		}
	}
	for _, secret := range []string{"", "whsec_", "whsec_canary", "whsec_" + strings.Repeat("A", 28), webhooks.NewSecret() + "\n"} {
		if err := checkSecret(secret); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: got %v, want an error without it", secret, err)
		}
	}
}
