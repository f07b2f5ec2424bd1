package e2e_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// pullUnsent takes a lease whose answer nobody reads, and goes.
func pullUnsent(t *testing.T, e *env) {
	// More than the sockets of both sides hold, so that the server is still writing.
	const items = 20
	payload := strings.Repeat("x", 900_000)
	e.call("queues.create", object{"queue_name": e.queue, "lease_timeout": "1h"}, nil)
	for range items {
		e.produce(e.queue, object{"utf8": payload})
	}

	conn, err := net.Dial("tcp", strings.TrimPrefix(e.server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"queue_name":%q,"batch_size":%d,"max_bytes":%d}`, e.queue, items, 2*items*len(payload))
	request := fmt.Sprintf("POST /v1/queue.lease HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", e.key, len(body), body)
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	eventually(t, "leased", func() bool { return e.stats(e.queue).Leased == items })
	if _, err := io.ReadFull(conn, make([]byte, 100)); err != nil { // the answer has begun
		t.Fatal(err)
	}
	conn.Close()

	eventually(t, "given back", func() bool { return e.stats(e.queue).Leased == 0 })
	for _, it := range e.items(e.queue) {
		if it.IsLeased || it.Attempts != 0 {
			t.Errorf("item %s: leased %v, %d attempts; want it given back uncounted", it.ID, it.IsLeased, it.Attempts)
		}
	}
	if got := e.stats(e.queue).Total; got != items {
		t.Errorf("%d items are left, want %d", got, items)
	}
}
