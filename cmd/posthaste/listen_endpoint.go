package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
	"github.com/posthaste-io/posthaste/webhooks"
)

// maxListenBody bounds a request to the development endpoint; the server sends none that
// is larger.
const maxListenBody = 16 << 20

// endpoint answers requests and prints them.
type endpoint struct {
	flags    listenCommand
	verifier *webhooks.Verifier
	term     *terminal
	// later is nil unless items are kept, log unless there is one.
	later *later
	log   *os.File
	// stop ends the command.
	stop func(error)

	seen, accepted atomic.Int64
}

// errLog is that a request could not be logged, so that the log would be a lie.
var errLog = errors.New("--log")

func (e *endpoint) close() {
	if e.log != nil {
		e.log.Close() // each line is written by now
	}
}

// arrival is a request and what is made of it.
type arrival struct {
	at        time.Time
	request   *http.Request
	body      []byte
	signature string
	delivery  webhooks.Delivery
	// batch are the items of a request that brings several, failed those that are refused.
	batch  []webhooks.BatchItem
	failed map[string]bool
	// receipt is set for an item that is kept.
	receipt  string
	deadline time.Time
	// status is what it is answered, 0 for one that did not wait for it.
	status int
}

// ServeHTTP implements http.Handler.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.seen.Add(1)
	a := &arrival{at: time.Now(), request: r, delivery: webhooks.ReadDelivery(r.Header)}
	var answer []byte
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxListenBody))
	if err != nil {
		a.signature, a.status = "body: "+err.Error(), http.StatusRequestEntityTooLarge
		answer = []byte("the body did not come whole\n")
	} else {
		a.body = body
		answer = e.decide(w.Header(), a)
	}
	// Before the answer, so that there is a line for whatever was answered.
	if err := e.note(a); err != nil {
		e.stop(err)
		http.Error(w, "this endpoint cannot write its log", http.StatusInternalServerError)
		return
	}
	if a.status != 0 {
		w.WriteHeader(a.status)
		_, _ = w.Write(answer) // that they may be gone does not matter
	}
	e.print(a)
	if a.receipt != "" {
		e.later.keep(keptItem{a.delivery.ID, a.receipt, a.deadline, time.Now().Add(e.flags.Defer)})
	}
}

// decide says how a request is answered, in h, in a, and by what it returns.
func (e *endpoint) decide(h http.Header, a *arrival) (answer []byte) {
	var ok bool
	a.signature, ok = e.judge(a.request, a.body, a.at)
	if !wait(a.request.Context(), e.flags.Slow) {
		return nil
	}
	a.batch = batchOf(a)
	switch {
	case !ok:
		a.status = http.StatusUnauthorized
		return []byte(a.signature + "\n") // whoever sent it sees it as the push's error
	case len(a.batch) > 0:
		return e.decideBatch(h, a)
	case e.fails():
		a.status = e.flags.Status
		if e.flags.RetryAfter > 0 {
			h.Set("Retry-After", strconv.Itoa(int(e.flags.RetryAfter.Round(time.Second)/time.Second)))
		}
		return nil
	}
	e.accepted.Add(1)
	a.status = http.StatusOK
	if e.later != nil {
		if a.receipt, a.deadline, ok = client.ReceiptFrom(a.request.Header); ok {
			a.status = http.StatusAccepted
			h.Set(webhooks.HeaderLease, "keep")
		}
	}
	return nil
}

// fails draws lots.
func (e *endpoint) fails() bool { return rand.Float64() < float64(e.flags.Fail) }

// batchOf are the items of a request that brings several: it has no attempt of its own.
func batchOf(a *arrival) []webhooks.BatchItem {
	h := a.request.Header
	if h.Get("posthaste-subscription") == "" || h.Get("posthaste-attempt") != "" {
		return nil
	}
	items, err := webhooks.DecodeBatch(h.Get("Content-Type"), a.body)
	if err != nil {
		return nil // it is shown as it is
	}
	return items
}

