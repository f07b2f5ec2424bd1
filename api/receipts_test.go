package api_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
)

// settlingCalls are those that receipts let in, with a body for two of them.
var settlingCalls = map[string]string{
	"queue.complete": `"receipts":["%s","%s"]`,
	"queue.retry":    `"items":[{"id":"%s"},{"id":"%s"}]`,
	"queue.release":  `"receipts":["%s","%s"]`,
	"queue.bury":     `"receipts":["%s","%s"]`,
	"queue.extend":   `"receipts":["%s","%s"]`,
}

// receiptOf makes a well-formed one of a namespace.
func receiptOf(ns queue.Namespace) queue.Receipt {
	r := receipt(1)
	r.Key.Queue = queue.NewNumber(ns, 7)
	return r
}

// holding is a server with keys that settles everything and remembers for whom.
func holding(t *testing.T, change ...func(*api.Options)) (e *env, got *queue.SettleCall) {
	t.Helper()
	e, _ = keyed(t, change...)
	got = new(queue.SettleCall)
	e.broker.settle = settleAll(got)
	e.broker.extend = func(ns queue.Namespace, name string, entries []queue.ExtendEntry) ([]queue.Extended, error) {
		*got = queue.SettleCall{Namespace: ns, Queue: name}
		extended := make([]queue.Extended, len(entries))
		for i := range entries {
			got.Entries = append(got.Entries, queue.SettleEntry{Receipt: entries[i].Receipt})
			extended[i] = queue.Extended{Status: queue.Applied, Deadline: time.Unix(1_900_000_000, 0)}
		}
		return extended, nil
	}
	return e, got
}

// plain is a receipt without what a stranger's is taken to say beside its proof.
func plain(r queue.Receipt) queue.Receipt {
	r.Notify, r.Pushed = false, false
	return r
}

func TestA04_WhatAStrangerTakesOffAReceiptIsPutBack(t *testing.T) {
	t.Parallel()
	for method, body := range settlingCalls {
		if method == "queue.extend" {
			continue // it ends nothing
		}
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			e, got := holding(t)
			e.call(method, "{"+fmt.Sprintf(body, receiptOf(3), receiptOf(3))+"}").want(200, "ok")
			for _, entry := range got.Entries {
				if !entry.Receipt.Notify || !entry.Receipt.Pushed {
					t.Errorf("receipt %+v, want others told and the log kept", entry.Receipt)
				}
			}
		})
	}
}

