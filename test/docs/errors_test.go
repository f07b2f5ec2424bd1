package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/posthaste-io/posthaste/api/openapi"
)

// docs/errors.md tells of each code_text that the OpenAPI document has, with its status,
// and has a section for it. That the document has those that the server answers with, its
// own tests prove.
func TestErrorsPage_TellsOfEveryCodeText(t *testing.T) {
	t.Parallel()
	want := map[string]string{} // status by word
	for _, m := range regexp.MustCompile(`- const: (\w+)\s+description: (?:>-\s+)?'?(\d{3}):`).FindAllStringSubmatch(string(openapi.Document), -1) {
		if m[1] != "ok" {
			want[m[1]] = m[2]
		}
	}
	if len(want) < 20 {
		t.Fatalf("found only %d words in the document", len(want))
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	row := regexp.MustCompile("(?m)^\\| \\[`(\\w+)`\\]\\(#(\\w+)\\) \\| (\\d{3}) \\| (no|unknown) \\| (no|yes|key) \\| .+ \\|$")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		word, target, status, done, repeat := m[1], m[2], m[3], m[4], m[5]
		listed = append(listed, word)
		switch {
		case want[word] == "":
			t.Errorf("the page has %s, and the document has not", word)
		case want[word] != status:
			t.Errorf("%s: the page says %s, the document %s", word, status, want[word])
		}
		if target != word {
			t.Errorf("%s links to %s", word, target)
		}
		if (done == "unknown") != (repeat == "key") {
			t.Errorf("%s: what may have been done is repeated with a key, and nothing else is", word)
		}
	}
	for word := range want {
		if !slices.Contains(listed, word) {
			t.Errorf("the page has no row for %s", word)
		}
		if !regexp.MustCompile(`(?m)^## ` + word + `$`).Match(page) {
			t.Errorf("the page has no section for %s", word)
		}
	}
}
