package pgtest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// bouncerConfig is the file of a PgBouncer that serves one database. There are
// few server connections, so that clients share them and whoever counts on the
// state of a session is found out. Of the parameters that a client may send at
// the start only extra_float_digits is let pass, as installations commonly do: to
// ignore others would hide that they have no effect.
const bouncerConfig = `[databases]
%s = host=%s port=%d dbname=%s user=%s%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir = %s
auth_type = any
pool_mode = transaction
default_pool_size = 5
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
`

// Bouncer returns the URL of the same database through a PgBouncer in transaction
// mode, which ends with the test. Session state (prepared statements before
// PgBouncer 1.21, LISTEN, session locks, SET) does not survive a transaction
// there; pgx does without prepared statements if the URL's query has
// default_query_exec_mode=exec.
func Bouncer(t testing.TB, database string) string {
	t.Helper()
	program := findBouncer(t)
	u, err := startBouncer(t, program, database)
	if err != nil {
		t.Fatalf("start PgBouncer: %v", err)
	}
	return u
}

func startBouncer(t testing.TB, program, database string) (string, error) {
	ws, err := openWorkspace()
	if err != nil {
		return "", err
	}
	target, err := pgx.ParseConfig(database)
	if err != nil {
		return "", err
	}
	dir, err := ws.folder("bouncer")
	if err != nil {
		return "", err
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	config := filepath.Join(dir, "pgbouncer.ini")
	password := ""
	if target.Password != "" { // an empty value is a syntax error to PgBouncer
		password = " password=" + literal(target.Password)
	}
	text := fmt.Sprintf(
		bouncerConfig,
		target.Database, literal(target.Host), target.Port, literal(target.Database), literal(target.User), password,
		port, dir,
	)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return "", err
	}
	if err := ws.account.own(config); err != nil {
		return "", err
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { log.Close() })
	p, err := start(ws.command(program, config), log)
	if err != nil {
		return "", err
	}
	t.Cleanup(func() {
		if err := p.end(os.Kill); err != nil {
			t.Errorf("stop PgBouncer: %v", err)
		}
		if t.Failed() {
			t.Logf("log of PgBouncer:\n%s", readLog(log, 0))
		}
	})
	through, err := redirected(database, port)
	if err != nil {
		return "", err
	}
	return through, p.await(func() error { return execute(through, "select 1") })
}

// redirected returns the URL of a database by way of a loopback port, without TLS.
func redirected(database string, port int) (string, error) {
	u, err := url.Parse(database)
	if err != nil {
		return "", errors.New("the database's address is not a URL")
	}
	u.Host = loopback(port)
	query := u.Query()
	for name := range query {
		if name == "host" || name == "port" || strings.HasPrefix(name, "ssl") {
			query.Del(name)
		}
	}
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	return u.String(), nil
}