// decideBatch takes a batch, but for the items that fail.
func (e *endpoint) decideBatch(h http.Header, a *arrival) (answer []byte) {
	a.status, a.failed = http.StatusOK, map[string]bool{}
	e.accepted.Add(1)
	var failed []webhooks.FailedItem
	for i := range a.batch {
		if e.fails() {
			failed = append(failed, webhooks.FailedItem{ID: a.batch[i].ID, RetryAfter: e.flags.RetryAfter})
			a.failed[a.batch[i].ID] = true
		}
	}
	if len(failed) == 0 {
		return nil
	}
	h.Set("Content-Type", "application/json")
	return webhooks.EncodeFailed(failed...)
}

// judge says in words whether a request is signed well, and whether it may pass.
func (e *endpoint) judge(r *http.Request, body []byte, now time.Time) (signature string, ok bool) {
	signed := r.Header.Get(webhooks.HeaderSignature) != ""
	switch {
	case e.verifier == nil && signed:
		return "signed, not verified (no --secret)", true
	case e.verifier == nil:
		return "unsigned", true
	case !signed:
		return "UNSIGNED", false
	}
	if err := e.verifier.Verify(r.Header, body, now); err != nil {
		return "INVALID: " + err.Error(), false
	}
	return "signature ok", true
}

// print writes what came as a small block.
func (e *endpoint) print(a *arrival) {
	answer, c := strconv.Itoa(a.status), green
	switch {
	case a.status == 0:
		answer, c = "gone before the answer", red
	case a.status >= 300:
		c = red
	case a.receipt != "":
		answer = fmt.Sprintf("%d, kept for %s", a.status, e.flags.Defer)
	case len(a.failed) > 0:
		answer, c = fmt.Sprintf("%d, %d of %d items failed", a.status, len(a.failed), len(a.batch)), yellow
	}
	e.term.printf("%s  %s %s  → %s  %s\n%s", a.at.Format("15:04:05.000"), a.request.Method, excerpt([]byte(a.request.URL.RequestURI()), 200),
		e.term.paint(c, answer), a.signature, e.details(a))
}

func (e *endpoint) details(a *arrival) string {
	h := a.request.Header
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "    %s %s\n", e.term.paint(dim, fmt.Sprintf("%-9s", name)), text)
		}
	}
	for _, each := range [][2]string{
		{"id", h.Get(webhooks.HeaderID)},
		{"queue", h.Get("posthaste-queue")},
		{"kind", h.Get("posthaste-kind")},
		{"reference", h.Get("posthaste-reference")},
		{"attempt", attemptOf(h.Get("posthaste-attempt"), h.Get("posthaste-max-attempts"))},
		{"before", strings.TrimSpace(h.Get("posthaste-retry-reason") + " " + h.Get("posthaste-previous-status"))},
		{"type", h.Get("Content-Type")},
	} {
		line(each[0], excerpt([]byte(each[1]), 200))
	}
	for i := range a.batch {
		line("item", e.itemText(&a.batch[i], a.failed))
	}
	size := fmt.Sprintf("%d bytes", len(a.body))
	if len(a.batch) > 0 {
		line(size, fmt.Sprintf("%d items", len(a.batch)))
	} else {
		fmt.Fprintf(&b, "    %s %s\n", e.term.paint(dim, fmt.Sprintf("%-9s", size)), excerpt(a.body, 400))
	}
	return b.String() + "\n"
}

func attemptOf(attempt, most string) string {
	if attempt != "" && most != "" && most != "0" {
		attempt += " of " + most
	}
	return attempt
}

// itemText is an item of a batch, on one line.
func (e *endpoint) itemText(it *webhooks.BatchItem, failed map[string]bool) string {
	parts := []string{it.ID}
	if it.Kind != "" {
		parts = append(parts, excerpt([]byte(it.Kind), 200))
	}
	parts = append(parts, "attempt "+attemptOf(strconv.Itoa(int(it.Attempt)), strconv.Itoa(int(it.MaxAttempts))))
	if failed[it.ID] {
		parts = append(parts, e.term.paint(red, "failed"))
	}
	return strings.Join(append(parts, excerpt(it.Payload, 200)), "  ")
}

// wait waits, and says whether it did so to the end.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
