package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Observer counts requests. It is called concurrently, on the way of each request, and
// must be quick. For each request that began, exactly one ends.
type Observer interface {
	// RequestBegan is told the name of the call, as the log has it: one of a small set.
	RequestBegan(method string)
	RequestEnded(r Request)
}

// Request is one that has ended.
type Request struct {
	Method string
	// Status and CodeText are those of the answer; 499 and client_gone if the client
	// left before there was one.
	Status   int
	CodeText string
	Duration time.Duration
	// Shed says in a word what there was too much of, if that is why the request was
	// refused: leases_waiting, or wrong_keys.
	Shed string
}

// statusClientGone is what proxies write into their logs for it.
const statusClientGone = 499

func (x *exchange) observed() {
	r := Request{Method: x.method, Status: x.status, CodeText: x.word, Duration: time.Since(x.start), Shed: shedReason(x.cause)}
	// A long poll that is given up is no failure of ours.
	if x.r.Context().Err() != nil && x.stack == nil && (r.Status == 0 || r.Status >= http.StatusInternalServerError) {
		r.Status, r.CodeText = statusClientGone, "client_gone"
	}
	x.s.observer.RequestEnded(r)
}

func shedReason(err error) string {
	if e, ok := errors.AsType[*queue.OverloadedError](err); ok {
		return e.Reason
	}
	if _, ok := errors.AsType[*guessError](err); ok {
		return "wrong_keys"
	}
	return ""
}
