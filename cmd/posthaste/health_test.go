package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealth_SaysByItsExitCodeWhetherAServerIsReady(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"code": 503, "code_text": "shutting_down", "message": "not ready"}`))
	}))
	health := func(args ...string) (code int, stdout, stderr string) {
		t.Helper()
		var out, errs bytes.Buffer
		code = run(t.Context(), append([]string{"health"}, args...), strings.NewReader(""), &out, &errs)
		return code, out.String(), errs.String()
	}
	if code, stdout, stderr := health("--url", server.URL); code != exitOK || stdout != "ready\n" {
		t.Errorf("a server that is ready: got %d, %q, %q", code, stdout, stderr)
	}
	status = http.StatusServiceUnavailable
	if code, _, stderr := health("--url", server.URL); code != exitFailed || !strings.Contains(stderr, "not ready") {
		t.Errorf("a server that stops: got %d, %q", code, stderr)
	}
	server.Close()
	if code, _, stderr := health("--url", server.URL); code != exitFailed || !strings.Contains(stderr, server.URL) {
		t.Errorf("no server: got %d, %q", code, stderr)
	}
	for _, args := range [][]string{{"--url", "localhost:2319"}, {"--timeout", "0s"}} {
		if code, _, stderr := health(args...); code != exitUsage {
			t.Errorf("%v: got %d, %q", args, code, stderr)
		}
	}
}
