package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// serverVariable names the environment variable with the URL of a server to use
// in place of a private cluster.
const serverVariable = "POSTHASTE_TEST_POSTGRES"

// statementTimeout bounds what the package itself asks of a server. Creating a
// database writes some 8 MB and syncs them, which a busy disk makes slow.
const statementTimeout = 60 * time.Second

// shared is the cluster behind URL. Its once is run by the first test that asks.
var shared struct {
	once    sync.Once
	cluster *cluster
	err     error
}

// Main runs the tests, then stops the shared cluster and removes all files, and
// returns the exit code: func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }.
func Main(m *testing.M) int {
	code := m.Run()
	var errs []error
	if shared.cluster != nil {
		errs = append(errs, shared.cluster.close())
	}
	errs = append(errs, closeWorkspace())
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return max(code, 1)
	}
	return code
}

// URL returns the URL of a fresh, empty database on the shared cluster, and drops
// it, with whoever is still connected, when the test ends. It may be called by
// parallel tests.
func URL(t testing.TB) string {
	t.Helper()
	if server := os.Getenv(serverVariable); server != "" {
		return freshDatabase(t, server)
	}
	programs := findPrograms(t)
	shared.once.Do(func() { shared.cluster, shared.err = newCluster(programs, nil) })
	if shared.err != nil {
		t.Fatalf("start the shared cluster: %v", shared.err)
	}
	from := shared.cluster.logSize()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the shared cluster, with other tests' lines:\n%s", shared.cluster.logFrom(from))
		}
	})
	return freshDatabase(t, shared.cluster.url())
}

// freshDatabase creates a database on a server and drops it after the test.
func freshDatabase(t testing.TB, server string) string {
	t.Helper()
	database, name, err := createDatabase(server)
	if err != nil {
		t.Fatalf("create a database: %v", err)
	}
	t.Cleanup(func() {
		if err := execute(server, "drop database "+name+" with (force)"); err != nil {
			t.Errorf("drop the database: %v", err)
		}
	})
	return database
}

// createDatabase returns the URL and the name of a new database.
func createDatabase(server string) (database, name string, err error) {
	u, err := url.Parse(server)
	if err != nil {
		// The error of url.Parse repeats the URL, which may hold a password.
		return "", "", errors.New("the server's address is not a URL")
	}
	name = "posthaste_test_" + strings.ToLower(rand.Text())
	if err := execute(server, "create database "+name); err != nil {
		return "", "", err
	}
	u.Path = "/" + name
	return u.String(), name, nil
}

// execute runs one statement on a connection of its own.
func execute(server, sql string) error {
	return connected(server, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

// connected calls do with a connection, which it closes.
func connected(server string, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	err = do(ctx, conn)
	return errors.Join(err, conn.Close(ctx))
}
