package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestCommittedFilesAreWhatGenerationGives(t *testing.T) {
	t.Parallel()
	const dir = ".."
	files, err := generate(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what its .proto file gives; run go generate ./api/v1", name)
		}
	}
	committed, err := filepath.Glob(filepath.Join(dir, "*.pb.go"))
	if err != nil {
		t.Fatal(err)
	}
	if len(committed) != len(files) || len(files) == 0 {
		t.Errorf("%d .pb.go files, generation gives %d", len(committed), len(files))
	}
}
