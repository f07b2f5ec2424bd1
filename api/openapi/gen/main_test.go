package main

import (
	"bytes"
	"os"
	"regexp"
	"testing"
)

func committed(t *testing.T) []byte {
	t.Helper()
	page, err := os.ReadFile("../" + target)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func TestPage_IsWhatTheDocumentGives(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../" + source)
	if err != nil {
		t.Fatal(err)
	}
	page, err := generate(document)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page, committed(t)) {
		t.Error("docs/api.md is not what openapi.yaml gives; run go generate ./api/openapi")
	}
}

func TestPage_LinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	page := committed(t)
	headings := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^##+ (.+)$`).FindAllSubmatch(page, -1) {
		headings[anchor(string(m[1]))] = true
	}
	links := regexp.MustCompile(`\]\((#[^)]*)\)`).FindAllSubmatch(page, -1)
	if len(links) < 100 {
		t.Fatalf("found only %d links", len(links))
	}
	for _, m := range links {
		if !headings[string(m[1])] {
			t.Errorf("there is no heading for %s", m[1])
		}
	}
}
