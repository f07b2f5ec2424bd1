package api_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
)

// methods are all calls of this release.
var methods = []string{
	"queue.produce", "queue.lease", "queue.stats",
	"queue.complete", "queue.retry", "queue.release", "queue.bury", "queue.extend",
	"queue.clear", "queue.reload", "queue.keys", "queue.unblock", "queue.redrive",
	"queues.create", "queues.update", "queues.list", "queues.info", "queues.delete", "queues.pause", "queues.resume",
	"topics.create", "topics.update", "topics.list", "topics.info", "topics.delete",
	"storage/items.list", "storage/scheduled.list", "storage/items.import", "storage/items.delete",
	"items.info", "items.wait", "items.cancel",
	"subscriptions.create", "subscriptions.update", "subscriptions.list", "subscriptions.info",
	"subscriptions.delete", "subscriptions.pause", "subscriptions.resume", "subscriptions.enable",
	"subscriptions.rotate_secret", "subscriptions.test", "attempts.list",
	"schedules.create", "schedules.update", "schedules.list", "schedules.info", "schedules.delete",
	"schedules.pause", "schedules.resume", "schedules.trigger", "schedules.preview",
}

func TestI03_EveryMethodIsStrict(t *testing.T) {
	t.Parallel()
	for _, m := range methods {
		t.Run(m, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			e.call(m, `{"nonsense":1}`).invalid("nonsense", "not a field")
			e.call(m, `{} {}`).invalid("", "follows the message")
			e.call(m, ``).invalid("", "empty")
			e.call(m+"?key=secret", `{}`).invalid("", "query strings")
			if m != "queue.produce" && m != "schedules.trigger" {
				e.do(request("/v1/"+m, strings.NewReader(`{}`), "Idempotency-Key", "k")).invalid("Idempotency-Key", "takes none")
			}
			e.do(request("/v1/"+m, strings.NewReader(`{}`), "Posthaste-Namespace", "n")).want(400, "not_supported")
			e.do(request("/v1/"+m, strings.NewReader(`{}`), "Posthaste-Ordering-Key", "n")).invalid("Posthaste-Ordering-Key", "put it into the item")
			e.do(request("/v1/"+m, strings.NewReader(`{}`), "Posthaste-Delay", "1s")).invalid("Posthaste-Delay", "put it into the item")
			get := e.do(httptest.NewRequest(http.MethodGet, "/v1/"+m, nil)).want(405, "method_not_allowed")
			if allow := get.header.Get("Allow"); allow != "POST" {
				t.Errorf("Allow: got %q, want POST", allow)
			}
		})
	}
}

func TestI01_BodiesOverTheLimitAreRefusedNotCut(t *testing.T) {
	t.Parallel()
	limits := map[string]int{
		"queue.produce": 5_000_000, "queue.complete": 5_000_000, "queue.retry": 5_000_000, "storage/items.import": 5_000_000,
		"subscriptions.test": 5_000_000, "schedules.create": 5_000_000, "schedules.update": 5_000_000,
	}
	for _, m := range methods {
		limit := limits[m]
		if limit == 0 {
			limit = 256_000
		}
		t.Run(m, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			fits := append([]byte(`{"nonsense":1}`), bytes.Repeat([]byte(" "), limit-len(`{"nonsense":1}`))...)
			over := append(fits, ' ')
			// Without a length as well: a reader of no known type has none.
			for _, unknown := range []bool{false, true} {
				body := func(b []byte) io.Reader {
					if unknown {
						return struct{ io.Reader }{bytes.NewReader(b)}
					}
					return bytes.NewReader(b)
				}
				e.do(request("/v1/"+m, body(fits))).invalid("nonsense", "not a field")
				a := e.do(request("/v1/"+m, body(over))).want(413, "too_large")
				a.is(fmt.Sprint(limit), "details", "limit")
				if a.header.Get("Connection") != "close" && unknown {
					t.Errorf("chunked, and the connection stays open: what follows could be read as a request")
				}
			}
		})
	}
}

