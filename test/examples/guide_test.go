package examples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// shown is a block of the guide that is a file of the examples.
var shown = regexp.MustCompile("(?s)<!-- file: (\\S+) -->\n```\\w+\n(.*?)```\n")

func TestGuide_ShowsTheReceiversThatAreTested(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/receiving.md")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, block := range shown.FindAllStringSubmatch(string(guide), -1) {
		content, err := os.ReadFile(filepath.Join("../..", block[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		if block[2] != string(content) {
			t.Errorf("the guide shows another %s; copy the file into its block", block[1])
		}
		files = append(files, block[1])
	}
	want := []string{"examples/receiver-go/main.go", "examples/receiver-ts/receiver.ts", "examples/receiver-python/receiver.py"}
	if !slices.Equal(files, want) {
		t.Errorf("the guide shows %v, want %v", files, want)
	}
}
