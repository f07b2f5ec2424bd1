package webhooks

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// receiving is a receiver with what the handler behind it saw and what was logged.
type receiving struct {
	t      *testing.T
	secret string
	rc     *Receiver
	// bodies and deliveries are what was passed on.
	bodies     []string
	deliveries []Delivery
	// answer is what the handler does; nil answers nothing.
	answer func(w http.ResponseWriter, r *http.Request)
	log    bytes.Buffer
}

func newReceiving(t *testing.T, o ReceiverOptions) *receiving {
	t.Helper()
	rg := &receiving{t: t, secret: NewSecret()}
	o.Secrets = append(o.Secrets, rg.secret)
	o.Logger = slog.New(slog.NewTextHandler(&rg.log, nil))
	var err error
	if rg.rc, err = NewReceiver(http.HandlerFunc(rg.handle), o); err != nil {
		t.Fatal(err)
	}
	return rg
}

func (rg *receiving) handle(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || int64(len(body)) != r.ContentLength {
		rg.t.Errorf("body: got %d bytes of %d, %v", len(body), r.ContentLength, err)
	}
	rg.bodies = append(rg.bodies, string(body))
	rg.deliveries = append(rg.deliveries, DeliveryFrom(r.Context()))
	if rg.answer != nil {
		rg.answer(w, r)
	}
}

// send sends a body that is signed now, changed as the test wants it.
func (rg *receiving) send(id, body string, changes ...func(http.Header)) *httptest.ResponseRecorder {
	rg.t.Helper()
	r := rg.request(id, body, changes...)
	w := httptest.NewRecorder()
	rg.rc.ServeHTTP(w, r)
	return w
}

func (rg *receiving) request(id, body string, changes ...func(http.Header)) *http.Request {
	rg.t.Helper()
	now := time.Now()
	signature, err := Sign(id, now, []byte(body), rg.secret)
	if err != nil {
		rg.t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(body))
	r.Header = signed(id, now, signature)
	for _, change := range changes {
		change(r.Header)
	}
	return r
}

func TestReceiver_G07_PassesOnWhatIsSigned(t *testing.T) {
	t.Parallel()
	rg := newReceiving(t, ReceiverOptions{})
	rg.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	if w := rg.send("i1", "\x00\xff", set("posthaste-kind", "order.paid")); w.Code != http.StatusNoContent {
		t.Errorf("got %d, want the handler's 204", w.Code)
	}
	if len(rg.bodies) != 1 || rg.bodies[0] != "\x00\xff" {
		t.Fatalf("passed on %q, want the body as it was sent", rg.bodies)
	}
	if d := rg.deliveries[0]; d.ID != "i1" || d.Kind != "order.paid" || time.Since(d.SentAt) > time.Minute {
		t.Errorf("got %+v", d)
	}
}

// Whatever is wrong with a signature, who sent it sees the same.
func TestReceiver_G07_RefusalsTellNothing(t *testing.T) {
	t.Parallel()
	other, err := Sign("i1", time.Now(), []byte("body"), NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	ago := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(-d).Unix(), 10) }
	tests := []struct {
		name   string
		body   string
		change func(http.Header)
		status int
		logged string
	}{
		{"no id", "body", del(HeaderID), http.StatusUnauthorized, ErrHeaders.Error()},
		{"two ids", "body", add(HeaderID, "i1"), http.StatusUnauthorized, ErrHeaders.Error()},
		{"no signature", "body", del(HeaderSignature), http.StatusUnauthorized, ErrHeaders.Error()},
		{"old", "body", set(HeaderTimestamp, ago(time.Hour)), http.StatusUnauthorized, ErrTooOld.Error()},
		{"from the future", "body", set(HeaderTimestamp, ago(-time.Hour)), http.StatusUnauthorized, ErrTooNew.Error()},
		{"another time", "body", set(HeaderTimestamp, ago(30*time.Second)), http.StatusUnauthorized, ErrSignature.Error()},
		{"another secret", "body", set(HeaderSignature, other), http.StatusUnauthorized, ErrSignature.Error()},
		{"another id", "body", set(HeaderID, "i2"), http.StatusUnauthorized, ErrSignature.Error()},
		{"too large", "body of more", func(http.Header) {}, http.StatusRequestEntityTooLarge, ErrBodyTooLarge.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rg := newReceiving(t, ReceiverOptions{MaxBody: 10})
			w := rg.send("i1", tt.body, tt.change)
			if w.Code != tt.status || w.Body.Len() > 0 || len(w.Header()) > 0 {
				t.Errorf("answered %d %q %v, want %d and nothing else", w.Code, w.Body, w.Header(), tt.status)
			}
			if len(rg.bodies) > 0 {
				t.Error("was passed on")
			}
			if !strings.Contains(rg.log.String(), tt.logged) || strings.Contains(rg.log.String(), rg.secret) {
				t.Errorf("logged %q, want the reason and no secret", rg.log.String())
			}
		})
	}
}

