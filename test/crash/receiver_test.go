package crash_test

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/test/recorder"
)

// receiver is the endpoint that the server pushes to. It lives in the test, so
// it outlives every kill.
type receiver struct {
	*httptest.Server
	run *run
	// kind ends the trouble: from then on everything is taken. Poison alone, once
	// nothing else is left, would rightly make the server believe that the endpoint
	// is down.
	kind atomic.Bool
}

func newReceiver(t *testing.T, r *run) *receiver {
	rec := &receiver{run: r}
	rec.Server = httptest.NewServer(rec)
	t.Cleanup(rec.Close)
	return rec
}

// ServeHTTP implements http.Handler.
func (rec *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		// The process died while it sent: no whole request arrived.
		return
	}
	attempt, err := strconv.ParseInt(r.Header.Get("Posthaste-Attempt"), 10, 32)
	if err != nil {
		rec.run.odd("push with the attempt %q", r.Header.Get("Posthaste-Attempt"))
	}
	op := rec.run.history.Invoke("receiver", recorder.Post, pushQueue, recorder.Item{
		ID: r.Header.Get("Webhook-Id"), Payload: recorder.Hash(body), Delivery: int32(attempt),
	})
	rec.run.posts.Add(1)
	status := rec.status(r.Header.Get("Posthaste-Kind"))
	rec.linger(r)
	w.WriteHeader(status)
	phase := recorder.OK
	if r.Context().Err() != nil {
		phase = recorder.Unknown
		rec.run.cut.Add(1)
	}
	rec.run.history.End(recorder.Event{
		Op: op, Client: "receiver", Verb: recorder.Post, Phase: phase, Queue: pushQueue,
		Items: []recorder.Item{{Status: int32(status)}},
	})
}

// status refuses poison always and the rest sometimes, while there is trouble.
func (rec *receiver) status(kind string) int {
	switch {
	case rec.kind.Load():
		return http.StatusNoContent
	case kind == poison:
		return http.StatusInternalServerError
	case rand.IntN(10) == 0:
		return []int{500, 502, 503, 429, 404}[rand.IntN(5)]
	default:
		return http.StatusNoContent
	}
}

// linger takes the time that work takes.
func (rec *receiver) linger(r *http.Request) {
	if rec.kind.Load() {
		return
	}
	d := time.Duration(rand.IntN(20)) * time.Millisecond
	if rand.IntN(5) == 0 { // so that a node which dies has some under way
		d = 200 * time.Millisecond
	}
	pause(r.Context(), d)
}