func TestCall_TakesOnlyTypesThatItReads(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for _, ok := range []string{"", "*/*", "application/json", "Application/JSON; charset=UTF-8"} {
		if a := e.do(request("/v1/queues.list", strings.NewReader(`{}`), "Content-Type", ok)); a.status != 200 {
			t.Errorf("%q: got %d, want 200", ok, a.status)
		}
	}
	for contentType, hint := range map[string]string{
		"application/x-www-form-urlencoded":  "curl --json",
		"application/protobuf;encoding=json": "encoding json",
		"text/plain":                         "/v1/produce/{queue}",
		"application/json; charset=latin1":   "UTF-8",
		"nonsense/":                          "application/json",
	} {
		a := e.do(request("/v1/queues.list", strings.NewReader(`{}`), "Content-Type", contentType)).want(415, "unsupported_media_type")
		if !strings.Contains(a.body["message"].(string), hint) {
			t.Errorf("%s: got %s, want a hint of %q", contentType, a.raw, hint)
		}
	}
	for _, encoding := range []string{"gzip", "br", "identity, gzip"} {
		e.do(request("/v1/queues.list", strings.NewReader(`{}`), "Content-Encoding", encoding)).want(415, "unsupported_media_type")
		e.do(request("/v1/produce/q", strings.NewReader(`{}`), "Content-Encoding", encoding)).want(415, "unsupported_media_type")
	}
}

func TestCall_LaterMethodsAndUnknownOnes(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for _, m := range []string{"namespaces.create", "apikeys.list", "audit.list"} {
		e.call(m, `{}`).want(400, "not_supported")
	}
	e.call("queue.foo", `{}`).want(404, "no_such_method")
	e.do(httptest.NewRequest(http.MethodGet, "/ui/", nil)).want(404, "no_such_method")
	post := e.do(httptest.NewRequest(http.MethodPost, "/livez", nil)).want(405, "method_not_allowed")
	if allow := post.header.Get("Allow"); allow != "GET, HEAD" {
		t.Errorf("Allow: got %q, want GET, HEAD", allow)
	}
}

func TestI07_NamesAreJudgedBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for _, name := range []string{"", "a/b", "..", "a..b", `\u0000`, "-a", "ä", "a~", "~dead", strings.Repeat("x", 201), strings.Repeat("x", 200_000)} {
		e.call("queue.stats", `{"queue_name":"`+name+`"}`).want(400, "invalid").is("queue_name", "details", "field")
	}
	e.call("queue.stats", `{"queue_name":"orders~dead"}`).want(404, "not_found")
	for _, path := range []string{"a%2Fb", "a%00b", "..%2f..", "%C3%A4"} {
		e.do(request("/v1/produce/"+path, nil)).want(400, "invalid").is("queue", "details", "field")
	}
}

// Any character of a path may be escaped.
func TestProduce_TakesEscapedPaths(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var got string
	e.broker.produce = func(call queue.ProduceCall) ([]queue.Produced, error) {
		got = call.Queue
		return accept(call)
	}
	e.do(request("/v1/produce/%6Frders%7Edead", nil)).want(201, "ok")
	if got != "orders~dead" {
		t.Errorf("got %q, want orders~dead", got)
	}
}

func TestI08_PagesAreBounded(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for _, m := range []string{"queues.list", "topics.list", "subscriptions.list"} {
		for _, limit := range []string{"-1", "1001", "2147483647"} {
			e.call(m, `{"limit":`+limit+`}`).invalid("limit", "want 1 to 1000")
		}
	}
	e.call("storage/items.list", `{"queue_name":"q","limit":1001}`).invalid("limit", "want 1 to 1000")
}

func TestCall_RequestTimeoutHasBounds(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for text, reason := range map[string]string{"9ms": "out of range", "15m1ms": "out of range", "0s": "out of range", "-1s": "out of range", "60": "not a duration", "1 s": "not a duration"} {
		e.call("queue.lease", `{"queue_name":"q","request_timeout":"`+text+`"}`).invalid("request_timeout", reason)
		e.call("queue.produce", `{"queue_name":"q","items":[{}],"request_timeout":"`+text+`"}`).invalid("request_timeout", reason)
	}
}

func TestCall_RequestIDIsTakenOrMade(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for _, id := range []string{"abc-123", strings.Repeat("x", 128)} {
		a := e.do(request("/v1/queues.list", strings.NewReader(`{}`), "X-Request-Id", id))
		if got := a.header.Get("X-Request-Id"); got != id {
			t.Errorf("got %q, want the client's %q", got, id)
		}
		if !strings.Contains(e.log.String(), `"request_id":"`+id+`"`) {
			t.Errorf("the log does not have the id: %s", e.log)
		}
	}
	for _, id := range []string{"", strings.Repeat("x", 129), "a b", "grün", "a\"\n"} {
		a := e.do(request("/v1/queues.list", strings.NewReader(`{}`), "X-Request-Id", id))
		if _, err := queue.ParseID(a.header.Get("X-Request-Id")); err != nil {
			t.Errorf("%q: got %q, want one that was made", id, a.header.Get("X-Request-Id"))
		}
	}
}

