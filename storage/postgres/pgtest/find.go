package pgtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// debianLibrary is where Debian keeps the server programs of each version, which
// it does not put into PATH.
const debianLibrary = "/usr/lib/postgresql"

// debianBouncer is where Debian keeps PgBouncer, for those whose PATH lacks sbin.
const debianBouncer = "/usr/sbin/pgbouncer"

// programs are the paths of what makes and runs a cluster.
type programs struct {
	initdb, postgres string
}

// findPrograms ends the test if PostgreSQL is not installed.
func findPrograms(t testing.TB) programs {
	t.Helper()
	p, found := programsUnder(debianLibrary)
	if !found {
		p, found = programsInPath()
	}
	if !found {
		missing(t, "PostgreSQL is needed: install it (Debian: postgresql), or put initdb and postgres into PATH, or, for tests that do not break the server, set "+serverVariable)
	}
	return p
}

// programsUnder looks for the newest version of those in library.
func programsUnder(library string) (programs, bool) {
	// The pattern is well formed unless the library's name is not, and then
	// nothing is found.
	bins, _ := filepath.Glob(filepath.Join(library, "*", "bin"))
	version := func(bin string) float64 {
		v, err := strconv.ParseFloat(filepath.Base(filepath.Dir(bin)), 64)
		if err != nil {
			return 0 // not a version: the last to be tried
		}
		return v
	}
	slices.SortFunc(bins, func(a, b string) int {
		switch va, vb := version(a), version(b); {
		case va > vb:
			return -1
		case va < vb:
			return 1
		}
		return 0
	})
	for _, bin := range bins {
		p := programs{initdb: filepath.Join(bin, "initdb"), postgres: filepath.Join(bin, "postgres")}
		if executable(p.initdb) && executable(p.postgres) {
			return p, true
		}
	}
	return programs{}, false
}

func programsInPath() (programs, bool) {
	initdb, err := exec.LookPath("initdb")
	if err != nil {
		return programs{}, false
	}
	postgres, err := exec.LookPath("postgres")
	if err != nil {
		return programs{}, false
	}
	return programs{initdb: initdb, postgres: postgres}, true
}

// findBouncer ends the test if PgBouncer is not installed.
func findBouncer(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path
	}
	if !executable(debianBouncer) {
		missing(t, "PgBouncer is needed: install it (Debian: pgbouncer), or put pgbouncer into PATH")
	}
	return debianBouncer
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// missing ends a test that cannot run here.
func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}
