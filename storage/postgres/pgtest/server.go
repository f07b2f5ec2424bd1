package pgtest

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Signals to the postmaster, by what they make it do.
const (
	fast      = syscall.SIGINT
	immediate = syscall.SIGQUIT
)

// Server is a cluster of one test's own. Its methods are called by the test's
// goroutine, which they end if the server does not do as told. Its address stays
// the same when it is stopped and started again.
type Server struct {
	t       testing.TB
	cluster *cluster
}

// Start makes and starts a cluster, which ends with the test. A setting is
// "name=value", as in postgresql.conf but without quotes.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	c, err := newCluster(findPrograms(t), settings)
	if err != nil {
		t.Fatalf("start a cluster: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the cluster:\n%s", c.logFrom(0))
		}
		if err := c.close(); err != nil {
			t.Errorf("close the cluster: %v", err)
		}
	})
	return &Server{t: t, cluster: c}
}

// URL returns the URL of a fresh, empty database, which ends with the server.
func (s *Server) URL(t testing.TB) string {
	t.Helper()
	database, _, err := createDatabase(s.cluster.url())
	if err != nil {
		t.Fatalf("create a database: %v", err)
	}
	return database
}

// Stop stops the server and returns when all its processes are gone. The mode is
// that of pg_ctl: "fast" ends connections, writes a checkpoint and ends;
// "immediate" ends without, so that the next start recovers from the log. A
// server that is down stays so.
func (s *Server) Stop(mode string) {
	s.t.Helper()
	signal, known := map[string]syscall.Signal{"fast": fast, "immediate": immediate}[mode]
	if !known {
		s.t.Fatalf("stop mode %q: want fast or immediate", mode)
	}
	if err := s.cluster.end(signal); err != nil {
		s.t.Fatal(err)
	}
}

// Kill ends the postmaster with SIGKILL and returns when all its processes are
// gone. They notice that it died: the idle at once, the busy when they next wait,
// so a statement that runs may yet commit, and answer that it did.
func (s *Server) Kill() {
	s.t.Helper()
	if err := s.cluster.end(syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
}

// Restart starts the server, after a fast stop if it runs, and returns when it
// takes connections.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop("fast")
	if err := s.cluster.start(); err != nil {
		s.t.Fatal(err)
	}
}

// Setting changes a setting of the running server for good, and returns when new
// connections have it; one that takes a restart gets it.
func (s *Server) Setting(t testing.TB, name, value string) {
	t.Helper()
	var restart bool
	err := connected(s.cluster.url(), func(ctx context.Context, conn *pgx.Conn) error {
		var loaded time.Time
		err := conn.QueryRow(ctx, `
			select context = 'postmaster', pg_conf_load_time()
			from pg_settings
			where name = $1`, name).Scan(&restart, &loaded)
		if errors.Is(err, pgx.ErrNoRows) {
			return errors.New("there is no such setting")
		}
		if err != nil {
			return err
		}
		// The name is one that the server knows, so it needs no quotes.
		if _, err := conn.Exec(ctx, "alter system set "+name+" = "+literal(value)); err != nil {
			return err
		}
		if restart {
			return nil
		}
		if _, err := conn.Exec(ctx, "select pg_reload_conf()"); err != nil {
			return err
		}
		return s.awaitReload(loaded)
	})
	if err != nil {
		t.Fatalf("set %s to %q: %v", name, value, err)
	}
	if restart {
		s.Restart()
	}
}

// awaitReload waits until the server has read its settings after a time. It asks
// on new connections, which have what the postmaster read last.
func (s *Server) awaitReload(after time.Time) error {
	return s.cluster.process.await(func() error {
		var loaded time.Time
		err := connected(s.cluster.url(), func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "select pg_conf_load_time()").Scan(&loaded)
		})
		if err == nil && !loaded.After(after) {
			err = fmt.Errorf("settings are those of %v", loaded)
		}
		return err
	})
}