func TestCall_PanicsAreAnsweredAndLogged(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.stats = func(string) (queue.QueueStats, error) { panic("out of coffee") }
	a := e.call("queue.stats", `{"queue_name":"q"}`).want(500, "internal")
	if strings.Contains(a.raw, "coffee") {
		t.Errorf("the answer tells what went wrong within: %s", a.raw)
	}
	if log := e.log.String(); !strings.Contains(log, "out of coffee") || !strings.Contains(log, "call_test.go") || !strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("the log lacks the panic or its stack: %s", log)
	}
}

func TestA11_LogHasNeitherPayloadsNorKeys(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.produce = accept
	const canary = "canary5e7e"
	e.do(request("/v1/queue.produce", strings.NewReader(`{"queue_name":"orders","items":[{"utf8":"`+canary+`","headers":{"X-Key":"`+canary+`"}}]}`),
		"Authorization", "Bearer "+canary, "Cookie", canary)).want(200, "ok")
	e.do(request("/v1/produce/orders", strings.NewReader(canary), "Authorization", canary, "Posthaste-Forward-X-Key", canary)).want(201, "ok")
	e.do(request("/v1/produce/orders?key="+canary, strings.NewReader(canary))).want(400, "invalid")
	e.do(request("/"+canary, nil)).want(404, "no_such_method")
	secret := "whsec_" + strings.Repeat("A", 43) + "="
	e.call("subscriptions.create", `{"name":"s","queue_name":"orders","url":"https://example.com","secret":"`+secret+`"}`)
	log := e.log.String()
	if strings.Contains(log, canary) || strings.Contains(log, secret) {
		t.Errorf("the log has what it must not have: %s", log)
	}
	if want := `"msg":"request","method":"queue.produce","status":200,"code_text":"ok"`; !strings.Contains(log, want) {
		t.Errorf("no line with %s: %s", want, log)
	}
	if lines := strings.Count(log, `"msg":"request"`); lines != 5 {
		t.Errorf("got %d lines, want one for each of 5 requests: %s", lines, log)
	}
}

func TestCall_PagesOfOtherOriginsAreRefused(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.produce = accept
	for name, value := range map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"} {
		a := e.do(request("/v1/produce/q", nil, name, value)).want(403, "forbidden")
		if m, _ := a.body["message"].(string); !strings.Contains(m, name) || !strings.Contains(m, value) || !strings.Contains(m, "proxy") {
			t.Errorf("%s: the message does not name it and a way: %s", name, a.raw)
		}
	}
	e.do(request("/v1/produce/q", nil)).want(201, "ok")
}

func TestCall_PagesThatPointTheirNameToLoopbackAreRefused(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.produce = accept
	browser := func(host string, headers ...string) answer {
		r := request("/v1/produce/q", nil, headers...)
		r.Host = host
		return e.do(r)
	}
	for _, host := range []string{"evil.example:2319", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "", "[::2]:1"} {
		for _, a := range []answer{browser(host, "Origin", "http://"+host), browser(host, "Sec-Fetch-Site", "same-origin")} {
			if a.want(403, "forbidden"); !strings.Contains(a.raw, "Host") {
				t.Errorf("%s: the message does not name Host: %s", host, a.raw)
			}
		}
		browser(host).want(201, "ok") // no browser: a proxy names whom it stands for
	}
	for _, host := range []string{"127.0.0.1:2319", "127.0.0.1", "127.8.9.10:1", "[::1]:2319", "[::1]", "localhost:2319", "LOCALHOST"} {
		browser(host, "Origin", "http://"+host).want(201, "ok")
	}
	// Whoever has keys may be called by any name.
	keyed := setup(t, func(o *api.Options) { o.Access = &refusing{} })
	keyed.broker.produce = accept
	r := request("/v1/produce/q", nil, "Sec-Fetch-Site", "same-origin")
	r.Host = "queue.example"
	keyed.do(r).want(201, "ok")
}

func TestCall_AKeyThatNobodyReadsIsWarnedOfOnce(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.produce = accept
	for range 2 {
		e.do(request("/v1/produce/q", nil, "Authorization", "Bearer secret")).want(201, "ok")
	}
	if log := e.log.String(); strings.Count(log, `"level":"WARN"`) != 1 || strings.Contains(log, "secret") {
		t.Errorf("got %s, want one warning without the key", log)
	}
}

// refusing says no to one method.
type refusing struct {
	api.OpenAccess
	method, name string
}

