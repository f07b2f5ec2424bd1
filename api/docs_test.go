package api_test

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// The table of errors in docs/http.md is what people read, api/errors.go what happens.
func TestErrors_AreThoseOfTheDocumentation(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`word: +"([a-z_]+)"`).FindAllStringSubmatch(read("errors.go"), -1) {
		known[m[1]] = true
	}
	if len(known) < 15 {
		t.Fatalf("found only %v in errors.go", known)
	}
	documented := map[string]int{}
	word := regexp.MustCompile("`([a-z_]+)`")
	for _, row := range regexp.MustCompile(`(?m)^\| ([0-9]{3}) \| ([^|]+) \|`).FindAllStringSubmatch(read("../docs/http.md"), -1) {
		status, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range word.FindAllStringSubmatch(row[2], -1) {
			documented[m[1]] = status
		}
	}
	for name := range known {
		if documented[name] == 0 {
			t.Errorf("%s has no row in docs/http.md", name)
		}
	}
	for name := range documented {
		if !known[name] {
			t.Errorf("docs/http.md has a row for %s, which errors.go does not know", name)
		}
	}
	for _, a := range answers {
		if got := documented[a.word]; got != a.status {
			t.Errorf("%s: docs/http.md says %d, the answer is %d", a.word, got, a.status)
		}
	}
}