func TestA04_AReceiptIsTheCredentialForItsOwnItem(t *testing.T) {
	t.Parallel()
	for method, body := range settlingCalls {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			e, got := holding(t)
			one, two := receiptOf(3), receiptOf(3)
			e.call(method, "{"+fmt.Sprintf(body, one, two)+"}").want(200, "ok")
			if got.Namespace != 3 || len(got.Entries) != 2 || plain(got.Entries[0].Receipt) != one || plain(got.Entries[1].Receipt) != two {
				t.Errorf("got %+v, want both receipts in their namespace", got)
			}
			// The name beside it is compared, and not handed on: what is wrong with it is not told.
			e.broker.queueName = func(queue.Number) (string, error) { return "seven", nil }
			e.call(method, `{"queue_name":"seven",`+fmt.Sprintf(body, one, two)+"}").want(200, "ok")
			if got.Queue != "" || len(got.Entries) != 2 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestA04_ReceiptsThatAreNoneLetNobodyIn(t *testing.T) {
	t.Parallel()
	e, got := holding(t)
	good := receiptOf(1).String()
	for method, body := range settlingCalls {
		for name, texts := range map[string][2]string{
			"nonsense": {"nonsense", "nonsense"}, "one of two": {good, good[:70]}, "the longer spelling": {good, good + "="}, "empty": {good, ""},
		} {
			a := e.call(method, "{"+fmt.Sprintf(body, texts[0], texts[1])+"}").want(401, "unauthenticated")
			if a.header.Get("WWW-Authenticate") != `Bearer realm="posthaste"` {
				t.Errorf("%s, %s: got challenge %q", method, name, a.header.Get("WWW-Authenticate"))
			}
		}
		e.call(method, `{}`).want(401, "unauthenticated")
		// A key that is wrong is not as good as none.
		body := "{" + fmt.Sprintf(body, good, receiptOf(1)) + "}"
		for _, header := range []string{"Bearer " + newKey(t).Reveal(), "Bearer nonsense", "Basic x", ""} {
			e.do(request("/v1/"+method, strings.NewReader(body), "Authorization", header)).want(401, "unauthenticated")
		}
	}
	for _, other := range []queue.Number{queue.NewNumber(2, 7), queue.NewNumber(1, 8)} {
		r := receiptOf(1)
		r.Key.Queue = other
		e.call("queue.complete", fmt.Sprintf(`{"receipts":["%s","%s"]}`, good, r)).invalid("receipts[1]", "another queue")
	}
	if got.Entries != nil {
		t.Errorf("settled all the same: %+v", got)
	}
}

// Neither the lists that are beside the receipts nor other fields are a way around.
func TestA04_WhatReceiptsStandBesideIsJudged(t *testing.T) {
	t.Parallel()
	e, got := holding(t)
	good := receiptOf(1)
	e.call("queue.complete", fmt.Sprintf(`{"ids":["%s"],"receipts":["%s"]}`, good, good)).invalid("receipts", "one of")
	e.call("queue.complete", fmt.Sprintf(`{"receipts":["%s"],"queue_name":"a/b"}`, good)).invalid("queue_name", "want only")
	e.call("queue.complete", fmt.Sprintf(`{"receipts":["%s"],"x":1}`, good)).invalid("x", "not a field")
	e.call("queue.stats", fmt.Sprintf(`{"queue_name":"q","receipts":["%s"]}`, good)).want(401, "unauthenticated")
	if got.Entries != nil {
		t.Errorf("settled all the same: %+v", got)
	}
}

// Whoever has no good receipt must not learn which queues there are.
func TestA04_StrangersAreNotToldOfQueues(t *testing.T) {
	t.Parallel()
	e, _ := holding(t)
	e.broker.queueName = func(n queue.Number) (string, error) {
		if n != receiptOf(1).Key.Queue {
			return "", queue.ErrNotFound
		}
		return "seven", nil
	}
	e.broker.settle = func(call queue.SettleCall) ([]queue.Settled, error) {
		if call.Queue != "" {
			t.Errorf("the name %s was handed on", call.Queue)
		}
		return nil, &queue.StaleError{Entries: map[int]error{0: queue.ErrNotFound}}
	}
	e.broker.extend = func(queue.Namespace, string, []queue.ExtendEntry) ([]queue.Extended, error) {
		return []queue.Extended{{Status: queue.Gone}}, nil
	}
	elsewhere := receiptOf(1)
	elsewhere.Key.Queue = queue.NewNumber(1, 8)
	for _, method := range []string{"queue.complete", "queue.release", "queue.bury", "queue.extend"} {
		answers := map[string]bool{}
		for _, r := range []queue.Receipt{receiptOf(1), elsewhere} {
			for _, name := range []string{"seven", "other"} {
				a := e.call(method, fmt.Sprintf(`{"queue_name":"%s","receipts":["%s"]}`, name, r))
				answers[fmt.Sprint(a.status, strings.ReplaceAll(a.raw, r.String(), ""))] = true
			}
		}
		if len(answers) != 1 {
			t.Errorf("%s: answers differ: %v", method, answers)
		}
	}
	if log := e.log.String(); strings.Contains(log, "seven") || strings.Contains(log, "other") {
		t.Errorf("what a stranger calls a queue is in the log: %s", log)
	}
}

func TestA04_ReceiptsOfAnotherQueueThanTheOneNamedSettleNothing(t *testing.T) {
	t.Parallel()
	e, got := holding(t)
	e.broker.queueName = func(queue.Number) (string, error) { return "seven", nil }
	one, two := receiptOf(1), receiptOf(1)
	body := fmt.Sprintf(`{"queue_name":"eight","receipts":["%s","%s"]}`, one, two)
	for method, status := range map[string]int{"queue.complete": 409, "queue.extend": 200} {
		a := e.call(method, body)
		if a.status != status {
			t.Errorf("%s: got %s", method, a.raw)
		}
		a.is("not_found", "results", 0, "status")
		a.is("not_found", "results", 1, "status")
	}
	if got.Entries != nil {
		t.Errorf("settled all the same: %+v", got)
	}
}

func TestI01_CallersWithoutAKeyHaveSmallBodies(t *testing.T) {
	t.Parallel()
	e, _ := holding(t, func(o *api.Options) { o.Limits = api.Limits{Call: 300, ItemCall: 5000} })
	body := func(n int) *bytes.Reader {
		b := fmt.Sprintf(`{"receipts":["%s"]}`, receiptOf(1))
		return bytes.NewReader([]byte(b + strings.Repeat(" ", n-len(b))))
	}
	e.do(request("/v1/queue.complete", body(300))).want(200, "ok")
	e.do(request("/v1/queue.complete", body(301))).want(413, "too_large").is("300", "details", "limit")
}

// What is tried in vain is paced by address, whatever verb it is tried with; good
// receipts are not held up by that.
func TestI04_WrongReceiptsAreBoundedByAddressAndRightOnesAreNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _ := holding(t)
		settle, extend := e.broker.settle, e.broker.extend
		good, wrong := receiptOf(1), receiptOf(1)
		e.broker.settle = func(call queue.SettleCall) ([]queue.Settled, error) {
			if plain(call.Entries[0].Receipt) == good {
				return settle(call)
			}
			return nil, &queue.StaleError{Entries: map[int]error{0: queue.ErrNotFound}}
		}
		e.broker.extend = func(ns queue.Namespace, name string, entries []queue.ExtendEntry) ([]queue.Extended, error) {
			if plain(entries[0].Receipt) == good {
				return extend(ns, name, entries)
			}
			return []queue.Extended{{Status: queue.Stale}}, nil
		}
		call := func(method string, r queue.Receipt) answer {
			body := "{" + strings.ReplaceAll(settlingCalls[method], `,"%s"`, "") + "}"
			body = strings.ReplaceAll(body, `,{"id":"%s"}`, "")
			return e.call(method, fmt.Sprintf(body, r))
		}
		for i := range api.GuessBurst {
			if method := []string{"queue.complete", "queue.extend"}[i%2]; call(method, wrong).status == http.StatusTooManyRequests {
				t.Fatalf("attempt %d is one too many", i)
			}
		}
		for method := range settlingCalls {
			if a := call(method, wrong).want(429, "rate_limited"); a.header.Get("Retry-After") != "1" {
				t.Errorf("%s: Retry-After is %q", method, a.header.Get("Retry-After"))
			}
			call(method, good).want(200, "ok")
		}
		time.Sleep(api.GuessInterval)
		call("queue.extend", wrong).want(200, "ok").is("stale_lease", "results", 0, "status")
		call("queue.bury", wrong).want(429, "rate_limited")
	})
}

// With a key nobody is paced: a worker that was too slow has many stale receipts.
func TestI04_WrongReceiptsWithAKeyAreNotCounted(t *testing.T) {
	t.Parallel()
	e, key := keyed(t)
	e.broker.settle = func(queue.SettleCall) ([]queue.Settled, error) {
		return nil, &queue.StaleError{Entries: map[int]error{0: queue.ErrStale}}
	}
	for range 2 * api.GuessBurst {
		body := strings.NewReader(fmt.Sprintf(`{"receipts":["%s"]}`, receipt(1)))
		e.do(request("/v1/queue.complete", body, "Authorization", "Bearer "+key.Reveal())).want(409, "stale_lease")
	}
}
