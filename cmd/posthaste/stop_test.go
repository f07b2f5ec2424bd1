package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// within is how long after its grace a stop may take.
const within = 2 * time.Second

// stoppedAfter tells an app to stop, and returns how long that took.
func stoppedAfter(t *testing.T, a *app) time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("terminated"))
	began := time.Now()
	if err := a.wait(ctx); err != nil {
		t.Errorf("stop: %v, which is exit code %d", err, exitCode(err))
	}
	return time.Since(began)
}

func started(t *testing.T, args ...string) *app {
	t.Helper()
	a, err := openApp(testConfig(t, args...), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a.start()
	t.Cleanup(func() { _ = a.stop() }) // of no consequence: the test has stopped it
	return a
}

// connect opens a connection and sends what is given.
func connect(t *testing.T, l net.Listener, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// upload begins a body that never ends, and returns when the server waits for it.
func upload(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	conn := connect(t, l, "POST /v1/produce/q HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n")
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Fatalf("got %q, %v; want 100", line, err)
	}
	return conn
}

func TestC17_StopDoesNotWaitForClientsThatNeverEnd(t *testing.T) {
	t.Parallel()
	a := started(t, "--grace", "300ms")
	connect(t, a.api, "")
	connect(t, a.admin, "GET /livez HTTP/1.1\r\n")
	upload(t, a.api)
	connect(t, a.admin, "GET /debug/pprof/profile?seconds=25 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	for end := time.Now().Add(patience); ; {
		resp, err := http.Get("http://" + a.admin.Addr().String() + "/debug/pprof/goroutine?debug=1")
		if err != nil {
			t.Fatal(err)
		}
		stacks, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(stacks), "pprof.Profile") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the profile does not begin")
		}
	}
	if took := stoppedAfter(t, a); took > 300*time.Millisecond+within {
		t.Errorf("stopping took %s, which is more than the grace and %s", took, within)
	}
}

func TestC17_StopDoesNotWaitForAConnectionThatSentNothing(t *testing.T) {
	t.Parallel()
	a := started(t)
	connect(t, a.api, "")
	connect(t, a.admin, "")
	// Accepted after the silent ones, so those are known when this is answered.
	for _, l := range []net.Listener{a.api, a.admin} {
		resp, err := http.Get("http://" + l.Addr().String() + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if took := stoppedAfter(t, a); took > within {
		t.Errorf("stopping took %s with nothing to wait for", took)
	}
}

func TestI04_ConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	a := started(t, "--max-connections", "1", "--grace", "0s")
	first := upload(t, a.api)
	second := connect(t, a.api, "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	if err := second.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := second.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("a second connection was answered beside the first")
	}
	first.Close()
	if err := second.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(second)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Errorf("once the first had gone: got %q, %v; want 200", answer, err)
	}
}
