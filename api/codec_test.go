package api_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/posthaste-io/posthaste/api"
	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/api/wirejson"
	"github.com/posthaste-io/posthaste/api/wireproto"
	"github.com/posthaste-io/posthaste/queue"
)

const protobuf = "application/protobuf"

// inProto makes a request whose answer has to be protobuf, and reads that.
func (e *env) inProto(r *http.Request, reply proto.Message) (status int) {
	e.Helper()
	rec := httptest.NewRecorder()
	e.server.ServeHTTP(rec, r)
	if got := rec.Header().Get("Content-Type"); got != protobuf {
		e.Fatalf("%s: the answer is %s: %s", r.URL, got, rec.Body)
	}
	if err := wireproto.Decode(rec.Body.Bytes(), reply); err != nil {
		e.Fatalf("%s: %v in %x", r.URL, err, rec.Body)
	}
	return rec.Code
}

// refusedInProto wants status and code_text.
func (e *env) refusedInProto(r *http.Request, status int, word string) *v1.Reply {
	e.Helper()
	reply := new(v1.Reply)
	if got := e.inProto(r, reply); got != status || reply.GetCode() != int32(status) || reply.GetCodeText() != word || reply.GetMessage() == "" {
		e.Errorf("%s: got %d %v, want %d %s with a message", r.URL, got, reply, status, word)
	}
	return reply
}

func TestCodec_TheAnswerIsInTheTypeThatIsAskedFor(t *testing.T) {
	t.Parallel()
	const (
		j, x, vnd = "application/json", "application/x-protobuf", "application/vnd.google.protobuf"
		p         = protobuf
	)
	tests := []struct {
		name, contentType string
		accept            []string
		want              string
	}{
		{"nothing", "", nil, j},
		{"JSON", j, nil, j},
		{"protobuf", p, nil, p},
		{"protobuf by its older name", x, nil, x},
		{"protobuf by its vendor's name", vnd, nil, vnd},
		{"protobuf with the message's name", "Application/Protobuf; proto=posthaste.v1.StatsRequest", nil, p},
		{"binary protobuf", p + "; encoding=binary", nil, p},
		{"an answer in protobuf", j, []string{p}, p},
		{"an answer in JSON", p, []string{j}, j},
		{"an answer under another name", p, []string{vnd}, vnd},
		{"anything", p, []string{"*/*"}, p},
		{"any application", p, []string{"application/*"}, p},
		{"both, as good", p, []string{j + ", " + p}, p},
		{"both, as good, sent as JSON", j, []string{p + "," + j}, j},
		{"JSON rather", p, []string{p + ";q=0.5, " + j}, j},
		{"protobuf rather", j, []string{j + ";q=0.5", p + ";q=0.6"}, p},
		{"the range that fits best counts", j, []string{"*/*, application/*;q=0.3, " + j + ";q=0.1"}, p},
		{"the least range counts last", p, []string{p + ";q=0, */*;q=0.1"}, j},
		{"a browser's", p, []string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, p},
		{"upper case", j, []string{"APPLICATION/PROTOBUF"}, p},
		{"nothing that there is", p, []string{"text/html"}, j},
		{"nothing at all", p, []string{"*/*;q=0"}, j},
		{"no JSON", j, []string{j + ";q=0, */*"}, p},
		{"an entry that is none", p, []string{"nonsense/, " + j}, j},
		{"only entries that are none", p, []string{"nonsense/, ;;"}, p},
		{"an empty one", p, []string{""}, p},
		{"weights that are none", p, []string{j + ";q=2, " + j + ";q=-1," + j + ";q=NaN, " + j + ";q=x"}, p},
		{"a comma in quotes", p, []string{`text/plain;a="` + j + `, \", ` + j + `", ` + x}, x},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			body := `{}`
			if strings.Contains(strings.ToLower(tt.contentType), "protobuf") {
				body = ""
			}
			r := request("/v1/queues.list", strings.NewReader(body), "Content-Type", tt.contentType)
			r.Header["Accept"] = tt.accept
			rec := httptest.NewRecorder()
			e.server.ServeHTTP(rec, r)
			if got := rec.Header().Get("Content-Type"); got != tt.want || rec.Code != 200 {
				t.Errorf("got %d %s: %q, want 200 %s", rec.Code, got, rec.Body, tt.want)
			}
			if isJSON := bytes.HasPrefix(rec.Body.Bytes(), []byte("{")); isJSON != (tt.want == j) {
				t.Errorf("%s has the body %q", tt.want, rec.Body)
			}
		})
	}
}

