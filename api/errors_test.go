package api_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// answers says what every error of the domain is on the wire, by its Go name.
var answers = map[string]struct {
	err        error
	status     int
	word       string
	retryAfter string
}{
	"ErrNotFound":       {queue.ErrNotFound, 404, "not_found", ""},
	"ErrClientWaiting":  {queue.ErrClientWaiting, 409, "client_waiting", ""},
	"ErrExists":         {queue.ErrExists, 409, "already_exists", ""},
	"ErrRevision":       {queue.ErrRevision, 409, "revision_mismatch", ""},
	"ErrOvertaken":      {queue.ErrOvertaken, 500, "internal", ""},
	"ErrStale":          {queue.ErrStale, 409, "stale_lease", ""},
	"ErrMismatch":       {queue.ErrMismatch, 409, "idempotency_mismatch", ""},
	"ErrAlreadyDead":    {queue.ErrAlreadyDead, 409, "already_dead", ""},
	"ErrNotEmpty":       {queue.ErrNotEmpty, 409, "not_empty", ""},
	"ErrNotBlocking":    {queue.ErrNotBlocking, 409, "not_blocking", ""},
	"ErrPaused":         {queue.ErrPaused, 409, "queue_paused", ""},
	"ErrDiskFull":       {queue.ErrDiskFull, 507, "disk_full", "10"},
	"ErrUnavailable":    {queue.ErrUnavailable, 503, "store_unavailable", "2"},
	"ErrUnknownOutcome": {queue.ErrUnknownOutcome, 503, "unknown_outcome", "1"},
	"ErrShuttingDown":   {queue.ErrShuttingDown, 503, "shutting_down", "1"},
	"ErrNoKey":          {subscriptions.ErrNoKey, 400, "encryption_key_missing", ""},
	"ErrNotSupported":   {queue.ErrNotSupported, 400, "not_supported", ""},
	"InvalidError":      {queue.Invalid("items[3].delay", "is odd"), 400, "invalid", ""},
	"TooLargeError":     {&queue.TooLargeError{Field: "items", Limit: 1000, Unit: "items"}, 413, "too_large", ""},
	"FanOutError":       {&queue.FanOutError{Field: "items", Topic: "events", Items: 11, Copies: 11_000, Limit: 10_000, Unit: "copies"}, 413, "fan_out_too_large", ""},
	"TopicError":        {&queue.TopicError{Topic: "events"}, 400, "is_topic", ""},
	"OverloadedError":   {&queue.OverloadedError{What: "requests", RetryAfter: 1500 * time.Millisecond}, 429, "overloaded", "2"},
	"EndedError":        {&queue.EndedError{ID: queue.NewID()}, 404, "not_found", ""},
	"UnsupportedError":  {&queue.UnsupportedError{What: "field x"}, 400, "not_supported", ""},
	"StaleError":        {&queue.StaleError{Entries: map[int]error{0: queue.ErrStale}}, 409, "stale_lease", ""},
}

func TestErrors_EveryErrorOfTheDomainHasItsAnswer(t *testing.T) {
	t.Parallel()
	for _, name := range domainErrors(t) {
		if _, ok := answers[name]; !ok {
			t.Errorf("queue.%s has no row in this test", name)
		}
	}
	for name, c := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			e.broker.stats = func(string) (queue.QueueStats, error) {
				return queue.QueueStats{}, fmt.Errorf("stats: orders: %w", c.err)
			}
			a := e.call("queue.stats", `{"queue_name":"orders"}`).want(c.status, c.word)
			if got := a.header.Get("Retry-After"); got != c.retryAfter {
				t.Errorf("Retry-After: got %q, want %q", got, c.retryAfter)
			}
			if a.body["message"] == "" {
				t.Error("nothing for people to read")
			}
		})
	}
}

func TestErrors_OfItemsAndOfNamesSayWhatToDo(t *testing.T) {
	t.Parallel()
	for head, want := range map[string]string{
		"queue orders":                "queue orders: there is none of that name; create it first, or check the spelling",
		"item 01a2-… in queue orders": "item 01a2-… in queue orders: it is not there; it has ended, or is in another queue, as items.info tells",
	} {
		e := setup(t)
		e.broker.stats = func(string) (queue.QueueStats, error) {
			return queue.QueueStats{}, fmt.Errorf("%s: %w", head, queue.ErrNotFound)
		}
		e.call("queue.stats", `{"queue_name":"orders"}`).want(404, "not_found").is(want, "message")
	}
}

// domainErrors reads the names of exported errors out of the package's source, so
// that a new one cannot be forgotten here.
func domainErrors(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../queue/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return false
		case *ast.ValueSpec:
			for _, name := range n.Names {
				if strings.HasPrefix(name.Name, "Err") {
					names = append(names, name.Name)
				}
			}
		case *ast.TypeSpec:
			if strings.HasSuffix(n.Name.Name, "Error") {
				names = append(names, n.Name.Name)
			}
		}
		return true
	})
	if len(names) < 10 {
		t.Fatalf("found only %v", names)
	}
	return names
}

func TestErrors_OfContextsAreOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, err := range []error{context.DeadlineExceeded, context.Canceled} {
		e := setup(t)
		e.broker.produce = func(queue.ProduceCall) ([]queue.Produced, error) { return nil, fmt.Errorf("produce: %w", err) }
		e.call("queue.produce", `{"queue_name":"q","items":[{}]}`).want(503, "unknown_outcome")
	}
}

func TestErrors_WhatNobodyForesawIsLoggedNotTold(t *testing.T) {
	t.Parallel()
	for _, secret := range []error{
		errors.New("dial 10.0.0.7: refused"),
		fmt.Errorf("dial 10.0.0.7: refused: %w", queue.ErrUnavailable),
		fmt.Errorf("dial 10.0.0.7: refused: %w", queue.ErrUnknownOutcome),
	} {
		e := setup(t)
		e.broker.stats = func(string) (queue.QueueStats, error) { return queue.QueueStats{}, secret }
		a := e.call("queue.stats", `{"queue_name":"orders"}`)
		if a.status < 500 || strings.Contains(a.raw, "10.0.0.7") {
			t.Errorf("told: %s", a.raw)
		}
		if !strings.Contains(e.log.String(), "10.0.0.7") {
			t.Errorf("not logged: %s", e.log)
		}
	}
}

func TestErrors_ASecondSubscriptionIsRefusedWithAHint(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.subs.err = fmt.Errorf("subscription b: %w", &subscriptions.TakenError{Queue: "orders", By: "a"})
	a := e.call("subscriptions.create", `{"name":"b","queue_name":"orders","url":"https://example.com"}`).want(409, "already_exists")
	if !strings.Contains(a.raw, "topic") {
		t.Errorf("no hint: %s", a.raw)
	}
}

func TestErrors_AMismatchNamesItsItem(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.produce = func(queue.ProduceCall) ([]queue.Produced, error) {
		return nil, fmt.Errorf("produce: orders: %w", &queue.MismatchError{Index: 1})
	}
	e.call("queue.produce", `{"queue_name":"q","items":[{},{}]}`).want(409, "idempotency_mismatch").
		is("items[1].idempotency_key", "details", "field")
}
