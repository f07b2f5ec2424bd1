package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
)

const (
	// retries is how often a batch is tried again that the database rolled back for
	// reasons of order.
	retries = 3
	// resolveTime is what is left for asking after a commit when the call's own time
	// is over.
	resolveTime = 2 * time.Second
)

const (
	leaveMarkerSQL = `insert into {s}.batches (id) values ($1) on conflict do nothing`
	readMarkerSQL  = `select answer from {s}.batches where id = $1`
)

// unit is one batch of a verb. A is what it answers.
type unit[A any] struct {
	// run sends the batch as one implicit transaction, which inserts the marker, and
	// reads its answer to the end: only then is it committed.
	run func(ctx context.Context, conn *pgxpool.Conn, marker uuid.UUID) (A, error)
	// replay makes the answer of a batch that was committed unseen from what its
	// marker holds.
	replay func(ctx context.Context, conn *pgxpool.Conn, answer []byte) (A, error)
}

// commit runs a unit until it is known whether it was committed.
func commit[A any](ctx context.Context, s *Store, u unit[A]) (A, error) {
	var none A
	if err := ctx.Err(); err != nil {
		return none, context.Cause(ctx)
	}
	for try := 0; ; try++ {
		marker := uuid.New()
		answer, err := runOnce(ctx, s, u, marker)
		switch judge(err) {
		case done:
			return answer, err
		case rolledBack:
			if try == retries {
				return none, fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
			}
			if isReadOnly(err) {
				s.pool.Reset()
			}
			if err := pause(ctx, try); err != nil {
				return none, fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
			}
		case unsent:
			return none, fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
		case stale:
			if try == retries || ctx.Err() != nil {
				return none, fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
			}
			s.pool.Reset()
		case unknown:
			s.log.Warn("connection lost in a commit; asking whether it was done", "error", err)
			if ctx.Err() == nil {
				s.pool.Reset() // it was not the call that gave up: others may be lost, too
			}
			answer, committed, rerr := resolve(ctx, s, u, marker)
			switch {
			case rerr != nil:
				return none, fmt.Errorf("%w: %w", queue.ErrUnknownOutcome, errors.Join(err, rerr))
			case committed:
				return answer, nil
			case try == retries || ctx.Err() != nil:
				return none, fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
			}
		}
	}
}

// errUnsent marks an error before anything of a batch was sent.
type errUnsent struct{ error }

func (e errUnsent) Unwrap() error { return e.error }

func runOnce[A any](ctx context.Context, s *Store, u unit[A], marker uuid.UUID) (A, error) {
	var none A
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return none, errUnsent{err}
	}
	defer conn.Release()
	return u.run(ctx, conn, marker)
}

// resolve finds out what became of a batch. Inserting its marker waits for the
// transaction that may have inserted it; if it can be inserted, that one never will.
func resolve[A any](ctx context.Context, s *Store, u unit[A], marker uuid.UUID) (answer A, committed bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTime)
	defer cancel()
	for try := 0; ; try++ {
		answer, committed, err = resolveOnce(ctx, s, u, marker)
		if err == nil || ctx.Err() != nil {
			return answer, committed, err
		}
		if pause(ctx, try) != nil {
			return answer, committed, err
		}
	}
}

func resolveOnce[A any](ctx context.Context, s *Store, u unit[A], marker uuid.UUID) (answer A, committed bool, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return answer, false, err
	}
	defer conn.Release()
	tag, err := conn.Exec(ctx, s.text(leaveMarkerSQL), marker)
	if err != nil || tag.RowsAffected() == 1 {
		return answer, false, err
	}
	var stored []byte
	err = conn.QueryRow(ctx, s.text(readMarkerSQL), marker).Scan(&stored)
	if err != nil || stored == nil {
		// Without an answer it is a marker of ours, of which we did not see that it was made.
		return answer, false, err
	}
	answer, err = u.replay(ctx, conn, stored)
	return answer, err == nil, err
}

// fate is what an error says about a batch.
type fate int

const (
	// done: it was committed, or refused for reasons of its own.
	done fate = iota
	// rolledBack: it was not committed, and may be tried again.
	rolledBack
	// unsent: it never reached the database, which cannot be reached.
	unsent
	// stale: it never reached the database, on a connection that was lost before.
	stale
	// unknown: it may have been committed.
	unknown
)

// judge looks at the state that the database reports, never at a text.
func judge(err error) fate {
	if err == nil {
		return done
	}
	if errors.As(err, new(errUnsent)) || errors.As(err, new(*pgconn.ConnectError)) {
		return unsent
	}
	if errors.Is(err, pgconn.ErrConnClosed) {
		return unknown // this is also how pgx tells that the connection was lost before the answer
	}
	if pgconn.SafeToRetry(err) {
		return stale
	}
	state, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		if errors.As(err, new(*refused)) || errors.Is(err, errDamaged) {
			return done
		}
		return unknown
	}
	switch {
	case state.Code == "40001", state.Code == "40P01", state.Code == "55P03":
		return rolledBack // serialization, deadlock, lock timeout
	case state.Code == divisionByZero:
		return rolledBack // it came too late
	case severity(state) == "FATAL", severity(state) == "PANIC":
		return unknown // it may come between the commit and its answer
	case state.Code[:2] == "53", state.Code == "57014", isReadOnly(err):
		return rolledBack // resources, cancelled, read only
	default:
		return done
	}
}

// severity is in English, whatever the server speaks.
func severity(state *pgconn.PgError) string {
	if state.SeverityUnlocalized == "" {
		return state.Severity // of servers before 9.6
	}
	return state.SeverityUnlocalized
}

// isReadOnly says that the connection is to a server that became a standby. Another may
// have taken its place, so connections are made anew.
func isReadOnly(err error) bool {
	state, ok := errors.AsType[*pgconn.PgError](err)
	return ok && state.Code == "25006"
}

// refused is an error of our own making that ends a batch which did nothing.
type refused struct{ error }

func (e *refused) Unwrap() error { return e.error }

// pause waits a little longer after each try, with jitter.
func pause(ctx context.Context, try int) error {
	longest := 20 * time.Millisecond << min(try, 5)
	timer := time.NewTimer(time.Duration(rand.Int64N(int64(longest))))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// read runs what changes nothing, once more if its connection was lost.
func read[A any](ctx context.Context, s *Store, query func(ctx context.Context, conn *pgxpool.Conn) (A, error)) (A, error) {
	var none A
	if err := ctx.Err(); err != nil {
		return none, context.Cause(ctx)
	}
	for try := 0; ; try++ {
		answer, err := func() (A, error) {
			conn, err := s.pool.Acquire(ctx)
			if err != nil {
				return none, errUnsent{err}
			}
			defer conn.Release()
			return query(ctx, conn)
		}()
		fate := judge(err)
		if fate == done || ctx.Err() != nil || try == retries {
			if fate != done {
				err = fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
			}
			return answer, err
		}
		if fate == stale || fate == unknown {
			s.pool.Reset()
		}
		if pause(ctx, try) != nil {
			return none, fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
		}
	}
}

// pipeline sends statements as one implicit transaction in one round trip. each is
// called with the results in their order; the transaction is committed only when
// this returns nil.
func pipeline(ctx context.Context, conn *pgxpool.Conn, batch *pgx.Batch, each func(pgx.BatchResults) error) (err error) {
	results := conn.SendBatch(ctx, batch)
	err = each(results)
	// The end of the pipeline is the commit's answer. After an error it says the same.
	if cerr := results.Close(); err == nil {
		err = cerr
	}
	return err
}