func (r *refusing) Allow(p api.Principal, method, name string) error {
	if p.Namespace == queue.DefaultNamespace && method == r.method && name == r.name {
		return api.ErrForbidden
	}
	return nil
}

func TestCall_AsksWhetherThePrincipalMay(t *testing.T) {
	t.Parallel()
	for method, call := range map[string]func(*env) answer{
		"queue.produce": func(e *env) answer { return e.call("queue.produce", `{"queue_name":"q","items":[{}]}`) },
		"produce":       func(e *env) answer { return e.do(request("/v1/produce/q", nil)) },
	} {
		e := setup(t, func(o *api.Options) { o.Access = &refusing{method: method, name: "q"} })
		e.broker.produce = func(queue.ProduceCall) ([]queue.Produced, error) {
			t.Error("produced all the same")
			return nil, errors.New("unreachable")
		}
		call(e).want(403, "forbidden")
	}
}

// Every name that a call is about is asked for, wherever it stands.
func TestCall_AsksForEveryNameOfACall(t *testing.T) {
	t.Parallel()
	id := queue.NewID().String()
	for body, names := range map[string][]string{
		`queue.redrive {"queue_name":"q~dead","target":"t"}`:           {"q~dead", "t"},
		`queue.redrive {"queue_name":"q~dead"}`:                        {"q~dead", ""},
		`queues.create {"queue_name":"q","dead_queue":"d"}`:            {"q", "d"},
		`queues.update {"queue_name":"q","dead_queue":"d"}`:            {"q", "d"},
		`subscriptions.update {"name":"s","queue_name":"q"}`:           {"s", "q"},
		`items.cancel {"filter":{"queue_name":"q"}}`:                   {"q"},
		`items.cancel {"item_ids":["` + id + `"],"queue_name":"q"}`:    {"q"},
		`items.cancel {"item_ids":["` + id + `"]}`:                     {""},
		`items.info {"item_id":"` + id + `","queue_name":"q"}`:         {"q"},
		`items.wait {"item_id":"` + id + `"}`:                          {""},
		`storage/items.delete {"queue_name":"q","ids":["` + id + `"]}`: {"q"},
	} {
		method, message, _ := strings.Cut(body, " ")
		for _, name := range names {
			e := setup(t, func(o *api.Options) { o.Access = &refusing{method: method, name: name} })
			e.call(method, message).want(403, "forbidden")
		}
		e := setup(t, func(o *api.Options) { o.Access = &refusing{method: method, name: "other"} })
		e.call(method, message).want(404, "not_found") // by the broker
	}
}

func TestC16_BodiesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	e := setup(t, func(o *api.Options) { o.Limits = api.Limits{Bodies: 128 << 10} })
	body := `{"queue_name":"q","items":[{"utf8":"` + strings.Repeat("x", 60_000) + `"}]}`
	e.broker.produce = func(c queue.ProduceCall) ([]queue.Produced, error) {
		a := e.call("queue.produce", body).want(429, "overloaded")
		if a.header.Get("Retry-After") == "" {
			t.Error("429 without Retry-After")
		}
		// Small ones pass all the same, and so do those that bring no items: settling
		// makes room.
		e.call("queue.complete", `{"queue_name":"q"}`).invalid("receipts", "")
		for _, m := range []string{"complete", "retry", "release", "bury", "extend"} {
			e.call("queue."+m, `{"queue_name":"q"}`+strings.Repeat(" ", 60_000)).want(400, "invalid")
		}
		return accept(c)
	}
	for range 3 {
		e.call("queue.produce", body).want(200, "ok")
	}
	// Refused bodies give their bytes back as well.
	for range 3 {
		e.call("queue.stats", strings.Repeat(" ", 60_000)).invalid("", "empty")
		e.call("queue.stats", strings.Repeat(" ", 200_000)).want(429, "overloaded")
	}
	e.broker.produce = accept
	e.call("queue.produce", body).want(200, "ok")
}

func TestC16_BodiesThatNeverComeLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	e := setup(t, func(o *api.Options) { o.Limits = api.Limits{Bodies: 5 << 18} })
	e.broker.produce = accept
	addr := listen(t, e)
	for range 20 {
		conn := dial(t, addr)
		if _, err := io.WriteString(conn, "POST /v1/produce/q HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 900000\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		// The answer says that the body is being waited for.
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
			t.Fatalf("got %q, %v; want 100", line, err)
		}
	}
	e.do(request("/v1/produce/q", bytes.NewReader(make([]byte, 900_000)))).want(201, "ok")
}
