package api_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
)

// record is an attempt with everything that one can have.
func record() queue.Record {
	number := queue.NewNumber(queue.DefaultNamespace, 7)
	at := time.Unix(1_900_000_000, 120_000_000)
	return queue.Record{
		Type: queue.AttemptRecord, At: at, Key: queue.Key{ID: queue.NewID(), Queue: number, Home: number},
		Delivery: 2, Next: queue.StepRetry, NextAt: at.Add(time.Minute),
		Subscription: "shop", StartedAt: at.Add(-120 * time.Millisecond), Duration: 120*time.Millisecond + 7,
		Verdict: "retryable", Status: 500, Error: "status: the endpoint answered 500", Response: []byte("no\xff"), Node: "web-1",
	}
}

func TestAttempts_ShowWhatTheLogHas(t *testing.T) {
	t.Parallel()
	e := setup(t)
	r := record()
	gone := queue.Record{Type: queue.LapseRecord, At: r.At, Key: queue.Key{ID: queue.NewID(), Queue: queue.NewNumber(1, 99)}, Delivery: 1}
	e.broker.attempts = func(queue.AttemptsQuery) (queue.AttemptsPage, error) {
		return queue.AttemptsPage{Records: []queue.Record{r, gone}}, nil
	}
	a := e.call("attempts.list", `{}`)
	for field, want := range map[string]any{
		"item_id": r.Key.ID.String(), "queue_name": "seven", "subscription": "shop", "attempt": 2.0, "type": "attempt",
		"at": "2030-03-17T17:46:40.12Z", "started_at": "2030-03-17T17:46:40Z", "duration": "0.12s", "verdict": "retryable", "status": 500.0,
		"error": r.Error, "response": base64.StdEncoding.EncodeToString(r.Response), "next": "retry", "next_at": "2030-03-17T17:47:40.12Z", "node": "web-1",
	} {
		a.is(want, "items", 0, field)
	}
	for field, want := range map[string]any{"item_id": gone.Key.ID.String(), "queue_name": nil, "type": "lapse", "next": nil, "duration": nil, "response": nil, "next_at": nil} {
		a.is(want, "items", 1, field)
	}
	a.is(nil, "cursor")
}

func TestAttempts_HandOnWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	e := setup(t)
	id := queue.NewID()
	at := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	var got queue.AttemptsQuery
	e.broker.attempts = func(q queue.AttemptsQuery) (queue.AttemptsPage, error) {
		got = q
		return queue.AttemptsPage{}, nil
	}
	for body, want := range map[string]queue.AttemptsQuery{
		`{}`: {Limit: 100},
		`{"item_id":"` + id.String() + `","subscription":"shop","queue_name":"orders","verdict":"gone","type":"ending"}`: {
			Item: id, Subscription: "shop", Queue: "orders", Verdict: "gone", Type: queue.EndingRecord, Limit: 100,
		},
		`{"from":"2030-01-31T08:00:00Z","to":"2030-01-31T09:00:00+00:30","oldest_first":true,"limit":1000}`: {
			From: at, To: at.Add(30 * time.Minute), OldestFirst: true, Limit: 1000,
		},
	} {
		want.Namespace = queue.DefaultNamespace
		if a := e.call("attempts.list", body); a.status != 200 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %s\n%+v, want\n%+v", body, a.raw, got, want)
		}
	}
}

func TestAttempts_NameTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.attempts = func(queue.AttemptsQuery) (queue.AttemptsPage, error) {
		t.Error("read all the same")
		return queue.AttemptsPage{}, nil
	}
	for body, want := range map[string][2]string{
		`"item_id":"x"`:               {"item_id", "not an item id"},
		`"subscription":"a/b"`:        {"subscription", "want only"},
		`"queue_name":"a/b"`:          {"queue_name", "want only"},
		`"type":"push"`:               {"type", `"push" is not one of attempt, lapse, ending`},
		`"limit":1001`:                {"limit", "want 1 to 1000"},
		`"limit":-1`:                  {"limit", "want 1 to 1000"},
		`"cursor":"x"`:                {"cursor", "not given out by this list"},
		`"from":"now"`:                {"from", "RFC 3339"},
		`"request_timeout":"1ms"`:     {"request_timeout", "out of range"},
		`"verdict":"` + tooLong + `"`: {"verdict", "longer than 255"},
		`"from":"2030-01-31T08:00:00Z","to":"2030-01-31T08:00:00Z"`: {"to", "not after from"},
	} {
		e.call("attempts.list", "{"+body+"}").invalid(want[0], want[1])
	}
}

var tooLong = strings.Repeat("x", 256)

func TestI08_AttemptsGoOnWhereTheyEnded(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var got string
	e.broker.attempts = func(q queue.AttemptsQuery) (queue.AttemptsPage, error) {
		got = q.Cursor
		return queue.AttemptsPage{Records: []queue.Record{record()}, Next: "further"}, nil
	}
	cursor, _ := e.call("attempts.list", `{"subscription":"shop"}`).get("cursor").(string)
	if a := e.call("attempts.list", `{"subscription":"shop","limit":7,"cursor":"`+cursor+`"}`); a.status != 200 || got != "further" {
		t.Errorf("got %s, and the cursor %q", a.raw, got)
	}
	for _, other := range []string{`"subscription":"other"`, `"subscription":"shop","verdict":"gone"`, `"subscription":"shop","oldest_first":true`, `"queue_name":"shop"`} {
		e.call("attempts.list", "{"+other+`,"cursor":"`+cursor+`"}`).invalid("cursor", "not given out by this list")
	}
}

func TestC16_AttemptsThatNobodyReadsAreBounded(t *testing.T) {
	t.Parallel()
	e := setup(t, func(o *api.Options) { o.Limits.Answers = 30 << 10 })
	large := record()
	large.Response = make([]byte, queue.MaxResponse)
	records := []queue.Record{large, large, large, large}
	e.broker.attempts = func(queue.AttemptsQuery) (queue.AttemptsPage, error) {
		return queue.AttemptsPage{Records: records}, nil
	}
	e.call("attempts.list", `{}`).want(429, "overloaded")
	records = records[:3]
	if a := e.call("attempts.list", `{}`); a.status != 200 {
		t.Errorf("what a refused call held was kept: %s", a.raw)
	}
}

// A caller's namespace is that of its key, and goes with every question.
func TestAttempts_AreThoseOfTheCallersNamespace(t *testing.T) {
	t.Parallel()
	e := setup(t, func(o *api.Options) { o.Access = inNamespace(5) })
	var got queue.AttemptsQuery
	e.broker.attempts = func(q queue.AttemptsQuery) (queue.AttemptsPage, error) {
		got = q
		return queue.AttemptsPage{}, nil
	}
	body := fmt.Sprintf(`{"item_id":"%s"}`, queue.NewID())
	if a := e.call("attempts.list", body); a.status != 200 || got.Namespace != 5 {
		t.Errorf("got %s, asked in namespace %d", a.raw, got.Namespace)
	}
}

// inNamespace lets everybody in, to one namespace.
type inNamespace queue.Namespace

// Identify implements [api.Access].
func (n inNamespace) Identify(*http.Request) (api.Principal, error) {
	return api.Principal{Namespace: queue.Namespace(n)}, nil
}

// Allow implements [api.Access].
func (inNamespace) Allow(api.Principal, string, string) error { return nil }
