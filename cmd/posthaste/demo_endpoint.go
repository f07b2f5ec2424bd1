package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/webhooks"
)

// demoAttempts is the budget of the demonstration's subscription.
const demoAttempts = 3

// demoEndpoint is a receiver with bad days: it refuses some items at first, and
// poisoned ones always.
type demoEndpoint struct {
	verifier *webhooks.Verifier
	ledger   *ledger
	view     *demoView
}

// ServeHTTP implements http.Handler.
func (e *demoEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	body, err := e.verifier.Read(r, maxListenBody, at)
	if err != nil {
		// Answered as gone, which stops the queue: the demonstration fails, as it should.
		http.Error(w, err.Error(), http.StatusGone)
		e.view.line(at, "push", "?", "", "410", red, err.Error())
		return
	}
	name := strings.TrimSpace(string(body))
	attempt, err := strconv.Atoi(r.Header.Get("posthaste-attempt"))
	if err != nil {
		attempt = 0
	}
	status := demoStatus(name, attempt)
	accepted := status == http.StatusOK
	took := e.ledger.attempt(name, at, accepted)

	c, follows := green, "delivered "+short(took)+" after "+demoSince(name)
	switch {
	case !accepted && attempt >= demoAttempts:
		c, follows = red, "last attempt, goes to the dead-letter queue"
	case !accepted:
		c, follows = yellow, "will be tried again"
	}
	e.view.line(at, "push", name, fmt.Sprintf("%d of %d", attempt, demoAttempts), strconv.Itoa(status), c, follows)
	w.WriteHeader(status)
	if !accepted {
		_, _ = io.WriteString(w, "not today\n") // who asked may be gone
	}
}

// demoStatus is how the endpoint answers: what it refuses is the same in every run.
func demoStatus(name string, attempt int) int {
	kind, number := demoKindOf(name)
	switch {
	case kind == "poison":
		return http.StatusInternalServerError
	case kind == "order" && number%5 == 4 && attempt == 1:
		return http.StatusServiceUnavailable
	case kind == "order" && number%10 == 9 && attempt == 2:
		return http.StatusBadGateway
	default:
		return http.StatusOK
	}
}

// demoKindOf splits order-07.
func demoKindOf(name string) (kind string, number int) {
	kind, digits, _ := strings.Cut(name, "-")
	number, err := strconv.Atoi(digits)
	if err != nil {
		return kind, 0
	}
	return kind, number
}

func demoSince(name string) string {
	if kind, _ := demoKindOf(name); kind == "later" {
		return "it was due"
	}
	return "produce"
}

// short writes a duration with three digits or so.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	default:
		return d.Round(10 * time.Millisecond).String()
	}
}