func TestReceiver_G07_TamperedBodyIsRefused(t *testing.T) {
	t.Parallel()
	rg := newReceiving(t, ReceiverOptions{})
	r := rg.request("i1", "pay 10")
	r.Body = io.NopCloser(strings.NewReader("pay 99"))
	w := httptest.NewRecorder()
	rg.rc.ServeHTTP(w, r)
	if w.Code != http.StatusUnauthorized || len(rg.bodies) > 0 {
		t.Errorf("got %d, passed on %q; want 401 and nothing", w.Code, rg.bodies)
	}
}

func TestReceiver_BrokenBodyIsRefused(t *testing.T) {
	t.Parallel()
	rg := newReceiving(t, ReceiverOptions{})
	r := rg.request("i1", "body")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("bo"), brokenReader{}))
	w := httptest.NewRecorder()
	rg.rc.ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest || len(rg.bodies) > 0 {
		t.Errorf("got %d, passed on %q; want 400 and nothing", w.Code, rg.bodies)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestReceiver_G05_TakesOldAndNewSecret(t *testing.T) {
	t.Parallel()
	rg := newReceiving(t, ReceiverOptions{Secrets: []string{NewSecret()}}) // signs with the second
	if w := rg.send("i1", "body"); w.Code != http.StatusOK {
		t.Errorf("got %d, want 200", w.Code)
	}
	if _, err := NewReceiver(http.NotFoundHandler(), ReceiverOptions{}); err == nil {
		t.Error("a receiver without a secret was made")
	}
}

func TestReceiver_HandlesAnItemUntilItIsDoneAndNoMore(t *testing.T) {
	t.Parallel()
	rg := newReceiving(t, ReceiverOptions{History: NewMemoryHistory(0)})
	status := func(code int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	keep := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(HeaderLease, "keep")
		w.WriteHeader(http.StatusAccepted)
	}
	panics := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for _, step := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request)
		change func(http.Header)
		want   int
		passed int
	}{
		{"failed", status(http.StatusServiceUnavailable), func(http.Header) {}, http.StatusServiceUnavailable, 1},
		{"redirected", status(http.StatusFound), func(http.Header) {}, http.StatusFound, 2},
		{"panicked", panics, func(http.Header) {}, http.StatusOK, 3}, // the recorder's own; net/http would break off
		{"kept, with a receipt", keep, set("posthaste-receipt", "r"), http.StatusAccepted, 4},
		{"kept, without one", keep, func(http.Header) {}, http.StatusAccepted, 5},
		{"again", status(http.StatusTeapot), func(http.Header) {}, http.StatusOK, 5},
	} {
		rg.answer = step.answer
		var w *httptest.ResponseRecorder
		func() {
			defer func() { _ = recover() }()
			w = httptest.NewRecorder()
			rg.rc.ServeHTTP(w, rg.request("i1", "body", step.change))
		}()
		if w.Code != step.want || len(rg.bodies) != step.passed {
			t.Errorf("%s: got %d, passed on %d times; want %d, %d", step.name, w.Code, len(rg.bodies), step.want, step.passed)
		}
	}
}

func TestReceiver_AnswersOfAnyFormSayThatItIsDone(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"nothing": nil,
		"a body":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") },
		"a body, and a status too late": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "ok")
			w.WriteHeader(http.StatusInternalServerError)
		},
		"an interim answer first": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusCreated)
		},
	} {
		rg := newReceiving(t, ReceiverOptions{History: NewMemoryHistory(0)})
		rg.answer = answer
		rg.send("i1", "body")
		if seen, err := rg.rc.history.Seen(t.Context(), "i1"); !seen || err != nil {
			t.Errorf("%s: got %t, %v, want it remembered", name, seen, err)
		}
	}
}

// A request that was recorded is good for as long as its timestamp is, which a sender
// whose clock is ahead makes twice the tolerance.
func TestReceiver_G07_ReplayWithinToleranceIsNotHandledAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rg := newReceiving(t, ReceiverOptions{History: NewMemoryHistory(0), Remember: time.Nanosecond})
		at := time.Now().Add(Tolerance)
		signature, err := Sign("i1", at, []byte("body"), rg.secret)
		if err != nil {
			t.Fatal(err)
		}
		replay := func() int {
			r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader("body"))
			r.Header = signed("i1", at, signature)
			w := httptest.NewRecorder()
			rg.rc.ServeHTTP(w, r)
			return w.Code
		}
		for range 5 { // the last at the end of its time
			if code := replay(); code != http.StatusOK || len(rg.bodies) != 1 {
				t.Errorf("got %d, passed on %d times; want 200, once", code, len(rg.bodies))
			}
			time.Sleep(Tolerance / 2) // of the bubble
		}
		if code := replay(); code != http.StatusUnauthorized || len(rg.bodies) != 1 {
			t.Errorf("later: got %d, passed on %d times; want 401, once", code, len(rg.bodies))
		}
	})
}

func TestReceiver_TwoAttemptsOfAnItemWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rg := newReceiving(t, ReceiverOptions{History: NewMemoryHistory(0)})
		var running, most atomic.Int32
		var fail atomic.Bool
		fail.Store(true)
		rg.answer = func(w http.ResponseWriter, _ *http.Request) {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Second) // of the bubble
			running.Add(-1)
			if fail.Swap(false) {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
		codes := make(chan int, 4)
		send := func(ctx context.Context) {
			r := rg.request("i1", "body").WithContext(ctx)
			go func() {
				w := httptest.NewRecorder()
				rg.rc.ServeHTTP(w, r)
				codes <- w.Code
			}()
			synctest.Wait()
		}
		for range 3 {
			send(t.Context())
		}
		gone, cancel := context.WithCancel(t.Context())
		send(gone)
		cancel()
		synctest.Wait()
		<-codes // the one that is gone, whatever it is told
		got := map[int]int{}
		for range 3 {
			got[<-codes]++
		}
		if got[http.StatusServiceUnavailable] != 1 || got[http.StatusOK] != 2 || len(rg.bodies) != 2 || most.Load() != 1 {
			t.Errorf("answered %v, passed on %d times, %d at a time; want the first refused, the second handled, and the third known", got, len(rg.bodies), most.Load())
		}
		if len(rg.rc.busy) > 0 {
			t.Errorf("%d ids are still busy", len(rg.rc.busy))
		}
	})
}

// A server that stops may end the contexts of requests whose senders wait for an answer.
func TestReceiver_NoAnswerAfterTheContextIsNoSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rg := newReceiving(t, ReceiverOptions{History: NewMemoryHistory(0)})
		rg.answer = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() } // gives up
		ctx, stop := context.WithCancel(t.Context())
		codes := make(chan int, 2)
		for range 2 { // the one that works, and the one that waits for it
			r := rg.request("i1", "body").WithContext(ctx)
			go func() {
				w := httptest.NewRecorder()
				rg.rc.ServeHTTP(w, r)
				codes <- w.Code
			}()
			synctest.Wait()
		}
		stop()
		for range 2 {
			if code := <-codes; code != http.StatusServiceUnavailable {
				t.Errorf("got %d, want 503: the work is not done", code)
			}
		}
		rg.answer = nil
		before := len(rg.bodies)
		if code := rg.send("i1", "body").Code; code != http.StatusOK || len(rg.bodies) != before+1 {
			t.Errorf("the next attempt: got %d, passed on %d times; want 200, once", code, len(rg.bodies)-before)
		}
	})
}

func TestReceiver_G07_BodyOfWhatCannotPassIsNotRead(t *testing.T) {
	t.Parallel()
	rg := newReceiving(t, ReceiverOptions{})
	r := rg.request("i1", "body", func(h http.Header) { h.Set(HeaderSignature, "v1a,AAAA v1,!") })
	r.Body = io.NopCloser(brokenReader{})
	w := httptest.NewRecorder()
	if rg.rc.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
		t.Errorf("got %d, want 401 without a look at the body", w.Code)
	}
}

// brokenHistory fails as it is told.
type brokenHistory struct{ seen, remember error }

func (h brokenHistory) Seen(context.Context, string) (bool, error) { return false, h.seen }

func (h brokenHistory) Remember(context.Context, string, time.Time) error { return h.remember }

func TestReceiver_HistoryThatFails(t *testing.T) {
	t.Parallel()
	away := errors.New("database is away")
	rg := newReceiving(t, ReceiverOptions{History: brokenHistory{seen: away}})
	if w := rg.send("i1", "body"); w.Code != http.StatusServiceUnavailable || len(rg.bodies) != 0 || !strings.Contains(rg.log.String(), away.Error()) {
		t.Errorf("cannot be read: got %d, passed on %d times, logged %s; want 503, and that it comes again", w.Code, len(rg.bodies), rg.log.String())
	}
	rg = newReceiving(t, ReceiverOptions{History: brokenHistory{remember: away}})
	if w := rg.send("i1", "body"); w.Code != http.StatusOK || len(rg.bodies) != 1 || !strings.Contains(rg.log.String(), away.Error()) {
		t.Errorf("cannot be written: got %d, logged %s; want 200, since the work is done", w.Code, rg.log.String())
	}
}

func TestReceiver_HandlerCanFlush(t *testing.T) {
	t.Parallel()
	rg := newReceiving(t, ReceiverOptions{History: NewMemoryHistory(0)})
	rg.answer = func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("flush: %v", err)
		}
	}
	if w := rg.send("i1", "body"); !w.Flushed {
		t.Error("nothing was flushed")
	}
}
