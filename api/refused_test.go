package api_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"time"
)

// Many clients look for the answer only once they have sent all: a connection that is
// closed under them takes the answer with it.
func TestI01_ARefusalReachesWhoSendsAllFirst(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.produce = accept
	addr := listen(t, e)
	body := make([]byte, 5_000_000)
	length := func(conn net.Conn, head string) error {
		_, err := fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
		return err
	}
	chunked := func(conn net.Conn, head string) error {
		if _, err := io.WriteString(conn, head+"Transfer-Encoding: chunked\r\n\r\n"); err != nil {
			return err
		}
		w := httputil.NewChunkedWriter(conn)
		if _, err := io.CopyBuffer(struct{ io.Writer }{w}, bytes.NewReader(body), make([]byte, 4096)); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		_, err := io.WriteString(conn, "\r\n")
		return err
	}
	for name, send := range map[string]func(net.Conn, string) error{"with its length": length, "chunked": chunked} {
		for path, status := range map[string]string{
			"/v1/produce/q":          "413",
			"/v1/produce/q?k=v":      "400",
			"/v1/queue.stats":        "413",
			"/v1/nothing":            "404",
			"/v1/produce/no%2Fqueue": "400",
		} {
			t.Run(path+" "+name, func(t *testing.T) {
				t.Parallel()
				conn := dial(t, addr)
				if err := send(conn, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"); err != nil {
					t.Fatalf("the connection was closed under the client: %v", err)
				}
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(resp.Body)
				if err != nil || !strings.HasPrefix(resp.Status, status) || !bytes.Contains(answer, []byte("code_text")) {
					t.Errorf("got %s %s, %v; want %s", resp.Status, answer, err, status)
				}
				if !resp.Close {
					t.Error("the connection stays open: what is left of the body could be read as a request")
				}
			})
		}
	}
}

// It is announced and never comes, so nobody may wait for it long.
func TestI04_WhatIsDiscardedHasItsTime(t *testing.T) {
	t.Parallel()
	e := setup(t)
	began := time.Now()
	answer := raw(t, listen(t, e), "POST /v1/produce/q HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\nx")
	if !strings.HasPrefix(answer, "HTTP/1.1 413") {
		t.Errorf("got %q, want 413", answer)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the connection was held for %s", took)
	}
}
