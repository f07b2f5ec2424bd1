package openapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
	"github.com/pb33f/libopenapi/orderedmap"
)

func TestDocument_IsOpenAPI(t *testing.T) {
	t.Parallel()
	if ok, faults := judge(t).ValidateDocument(); !ok {
		for _, f := range faults {
			t.Errorf("%s: %s", f.Message, f.Reason)
		}
	}
}

// operation is one of the document, and where it is.
type operation struct {
	verb, path string
	*v3.Operation
}

func operations(t *testing.T) []operation {
	t.Helper()
	var found []operation
	for path, item := range model(t).Paths.PathItems.FromOldest() {
		for verb, op := range item.GetOperations().FromOldest() {
			found = append(found, operation{verb: strings.ToUpper(verb), path: path, Operation: op})
		}
	}
	if len(found) < 35 {
		t.Fatalf("found only %d operations", len(found))
	}
	return found
}

// Whoever copies an example must get what the document promises.
func TestDocument_ExamplesAreValid(t *testing.T) {
	t.Parallel()
	v := judge(t)
	for _, op := range operations(t) {
		t.Run(op.OperationId, func(t *testing.T) {
			request := httptest.NewRequest(op.verb, exampleURL(op), nil)
			if op.RequestBody != nil {
				mediaType, body := exampleOf(t, op.RequestBody.Content)
				request = httptest.NewRequest(op.verb, exampleURL(op), bytes.NewReader(body))
				request.Header.Set("Content-Type", mediaType)
				if ok, faults := v.ValidateHttpRequestSync(request); !ok {
					for _, f := range faults {
						t.Errorf("request %s: %s: %s %v", body, f.Message, f.Reason, f.SchemaValidationErrors)
					}
				}
			}
			for code, response := range op.Responses.Codes.FromOldest() {
				status, err := strconv.Atoi(code)
				if err != nil {
					t.Fatal(err)
				}
				answer := &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody}
				for name, h := range response.Headers.FromOldest() {
					var value any
					if err := h.Example.Decode(&value); err != nil {
						t.Fatalf("%s: header %s: %v", code, name, err)
					}
					answer.Header.Set(name, text(t, value))
				}
				var body []byte
				if response.Content != nil {
					var mediaType string
					mediaType, body = exampleOf(t, response.Content)
					answer.Header.Set("Content-Type", mediaType)
					answer.Body = io.NopCloser(bytes.NewReader(body))
				}
				if ok, faults := v.ValidateHttpResponse(request, answer); !ok {
					for _, f := range faults {
						t.Errorf("answer %s, %s: %s: %s %v", code, body, f.Message, f.Reason, f.SchemaValidationErrors)
					}
				}
			}
		})
	}
}

// What holds live requests against the document must see what is wrong with them, or
// it would prove nothing.
func TestDocument_WrongRequestsAreNotValid(t *testing.T) {
	t.Parallel()
	v := judge(t)
	tests := []struct{ name, path, body string }{
		{"unknown field", "queue.stats", `{"queue_name":"q","x":1}`},
		{"unknown field of an item", "queue.produce", `{"queue_name":"q","items":[{"prio":1}]}`},
		{"unknown field of settings", "queues.create", `{"queue_name":"q","x":1}`},
		{"unknown field of a policy", "subscriptions.create", `{"name":"s","retry":{"x":1}}`},
		{"unknown field of a rate", "subscriptions.update", `{"name":"s","rate":{"x":1}}`},
		{"unknown field of credentials", "subscriptions.create", `{"name":"s","auth":{"oauth2":{"x":1}}}`},
		{"unknown field of a target", "storage/items.import", `{"queue_name":"q","items":[{"id":"a","target":{"url":"u","x":1}}]}`},
		{"unknown field of an import", "storage/items.import", `{"queue_name":"q","items":[{"id":"a","x":1}]}`},
		{"unknown field of a schedule's item", "schedules.create", `{"name":"s","item":{"x":1}}`},
		{"unknown field of what is missed", "schedules.update", `{"name":"s","missed":{"x":1}}`},
		{"the other spelling", "queue.stats", `{"queueName":"q"}`},
		{"missing field", "queue.stats", `{}`},
		{"another type", "queue.lease", `{"queue_name":"q","batch_size":"1"}`},
		{"no base64", "queue.produce", `{"queue_name":"q","items":[{"bytes":"*"}]}`},
		{"no duration", "queue.lease", `{"queue_name":"q","lease_timeout":"soon"}`},
		{"no name", "queue.stats", `{"queue_name":"-"}`},
		{"no instant", "queue.produce", `{"queue_name":"q","items":[{"enqueue_at":"soon"}]}`},
		{"no message", "queue.stats", `[]`},
		{"a path that is not there", "queue.push", `{}`},
	}
	for _, tt := range tests {
		r := httptest.NewRequest(http.MethodPost, "/v1/"+tt.path, strings.NewReader(tt.body))
		r.Header.Set("Content-Type", "application/json")
		if ok, _ := v.ValidateHttpRequestSync(r); ok {
			t.Errorf("%s: %s passed as %s", tt.name, tt.body, tt.path)
		}
	}
}

