package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

const module = "github.com/posthaste-io/posthaste"

// built is the program of this test process, made when first asked for.
var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// Main runs a package's tests and then removes the program that they used.
func Main(m *testing.M) int {
	defer Clean()
	return m.Run()
}

// Clean removes the program, for packages with a Main of their own.
func Clean() {
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
}

// Build returns the path of the program, built from this source tree; with the race
// detector if the tests have it. Safe for concurrent use.
func Build(tb testing.TB) string {
	tb.Helper()
	built.once.Do(build)
	if built.err != nil {
		tb.Fatal(built.err)
	}
	return built.path
}

func build() {
	if built.dir, built.err = os.MkdirTemp("", "posthaste-test-"); built.err != nil {
		return
	}
	built.path = filepath.Join(built.dir, "posthaste")
	if runtime.GOOS == "windows" {
		built.path += ".exe"
	}
	args := []string{"build", "-o", built.path}
	if raceEnabled {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, module+"/cmd/posthaste")...).CombinedOutput()
	if err != nil {
		built.err = fmt.Errorf("build the program under test: %w\n%s", err, out)
	}
}
