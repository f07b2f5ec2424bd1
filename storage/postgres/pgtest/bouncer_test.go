package pgtest

import (
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// More clients than server connections, each with many transactions: they share
// connections, and a transaction has one to itself.
func TestBouncer_ServesManyTransactions(t *testing.T) {
	t.Parallel()
	const clients, transactions = 12, 50
	database := URL(t)
	through := withExecMode(Bouncer(t, database))
	ctx := bounded(t)
	var mu sync.Mutex
	backends := make(map[int]bool)
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			conn, err := pgx.Connect(ctx, through)
			if err != nil {
				t.Errorf("connect: %v", err)
				return
			}
			defer conn.Close(ctx)
			for range transactions {
				var first, second, one int
				err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
					if err := tx.QueryRow(ctx, "select pg_backend_pid(), $1::int", 1).Scan(&first, &one); err != nil {
						return err
					}
					return tx.QueryRow(ctx, "select pg_backend_pid()").Scan(&second)
				})
				if err != nil || one != 1 || first != second {
					t.Errorf("transaction: %v, backends %d and %d, answer %d", err, first, second, one)
					return
				}
				mu.Lock()
				backends[first] = true
				mu.Unlock()
			}
		})
	}
	running.Wait()
	if n := len(backends); n == 0 || n >= clients {
		t.Errorf("%d backends for %d clients, want fewer", n, clients)
	}
}

func withExecMode(database string) string {
	if strings.Contains(database, "?") {
		return database + "&default_query_exec_mode=exec"
	}
	return database + "?default_query_exec_mode=exec"
}
