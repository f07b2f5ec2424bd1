package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/posthaste-io/posthaste/queue"
)

func TestP13_ErrorsAreJudgedByTheirState(t *testing.T) {
	t.Parallel()
	state := func(code, severity string) error { return &pgconn.PgError{Code: code, Severity: severity} }
	for name, tt := range map[string]struct {
		err  error
		want fate
	}{
		"none":                       {nil, done},
		"refused by ourselves":       {&refused{queue.ErrRevision}, done},
		"serialization":              {state("40001", "ERROR"), rolledBack},
		"deadlock":                   {state("40P01", "ERROR"), rolledBack},
		"lock timeout":               {state("55P03", "ERROR"), rolledBack},
		"out of memory":              {state("53200", "ERROR"), rolledBack},
		"cancelled":                  {state("57014", "ERROR"), rolledBack},
		"read only, after failover":  {state("25006", "ERROR"), rolledBack},
		"a fault of ours":            {state("42601", "ERROR"), done},
		"unique violation":           {state("23505", "ERROR"), done},
		"terminated":                 {state("57P01", "FATAL"), unknown},
		"crash of another backend":   {state("57P02", "FATAL"), unknown},
		"connection lost":            {io.ErrUnexpectedEOF, unknown},
		"time is over":               {context.DeadlineExceeded, unknown},
		"no connection":              {errUnsent{errors.New("pool")}, unsent},
		"no connection, wrapped":     {fmt.Errorf("produce: %w", errUnsent{io.EOF}), unsent},
		"serialization, wrapped":     {fmt.Errorf("settle: %w", state("40001", "ERROR")), rolledBack},
		"lost, with the end of it":   {errors.Join(io.EOF, io.ErrUnexpectedEOF), unknown},
		"deadlock, and then the end": {errors.Join(state("40P01", "ERROR"), io.EOF), rolledBack},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := judge(tt.err); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestB05_FullDiskOfTheDatabaseRefusesNewItems(t *testing.T) {
	t.Parallel()
	full := fmt.Errorf("%w: %w", queue.ErrUnavailable, &pgconn.PgError{Code: "53100", Message: "no space left on device"})
	if err := diskFull(full); !errors.Is(err, queue.ErrDiskFull) || errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("got %v, want disk full", err)
	}
	away := fmt.Errorf("%w: %w", queue.ErrUnavailable, &pgconn.PgError{Code: "53300"})
	if err := diskFull(away); err != away {
		t.Errorf("got %v, want it as it was", err)
	}
	if err := diskFull(nil); err != nil {
		t.Errorf("got %v for no error", err)
	}
}