func exampleURL(op operation) string { return strings.ReplaceAll(op.path, "{queue}", "orders") }

// exampleOf returns the example of the first media type, as it would be sent. The
// others are binary.
func exampleOf(t *testing.T, content *orderedmap.Map[string, *v3.MediaType]) (mediaType string, body []byte) {
	t.Helper()
	first := content.First()
	if first.Value().Example == nil {
		t.Fatalf("%s has no example", first.Key())
	}
	var value any
	if err := first.Value().Example.Decode(&value); err != nil {
		t.Fatal(err)
	}
	if first.Key() == "application/json" {
		body, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return first.Key(), body
	}
	return strings.ReplaceAll(first.Key(), "*/*", "text/plain"), []byte(text(t, value))
}

func text(t *testing.T, value any) string {
	t.Helper()
	switch value := value.(type) {
	case string:
		return value
	case int:
		return strconv.Itoa(value)
	default:
		t.Fatalf("example %v is neither text nor a whole number", value)
		return ""
	}
}

// Every call says of each status what comes, in both encodings.
func TestDocument_CallsHaveBothEncodingsAndAllErrors(t *testing.T) {
	t.Parallel()
	for _, op := range operations(t) {
		if op.verb != http.MethodPost {
			continue
		}
		if op.Summary == "" || len(op.Tags) != 1 {
			t.Errorf("%s: want a summary and one tag", op.OperationId)
		}
		if op.path != "/v1/produce/{queue}" && op.RequestBody.Content.GetOrZero("application/protobuf") == nil {
			t.Errorf("%s takes no protobuf", op.OperationId)
		}
		for _, code := range []string{"400", "401", "403", "408", "413", "415", "429", "500", "503"} {
			if op.Responses.Codes.GetOrZero(code) == nil {
				t.Errorf("%s has no %s", op.OperationId, code)
			}
		}
		for code, response := range op.Responses.Codes.FromOldest() {
			for _, media := range []string{"application/json", "application/protobuf"} {
				if response.Content.GetOrZero(media) == nil {
					t.Errorf("%s: %s does not come as %s", op.OperationId, code, media)
				}
			}
			if code[0] != '2' && !isReply(response.Content.GetOrZero("application/json")) {
				t.Errorf("%s: %s is no Reply", op.OperationId, code)
			}
		}
	}
}

// isReply says whether a body begins with the fields of Reply.
func isReply(media *v3.MediaType) bool {
	if media == nil || len(media.Schema.Schema().AllOf) != 1 {
		return false
	}
	message := media.Schema.Schema().AllOf[0].Schema()
	for _, field := range []string{"code", "code_text", "message", "details"} {
		if message.Properties.GetOrZero(field) == nil {
			return false
		}
	}
	return true
}
