package pgtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// setupProxy returns a proxy, and a direct connection to a database with a table.
func setupProxy(t *testing.T) (*Proxy, *pgx.Conn) {
	t.Helper()
	database := URL(t)
	direct := connect(t, database)
	run(t, direct, "create table t (n int)")
	return NewProxy(t, database), direct
}

const (
	insert = "insert into t values ($1)"
	rows   = "select count(*) from t"
	// others counts connections but for the one that asks.
	others = `select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`
)

func TestProxy_CutBeforeCommitLosesTheRow(t *testing.T) {
	t.Parallel()
	p, direct := setupProxy(t)
	conn := connect(t, p.URL())
	run(t, conn, "begin")
	run(t, conn, insert, 1)
	cut := p.CutBefore("commit")
	if _, err := conn.Exec(bounded(t), "commit"); err == nil {
		t.Error("the client was told of a commit that was cut off")
	}
	done(t, "cut", cut)
	// What the transaction left is certain when its connection is gone.
	eventually(t, "the server ends the cut connection", func() bool { return ask[int](t, direct, others) == 0 })
	if n := ask[int](t, direct, rows); n != 0 {
		t.Errorf("%d rows, want none", n)
	}
}

func TestProxy_CutAfterCommitKeepsTheRow(t *testing.T) {
	t.Parallel()
	p, direct := setupProxy(t)
	conn := connect(t, p.URL())
	run(t, conn, "begin")
	run(t, conn, insert, 1)
	cut := p.CutAfter("commit")
	if _, err := conn.Exec(bounded(t), "commit"); err == nil {
		t.Error("the client was told of the commit")
	}
	done(t, "cut", cut)
	if n := ask[int](t, direct, rows); n != 1 {
		t.Errorf("%d rows, want one", n)
	}

	conn = connect(t, p.URL())
	run(t, conn, "begin")
	run(t, conn, insert, 2)
	run(t, conn, "commit") // one order is for one group
	if n := ask[int](t, direct, rows); n != 2 {
		t.Errorf("%d rows, want two", n)
	}
}

// pgx prepares a statement in a group of its own, in which nothing is executed,
// and later sends its name without its text.
func TestProxy_CutsWhereAPreparedStatementIsExecuted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		prepared bool
		order    func(*Proxy) <-chan struct{}
		want     int
	}{
		{"after a new statement", false, func(p *Proxy) <-chan struct{} { return p.CutAfter("insert into t") }, 1},
		{"after a known statement", true, func(p *Proxy) <-chan struct{} { return p.CutAfter("insert into t") }, 2},
		{"before a new statement", false, func(p *Proxy) <-chan struct{} { return p.CutBefore("insert into t") }, 0},
		{"before a known statement", true, func(p *Proxy) <-chan struct{} { return p.CutBefore("insert into t") }, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, direct := setupProxy(t)
			conn := connect(t, p.URL())
			if tt.prepared {
				run(t, conn, insert, 1)
			}
			cut := tt.order(p)
			if _, err := conn.Exec(bounded(t), insert, 2); err == nil {
				t.Error("the client was told of the row")
			}
			done(t, "cut", cut)
			eventually(t, "the server ends the cut connection", func() bool { return ask[int](t, direct, others) == 0 })
			if n := ask[int](t, direct, rows); n != tt.want {
				t.Errorf("%d rows, want %d", n, tt.want)
			}
		})
	}
}

func TestProxy_CutAfterLetsEarlierAnswersPass(t *testing.T) {
	t.Parallel()
	p, direct := setupProxy(t)
	pipeline := connect(t, p.URL()).PgConn().StartPipeline(bounded(t))
	cut := p.CutAfter("values (2)")
	for _, sql := range []string{"insert into t values (1)", "insert into t values (2)"} {
		pipeline.SendQueryParams(sql, nil, nil, nil, nil)
		if err := pipeline.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	// The first group's answer is the command's result and that of Sync.
	for range 2 {
		if _, err := pipeline.GetResults(); err != nil {
			t.Errorf("answer to the first group: %v", err)
		}
	}
	if _, err := pipeline.GetResults(); err == nil {
		t.Error("an answer to the second group")
	}
	pipeline.Close()
	done(t, "cut", cut)
	if n := ask[int](t, direct, rows); n != 2 {
		t.Errorf("%d rows, want two", n)
	}
}

func TestProxy_BlackholeHoldsBackAndLetsGo(t *testing.T) {
	t.Parallel()
	p, direct := setupProxy(t)
	patient, hasty := connect(t, p.URL()), connect(t, p.URL())

	p.Blackhole(true)
	answer := make(chan error, 1)
	go func() {
		_, err := patient.Exec(bounded(t), "insert into t values (1)")
		answer <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := hasty.Exec(ctx, "insert into t values (2)"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want silence until the deadline", err)
	}
	if _, err := pgx.Connect(ctx, p.URL()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("connect: got %v, want silence until the deadline", err)
	}
	if n := ask[int](t, direct, rows); n != 0 {
		t.Errorf("%d rows went through", n)
	}

	p.Blackhole(false)
	if err := <-answer; err != nil {
		t.Errorf("what was held back: %v", err)
	}
	if n := ask[int](t, direct, "select count(*) from t where n = 1"); n != 1 {
		t.Errorf("%d rows of the patient client, want one", n)
	}
}

func TestProxy_CutAllEndsConnectionsAndTakesNewOnes(t *testing.T) {
	t.Parallel()
	p, direct := setupProxy(t)
	conns := []*pgx.Conn{connect(t, p.URL()), connect(t, p.URL())}
	p.CutAll()
	for _, conn := range conns {
		if _, err := conn.Exec(bounded(t), "select 1"); err == nil {
			t.Error("a connection that was cut answers")
		}
	}
	eventually(t, "the server ends the cut connections", func() bool { return ask[int](t, direct, others) == 0 })
	run(t, connect(t, p.URL()), insert, 1)
	if n := ask[int](t, direct, rows); n != 1 {
		t.Errorf("%d rows, want one", n)
	}
}
