package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// serve returns a client of what is no server of ours.
func serve(t *testing.T, handler http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	c, err := client.New(client.Options{URL: s.URL, Key: "pdk_live_x", MinWait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// asError returns the *Error in err.
func asError(t *testing.T, err error) *client.Error {
	t.Helper()
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		t.Fatalf("got %v, want an *Error", err)
	}
	return e
}

func TestClient_RepeatsACallWhoseAnswerBreaksOff(t *testing.T) {
	t.Parallel()
	c, s := setup(t)
	s.front.fail(cutAnswer)
	produced := produce(t, c, client.Item{})
	if items := lease(t, c, 10); len(items) != 1 || items[0].ItemID != produced[0].ItemID {
		t.Errorf("leased %d items, want the one that was answered", len(items))
	}
	if n := s.front.count("/v1/queue.produce"); n != 2 {
		t.Errorf("sent %d times, want twice", n)
	}
	s.front.fail(cutAnswer, cutAnswer, cutAnswer, cutAnswer, cutAnswer)
	_, err := c.Produce(t.Context(), "orders", client.Item{})
	if e := asError(t, err); !errors.Is(e, io.ErrUnexpectedEOF) || e.Tries != 5 || !e.Uncertain {
		t.Errorf("got %+v, want five tries that broke off", e)
	}
}

func TestClient_FollowsNoRedirect(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 307, 308} {
		var reached atomic.Bool
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
		defer other.Close()
		c := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, status) })
		_, err := c.Produce(t.Context(), "orders", client.Item{Payload: []byte("private")})
		if e := asError(t, err); e.Status != status || reached.Load() {
			t.Errorf("%d: got %v; the other server was reached: %t", status, err, reached.Load())
		}
	}
}

// A success that is not ours is none: nothing was put on a queue.
func TestClient_BelievesNoSuccessOfOthers(t *testing.T) {
	t.Parallel()
	for _, answer := range []struct{ media, body string }{{"", ""}, {"text/html", "<html>ok</html>"}, {"application/protobuf", ""}, {"application/json", "{}"}} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", answer.media)
			_, _ = io.WriteString(w, answer.body)
		})
		if p, err := c.Produce(t.Context(), "orders", client.Item{}); err == nil {
			t.Errorf("%+v: produce: got %v, want an error", answer, p)
		}
		if p, err := c.ProduceRaw(t.Context(), "orders", client.RawItem{}); err == nil {
			t.Errorf("%+v: raw: got %v, want an error", answer, p)
		}
		if err := c.DeleteQueue(t.Context(), "orders", false); err == nil && answer.media != "application/protobuf" {
			t.Errorf("%+v: a queue was deleted, it says", answer)
		}
	}
}

func TestClient_ReadsLittleOfALongRefusal(t *testing.T) {
	t.Parallel()
	const size = 256
	var written atomic.Int32
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		for range size {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
			written.Add(1)
		}
	})
	_, err := c.Stats(t.Context(), "orders")
	if e := asError(t, err); e.Status != http.StatusNotFound || written.Load() > size/2 {
		t.Errorf("got %v after %d MB, want the 404 after a few", err, written.Load())
	}
}

func TestClient_NamesTheTextThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	c, s := setup(t)
	before := len(s.front.requests())
	for field, it := range map[string]client.Item{
		"items[1].kind":            {Kind: "\xff"},
		"items[1].idempotency_key": {IdempotencyKey: "a\xc3"},
		"items[1].headers":         {Headers: map[string]string{"X": "\xff"}},
	} {
		_, err := c.Produce(t.Context(), "orders", client.Item{}, it)
		if e := asError(t, err); e.CodeText != client.CodeInvalid || e.Details["field"] != field || e.Uncertain {
			t.Errorf("%s: got %+v", field, e)
		}
	}
	if n := len(s.front.requests()) - before; n != 0 {
		t.Errorf("%d requests were sent, want none", n)
	}
}

func TestClient_LargeNumbersAreRefusedAndNotOthers(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	for _, n := range []int{1<<32 + 1, -1<<32 + 1} {
		if items, err := c.Lease(t.Context(), client.LeaseParams{Queue: "orders", BatchSize: n}); !client.Is(err, client.CodeInvalid) {
			t.Errorf("lease of %d: got %v, %v, want it refused", n, items, err)
		}
	}
}

func TestClient_UncertainNeedsARequest(t *testing.T) {
	t.Parallel()
	t.Run("a context that has ended sends nothing", func(t *testing.T) {
		t.Parallel()
		c, s := setup(t)
		before := len(s.front.requests())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.Produce(ctx, "orders", client.Item{})
		if e := asError(t, err); !errors.Is(e, context.Canceled) || e.Uncertain || e.Tries != 0 || len(s.front.requests()) != before {
			t.Errorf("got %+v, want nothing sent", e)
		}
	})
	t.Run("nor does one that ends while it connects", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		defer close(gate)
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			<-gate
			return nil, net.ErrClosed
		}}
		c, err := client.New(client.Options{URL: "http://host", HTTP: &http.Client{Transport: transport}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err = c.Produce(ctx, "orders", client.Item{})
		if e := asError(t, err); !errors.Is(e, context.DeadlineExceeded) || e.Uncertain {
			t.Errorf("got %+v, want it certain", e)
		}
	})
	t.Run("one that ends while the server works does", func(t *testing.T) {
		t.Parallel()
		s := newServer(t)
		c := s.client(t, client.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		s.front.fail(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
			_, _ = io.Copy(io.Discard, r.Body) // else the server does not see the end
			cancel()
			<-r.Context().Done()
		})
		_, err := c.Produce(ctx, "orders", client.Item{})
		if e := asError(t, err); !errors.Is(e, context.Canceled) || !e.Uncertain {
			t.Errorf("got %+v, want it uncertain", e)
		}
	})
}

// What the server said tells more than that the time was up.
func TestClient_TheLastRefusalOutlivesTheTime(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := s.client(t, client.Options{MinWait: 4 * time.Second})
	s.front.fail(answerStatus(http.StatusServiceUnavailable))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Produce(ctx, "orders", client.Item{})
	if e := asError(t, err); e.Status != http.StatusServiceUnavailable || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "503") {
		t.Errorf("got %v, want the 503 and that the time was up", err)
	}
}

func TestClient_WaitsNoLongerThanItsMaxWait(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := s.client(t, client.Options{MaxWait: 10 * time.Millisecond})
	s.front.fail(answerStatus(http.StatusTooManyRequests, "Retry-After", "30"))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := c.CreateQueue(ctx, client.Queue{Name: "orders"}); err != nil {
		t.Errorf("got %v, want a second try, since its wait is short", err)
	}
}

func TestClient_LeaseEndsBeforeItsContext(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if items, err := c.Lease(ctx, client.LeaseParams{Queue: "orders"}); err != nil || len(items) != 0 {
		t.Errorf("got %v, %v, want no items and no error", items, err)
	}
}
