package pgtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestURL_DatabaseIsFreshAndDropped(t *testing.T) {
	t.Parallel()
	var first, second string
	t.Run("while the test runs", func(t *testing.T) {
		first, second = URL(t), URL(t)
		if first == second {
			t.Fatalf("two databases with one URL")
		}
		run(t, connect(t, first), "create table t (n int)")
		const tables = "select count(*) from pg_tables where schemaname = 'public'"
		if n := ask[int](t, connect(t, second), tables); n != 0 {
			t.Errorf("%d tables in a fresh database", n)
		}
	})
	admin := connect(t, URL(t))
	for _, database := range []string{first, second} {
		_, name, _ := strings.Cut(database, "/posthaste_test_")
		name, _, _ = strings.Cut(name, "?")
		if n := ask[int](t, admin, "select count(*) from pg_database where datname = $1", "posthaste_test_"+name); n != 0 || name == "" {
			t.Errorf("database %q is there after its test", name)
		}
	}
}

func TestURL_UsesTheServerThatIsNamed(t *testing.T) {
	s := Start(t)
	t.Setenv(serverVariable, s.URL(t)+"&application_name=named")
	conn := connect(t, URL(t))
	if got := int(conn.Config().Port); got != s.cluster.port {
		t.Errorf("a database on port %d, want one on %d", got, s.cluster.port)
	}
	if got := ask[string](t, conn, "show application_name"); got != "named" {
		t.Errorf("application_name: got %q, want what the URL says", got)
	}
}

func TestURL_DropsADatabaseThatIsStillUsed(t *testing.T) {
	t.Parallel()
	var conn *pgx.Conn
	t.Run("with a connection that nobody closes", func(t *testing.T) {
		var err error
		if conn, err = pgx.Connect(bounded(t), URL(t)); err != nil {
			t.Fatal(err)
		}
	})
	if err := conn.Ping(bounded(t)); err == nil {
		t.Error("the connection outlived its database")
	}
}

func TestProgramsUnder_NewestComesFirst(t *testing.T) {
	t.Parallel()
	library := t.TempDir()
	add := func(names ...string) {
		t.Helper()
		for _, name := range names {
			path := filepath.Join(library, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(version string) {
		t.Helper()
		got, found := programsUnder(library)
		if found != (version != "") {
			t.Fatalf("found: %v", found)
		}
		if found && got.postgres != filepath.Join(library, version, "bin", "postgres") {
			t.Errorf("got %s, want version %s", got.postgres, version)
		}
	}
	want("")
	add("current/bin/initdb", "current/bin/postgres")
	want("current")
	add("9.6/bin/initdb", "9.6/bin/postgres")
	want("9.6")
	add("15/bin/initdb", "15/bin/postgres")
	want("15")
	add("16/bin/postgres") // a client's installation has no initdb
	want("15")
}

// ending records how a test was ended.
type ending struct {
	testing.TB
	how string
}

func (e *ending) Helper()           {}
func (e *ending) Fatal(args ...any) { e.how += "fatal" }
func (e *ending) Skip(args ...any)  { e.how += "skip" }

func TestMissing_FailsOnlyInCI(t *testing.T) {
	for ci, want := range map[string]string{"": "skip", "true": "fatal"} {
		t.Setenv("CI", ci)
		e := &ending{TB: t}
		if missing(e, "a program"); !strings.HasPrefix(e.how, want) {
			t.Errorf("CI=%q: got %s, want %s", ci, e.how, want)
		}
	}
}