func TestCodec_RefusalsAreInTheTypeOfTheAnswer(t *testing.T) {
	t.Parallel()
	e := setup(t, func(o *api.Options) { o.Limits = api.Limits{Call: 100} })
	in := func(path string, body string, headers ...string) *http.Request {
		return request(path, strings.NewReader(body), append([]string{"Content-Type", protobuf}, headers...)...)
	}
	e.refusedInProto(in("/v1/nothing", ""), 404, "no_such_method")
	e.refusedInProto(in("/livez", ""), 405, "method_not_allowed")
	e.refusedInProto(in("/v1/namespaces.create", ""), 400, "not_supported")
	e.refusedInProto(in("/v1/queue.stats?a=b", ""), 400, "invalid")
	e.refusedInProto(in("/v1/queue.stats", "", "Posthaste-Delay", "1s"), 400, "invalid")
	e.refusedInProto(in("/v1/queue.stats", strings.Repeat("x", 101)), 413, "too_large")
	e.refusedInProto(in("/v1/queue.stats", "\x0a\x01q"), 404, "not_found")
	e.refusedInProto(in("/v1/queue.stats", `{"queue_name":"q"}`), 400, "invalid")
	e.refusedInProto(request("/v1/queue.stats", nil, "Content-Type", "text/plain", "Accept", protobuf), 415, "unsupported_media_type")
	e.refusedInProto(request("/v1/queue.stats", strings.NewReader("nonsense"), "Accept", protobuf), 400, "invalid")
	get := httptest.NewRequest(http.MethodGet, "/v1/queue.stats", nil)
	get.Header.Set("Accept", protobuf)
	e.refusedInProto(get, 405, "method_not_allowed")

	e.broker.stats = func(string) (queue.QueueStats, error) { panic("out of coffee") }
	e.refusedInProto(in("/v1/queue.stats", "\x0a\x01q"), 500, "internal")

	// What cannot be read has no type of its own.
	e.do(request("/v1/queue.stats", nil, "Content-Type", "text/plain")).want(415, "unsupported_media_type")
	e.do(in("/v1/queue.stats", "\xff", "Accept", "application/json")).invalid("", "no protobuf field begins here")
}

func TestCodec_RefusedReceiptsAreNamedInProtobuf(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.settle = func(queue.SettleCall) ([]queue.Settled, error) {
		return nil, &queue.StaleError{Entries: map[int]error{1: queue.ErrStale}}
	}
	body := wireproto.Append(nil, &v1.CompleteRequest{Receipts: []string{receipt(1).String(), receipt(2).String()}})
	reply := new(v1.SettleReply)
	status := e.inProto(request("/v1/queue.complete", bytes.NewReader(body), "Content-Type", protobuf), reply)
	if results := reply.GetResults(); status != 409 || len(results) != 2 || results[0].GetStatus() != "undone" || results[1].GetStatus() != "stale_lease" || reply.GetDetails()["receipts[1]"] != "stale_lease" {
		t.Errorf("got %d %v, want the second refused", status, reply)
	}
}

func TestCodec_ARawItemsTypeIsNotThatOfItsAnswer(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var kept queue.ProduceItem
	e.broker.produce = func(c queue.ProduceCall) ([]queue.Produced, error) {
		kept = c.Items[0]
		return accept(c)
	}
	e.do(request("/v1/produce/q", strings.NewReader("\xff"), "Content-Type", protobuf)).want(201, "ok")
	if kept.Encoding != protobuf || string(kept.Payload) != "\xff" {
		t.Errorf("kept %+v, want the body as it was sent", kept)
	}
	reply := new(v1.ProduceReply)
	if status := e.inProto(request("/v1/produce/q", nil, "Accept", protobuf), reply); status != 201 || len(reply.GetItems()) != 1 {
		t.Errorf("got %d %v, want 201 and the item", status, reply)
	}
	e.refusedInProto(request("/v1/produce/-", nil, "Accept", protobuf), 400, "invalid")
	e.do(request("/v1/produce/-", nil, "Content-Type", protobuf)).want(400, "invalid")
}

// What is logged or refused may repeat any bytes; an answer that cannot be read would
// say nothing.
func TestCodec_AnswersAreReadableWhateverTheyRepeat(t *testing.T) {
	t.Parallel()
	e := setup(t)
	r := request("/v1/queue.stats", nil, "Content-Type", "text/\xff", "Accept", protobuf)
	if reply := e.refusedInProto(r, 415, "unsupported_media_type"); !strings.Contains(reply.GetMessage(), "\uFFFD") {
		t.Errorf("got %q, want U+FFFD in it", reply.GetMessage())
	}
}

func TestI03_EveryMethodIsStrictInProtobuf(t *testing.T) {
	t.Parallel()
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 199, protowire.VarintType), 1)
	for _, m := range methods {
		t.Run(m, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			for body, word := range map[string]string{string(unknown): "not_supported", "\xff": "invalid", "\x0b\x0c": "invalid", `{}`: "invalid"} {
				e.refusedInProto(request("/v1/"+m, strings.NewReader(body), "Content-Type", protobuf), 400, word)
			}
		})
	}
}

func TestCodec_MethodsOfTheTestsAreAllThereAre(t *testing.T) {
	t.Parallel()
	registered, err := setup(t).server.Methods()
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool, len(methods))
	for _, m := range methods {
		known[m] = true
	}
	for _, m := range registered {
		if !known[m] {
			t.Errorf("%s is served and in no test of every method", m)
		}
		delete(known, m)
	}
	for m := range known {
		t.Errorf("%s is in the tests and not served", m)
	}
}

// Both readers bound a call in the same way, so that none of them lets through more.
func TestI02_BothEncodingsHaveTheSameBounds(t *testing.T) {
	t.Parallel()
	if wirejson.MaxList != wireproto.MaxList || wirejson.MaxTokens != wireproto.MaxFields {
		t.Error("JSON and protobuf have different bounds")
	}
	e := setup(t)
	for contentType, body := range map[string]string{
		"application/json": `{"queue_name":"q","items":[` + strings.Repeat("{},", 1000) + `{}]}`,
		protobuf:           "\x0a\x01q" + strings.Repeat("\x1a\x00", 1001),
	} {
		a := e.do(request("/v1/queue.produce", strings.NewReader(body), "Content-Type", contentType, "Accept", "application/json"))
		a.want(413, "too_large").is("items", "details", "field")
	}
}
