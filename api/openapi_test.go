package api_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"

	"github.com/posthaste-io/posthaste/api/openapi"
)

func openAPI(t *testing.T) *v3.Document {
	t.Helper()
	document, err := libopenapi.NewDocument(openapi.Document)
	if err != nil {
		t.Fatal(err)
	}
	m, err := document.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	return &m.Model
}

func TestOpenAPI_HasEveryCallAndNoOther(t *testing.T) {
	t.Parallel()
	calls, err := setup(t).server.Calls()
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) < 35 {
		t.Fatalf("the server has only %v", calls)
	}
	var documented []string
	for path, item := range openAPI(t).Paths.PathItems.FromOldest() {
		for verb := range item.GetOperations().KeysFromOldest() {
			documented = append(documented, strings.ToUpper(verb)+" "+path)
		}
	}
	for _, call := range calls {
		if !slices.Contains(documented, call) {
			t.Errorf("%s is not in openapi.yaml", call)
		}
	}
	for _, call := range documented {
		if !slices.Contains(calls, call) {
			t.Errorf("%s is in openapi.yaml, and the server does not know it", call)
		}
	}
}

// The words of errors stand in the document twice: each with its meaning, and those
// of a status in its answers.
func TestOpenAPI_HasEveryWordAndNoOther(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"ok": true}
	for _, m := range regexp.MustCompile(`word: +"([a-z_]+)"`).FindAllStringSubmatch(string(source), -1) {
		known[m[1]] = true
	}
	document := openAPI(t)
	statuses := map[string]int{}
	for _, row := range document.Components.Schemas.GetOrZero("CodeText").Schema().OneOf {
		word, description := row.Schema().Const.Value, row.Schema().Description
		status, err := strconv.Atoi(description[:min(3, len(description))])
		if err != nil {
			t.Errorf("%s: %q does not begin with a status", word, description)
		}
		statuses[word] = status
		if !known[word] {
			t.Errorf("openapi.yaml has a row for %s, which errors.go does not know", word)
		}
	}
	for word := range known {
		if statuses[word] == 0 {
			t.Errorf("%s has no row in openapi.yaml", word)
		}
	}
	for _, a := range answers {
		if got := statuses[a.word]; got != a.status {
			t.Errorf("%s: openapi.yaml says %d, the answer is %d", a.word, got, a.status)
		}
	}
	checkAnswers(t, document, statuses)
}

// checkAnswers compares the words of answers with their rows.
func checkAnswers(t *testing.T, document *v3.Document, statuses map[string]int) {
	t.Helper()
	// Of paths and verbs that the document does not have.
	answered := map[string]bool{"ok": true, "no_such_method": true, "method_not_allowed": true}
	for name, response := range document.Components.Responses.FromOldest() {
		fields := response.Content.GetOrZero("application/json").Schema.Schema().Properties
		code := fields.GetOrZero("code").Schema().Const.Value
		for _, word := range fields.GetOrZero("code_text").Schema().Enum {
			answered[word.Value] = true
			if strconv.Itoa(statuses[word.Value]) != code {
				t.Errorf("answer %s has %s with %s, its row says %d", name, word.Value, code, statuses[word.Value])
			}
		}
	}
	for word := range statuses {
		if !answered[word] {
			t.Errorf("%s is in no answer of openapi.yaml", word)
		}
	}
}

func TestOpenAPI_IsServedToEverybody(t *testing.T) {
	t.Parallel()
	e := setup(t)
	get := func(verb, known string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(verb, "/openapi.yaml", nil)
		if known != "" {
			r.Header.Set("If-None-Match", known)
		}
		w := httptest.NewRecorder()
		e.server.ServeHTTP(w, r)
		return w
	}
	w := get(http.MethodGet, "")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/yaml" || w.Body.String() != string(openapi.Document) {
		t.Errorf("got %d, %s, %d bytes; want the document as application/yaml", w.Code, w.Header().Get("Content-Type"), w.Body.Len())
	}
	tag := w.Header().Get("ETag")
	if !regexp.MustCompile(`^"[0-9a-f]{16}"$`).MatchString(tag) || w.Header().Get("Cache-Control") == "" {
		t.Errorf("got ETag %s and Cache-Control %q", tag, w.Header().Get("Cache-Control"))
	}
	for known, want := range map[string]int{tag: 304, "W/" + tag: 304, `"other", ` + tag: 304, "*": 304, `"other"`: 200} {
		w := get(http.MethodGet, known)
		if w.Code != want || (want == http.StatusNotModified) != (w.Body.Len() == 0) {
			t.Errorf("If-None-Match %s: got %d with %d bytes, want %d", known, w.Code, w.Body.Len(), want)
		}
	}
	if w := get(http.MethodHead, ""); w.Code != http.StatusOK || w.Header().Get("ETag") != tag {
		t.Errorf("HEAD: got %d, ETag %s", w.Code, w.Header().Get("ETag"))
	}
}
