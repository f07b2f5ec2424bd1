package pgtest

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestServer_KeepsCommittedRows(t *testing.T) {
	t.Parallel()
	s := Start(t)
	database := s.URL(t)
	run(t, connect(t, database), "create table t (n int)")

	for i, end := range []struct {
		name string
		do   func()
	}{
		{"killed", s.Kill},
		{"stopped at once", func() { s.Stop("immediate") }},
		{"stopped fast", func() { s.Stop("fast") }},
		{"restarted", s.Restart},
	} {
		conn := connect(t, database)
		run(t, conn, "insert into t values ($1)", i)
		run(t, conn, "begin")
		run(t, conn, "insert into t values (-1)")
		end.do()
		if err := conn.Ping(bounded(t)); err == nil {
			t.Errorf("%s: the connection outlived the server", end.name)
		}
		s.Restart()
		conn = connect(t, database)
		if n := ask[int](t, conn, "select count(*) from t where n >= 0"); n != i+1 {
			t.Errorf("%s: %d rows, want %d", end.name, n, i+1)
		}
		if n := ask[int](t, conn, "select count(*) from t where n < 0"); n != 0 {
			t.Errorf("%s: %d rows that were never committed", end.name, n)
		}
	}
}

func TestServer_IsDownUntilItRestarts(t *testing.T) {
	t.Parallel()
	s := Start(t)
	database := s.URL(t)
	s.Kill()
	if conn, err := pgx.Connect(bounded(t), database); err == nil {
		conn.Close(t.Context())
		t.Error("a killed server takes connections")
	}
	s.Stop("fast") // has nothing to do
	s.Restart()
	connect(t, database)
}

func TestServer_IsDurableAsInProduction(t *testing.T) {
	t.Parallel()
	s := Start(t, "statement_timeout=1234ms", "search_path=it's, public")
	conn := connect(t, s.URL(t))
	for name, want := range map[string]string{
		"fsync":              "on",
		"synchronous_commit": "on",
		"full_page_writes":   "on",
		"statement_timeout":  "1234ms",
		"search_path":        "it's, public",
	} {
		if got := ask[string](t, conn, "select current_setting($1)", name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	// By bytes B comes before a.
	if !ask[bool](t, conn, "select 'a'::text < 'B'::text") {
		t.Error("text is ordered by its bytes")
	}
}

func TestServer_SettingIsSeenByNewConnections(t *testing.T) {
	t.Parallel()
	s := Start(t, "lock_timeout=1s")
	database := s.URL(t)
	for _, set := range []struct{ name, value string }{
		{"lock_timeout", "7s"},
		{"application_name", "it's"},
		{"max_connections", "30"},
	} {
		s.Setting(t, set.name, set.value)
		if got := ask[string](t, connect(t, database), "select current_setting($1)", set.name); got != set.value {
			t.Errorf("%s: got %q, want %q", set.name, got, set.value)
		}
	}
}
