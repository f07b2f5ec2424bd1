package e2e_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/pb33f/libopenapi-validator/errors"

	"github.com/posthaste-io/posthaste/api/openapi"
)

// documented is a connection on which everything is as openapi.yaml says: each answer,
// and each request that the server took. One that it refused may have been meant to be
// wrong.
type documented struct {
	t    *testing.T
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper]. It reads the whole answer before the caller
// does.
func (d *documented) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := d.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), &broken{err}))
		return resp, nil // the caller finds out
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	d.check(r, resp, body)
	return resp, nil
}

// broken is where the answer broke off.
type broken struct{ err error }

func (b *broken) Read([]byte) (int, error) { return 0, b.err }

func (d *documented) check(r *http.Request, resp *http.Response, body []byte) {
	document, err := readDocument()
	switch {
	case err != nil:
		d.t.Errorf("openapi.yaml: %v", err)
		return
	case r.Method == http.MethodHead, strings.HasPrefix(r.URL.Path, "/debug/"):
		return // GET without a body; what operators alone reach
	case !document.has(r):
		d.checkUnknown(r, resp, body)
		return
	}
	asked := &http.Request{Method: r.Method, URL: r.URL, Header: r.Header.Clone(), Host: r.Host}
	asked.Header.Set("Content-Type", mediaType(r.Header.Get("Content-Type"), r.URL.Path))
	if resp.StatusCode < http.StatusMultipleChoices && (r.Body == nil || r.GetBody != nil) {
		if r.GetBody != nil {
			if asked.Body, err = r.GetBody(); err != nil {
				d.t.Errorf("%s %s: read the request again: %v", r.Method, r.URL.Path, err)
				return
			}
		}
		_, faults := document.ValidateHttpRequestSync(asked)
		d.report(r, "took a request that is not documented", faults, nil)
	}
	answer := &http.Response{StatusCode: resp.StatusCode, Header: resp.Header.Clone(), Body: io.NopCloser(bytes.NewReader(body))}
	if len(body) > 0 {
		answer.Header.Set("Content-Type", mediaType(resp.Header.Get("Content-Type"), ""))
	}
	_, faults := document.ValidateHttpResponse(asked, answer)
	d.report(r, "gave "+resp.Status, faults, body)
}

// checkUnknown judges the answer of a path that the document does not have.
func (d *documented) checkUnknown(r *http.Request, resp *http.Response, body []byte) {
	if resp.Header.Get("Content-Type") != "application/json" {
		return // in protobuf, or of the connection itself
	}
	var reply answer
	if err := json.Unmarshal(body, &reply); err != nil || reply.Code != resp.StatusCode || reply.CodeText == "" || resp.StatusCode < http.StatusBadRequest {
		d.t.Errorf("%s %s is not documented, and answers %s: %.300s", r.Method, r.URL.Path, resp.Status, body)
	}
}

func (d *documented) report(r *http.Request, what string, faults []*errors.ValidationError, body []byte) {
	for _, f := range faults {
		reasons := []string{f.Reason}
		for _, s := range f.SchemaValidationErrors {
			reasons = append(reasons, s.FieldPath+": "+s.Reason)
		}
		d.t.Errorf("%s %s %s: %s: %s\n%.300s", r.Method, r.URL.Path, what, f.Message, strings.Join(reasons, "; "), body)
	}
}

// mediaType is the one of the document: that of a message without its parameters and
// under its first name. A raw item may have any, and need not be what it says.
func mediaType(sent, path string) string {
	if strings.HasPrefix(path, "/v1/produce/") {
		return "application/octet-stream"
	}
	switch media, _, _ := strings.Cut(sent, ";"); media {
	case "", "*/*":
		return "application/json"
	case "application/x-protobuf", "application/vnd.google.protobuf":
		return "application/protobuf"
	default:
		return media
	}
}

// document is openapi.yaml as a judge. It is safe for concurrent use.
type document struct {
	validator.Validator
	// operations are verbs and paths; the one path with a parameter is beside them.
	operations map[string]bool
}

func (d *document) has(r *http.Request) bool {
	path := r.URL.Path
	if queue, ok := strings.CutPrefix(path, "/v1/produce/"); ok && queue != "" && !strings.Contains(queue, "/") {
		path = "/v1/produce/{queue}"
	}
	return d.operations[r.Method+" "+path]
}

// readDocument is done once for all tests: it compiles some hundred schemas.
var readDocument = sync.OnceValues(func() (*document, error) {
	source, err := libopenapi.NewDocument(openapi.Document)
	if err != nil {
		return nil, err
	}
	model, err := source.BuildV3Model()
	if err != nil {
		return nil, err
	}
	d := &document{
		Validator: validator.NewValidatorFromV3Model(
			&model.Model, config.WithFormatAssertions(), config.WithContentAssertions(),
		),
		operations: make(map[string]bool),
	}
	for path, item := range model.Model.Paths.PathItems.FromOldest() {
		for verb := range item.GetOperations().KeysFromOldest() {
			d.operations[strings.ToUpper(verb)+" "+path] = true
		}
	}
	return d, nil
})

// A judge that let everything pass would go unseen.
func TestOpenAPI_TransportSeesWhatIsNotDocumented(t *testing.T) {
	t.Parallel()
	d, err := readDocument()
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/v1/queues.info", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answers := map[string]struct {
		status    int
		mediaType string
		body      string
		valid     bool
	}{
		"as documented":      {200, "application/json", `{"queue_name":"q"}`, true},
		"another type":       {200, "application/json", `{"queue_name":7}`, false},
		"a field is missing": {200, "application/json", `{}`, false},
		"no JSON":            {200, "application/json", `queue`, false},
		"another encoding":   {200, "text/html", `<p>`, false},
		"another status":     {418, "application/json", `{"code":418,"code_text":"ok"}`, false},
		"word of another":    {404, "application/json", `{"code":404,"code_text":"stale_lease"}`, false},
		"code of another":    {404, "application/json", `{"code":400,"code_text":"not_found"}`, false},
	}
	for name, a := range answers {
		resp := &http.Response{
			StatusCode: a.status, Header: http.Header{"Content-Type": {a.mediaType}},
			Body: io.NopCloser(strings.NewReader(a.body)),
		}
		if valid, faults := d.ValidateHttpResponse(r, resp); valid != a.valid {
			t.Errorf("%s: valid is %v: %v", name, valid, faults)
		}
	}
	if valid, _ := d.ValidateHttpRequestSync(r); valid {
		t.Error("a request without its queue_name passed")
	}
}
