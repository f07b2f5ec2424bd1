package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// lookEvery is how often the database is asked whether it is there, and lookTimeout
	// how long that may take.
	lookEvery, lookTimeout = time.Second, 3 * time.Second
	// checkEvery is how often its settings are read.
	checkEvery = time.Hour
	// leastVersion is the oldest PostgreSQL that the statements were tried on.
	leastVersion = 150000
)

// What health checks say. The log has the whole error, with the database's address and
// user, which are not for everybody who may ask for health.
var (
	errAway    = errors.New("the database does not answer")
	errStandby = errors.New("the database is read-only: a standby, or default_transaction_read_only is on")
)

// Reachable is nil while the database answers. Safe for concurrent use, and quick.
func (s *Store) Reachable() error {
	if err := s.reach.Load(); err != nil {
		return *err
	}
	return nil
}

// watch looks after the database until ctx ends: whether it is there, and whether it
// still keeps what it is given.
func (s *Store) watch(ctx context.Context) {
	checked := time.Now()
	for sleep(ctx, lookEvery) == nil {
		s.look(ctx)
		if time.Since(checked) < checkEvery || s.Reachable() != nil {
			continue
		}
		checked = time.Now()
		if unsafe, err := checkServer(ctx, s.pool); err != nil {
			s.log.Warn("settings of the database could not be read", "error", err)
		} else if unsafe != nil && s.Durable() {
			s.log.Error("the database does not keep what it is given any more", "cause", unsafe)
		}
	}
}

func (s *Store) look(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	err := s.ask(asking)
	if ctx.Err() != nil || s.isBusy(err) {
		return
	}
	was := s.Reachable()
	switch {
	case err != nil:
		told := errAway
		if errors.Is(err, errStandby) {
			told = errStandby
		}
		s.reach.Store(&told)
		if was == nil {
			s.log.Error("database lost; calls are refused until it is back", "error", err)
		}
	case was != nil:
		s.reach.Store(nil)
		s.log.Info("database is back")
	}
}

// ask is nil if the database answers and takes writes.
func (s *Store) ask(ctx context.Context) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	var standby bool
	err = conn.QueryRow(ctx, `select pg_is_in_recovery() or current_setting('transaction_read_only')::boolean`).Scan(&standby)
	if err == nil && standby {
		s.pool.Reset()
		err = errStandby
	}
	return err
}

// isBusy says that there was no connection to ask with, since all are in use: that
// tells nothing about the database.
func (s *Store) isBusy(err error) bool {
	stat := s.pool.Stat()
	return errors.Is(err, context.DeadlineExceeded) && stat.AcquiredConns() >= stat.MaxConns()
}

// checkServer reads what durability rests on. unsafe is not nil if a crash of the
// database's machine may lose what was acknowledged, and says why.
func checkServer(ctx context.Context, pool *pgxpool.Pool) (unsafe, err error) {
	var version int
	var encoding, bytea, fsync, pages, commits, readOnly string
	err = pool.QueryRow(ctx, `select current_setting('server_version_num')::int, current_setting('server_encoding'),
		current_setting('bytea_output'), current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'), current_setting('transaction_read_only')`).
		Scan(&version, &encoding, &bytea, &fsync, &pages, &commits, &readOnly)
	switch {
	case err != nil:
		return nil, err
	case version < leastVersion:
		return nil, fmt.Errorf("PostgreSQL %d.%d is too old; want 15 or newer", version/10000, version%10000)
	case encoding != "UTF8":
		return nil, fmt.Errorf("the encoding of the database is %s; want UTF8", encoding)
	case bytea != "hex": // which is all that pgx reads as text
		return nil, fmt.Errorf("bytea_output is %s for this session; a pooler may have left out our setting of it: "+
			"set it for the role, by alter role … set bytea_output = hex", bytea)
	case readOnly == "on":
		return nil, errStandby
	case fsync != "on":
		return errors.New("fsync is off"), nil
	case pages != "on":
		return errors.New("full_page_writes is off"), nil
	case commits == "off":
		return errors.New("synchronous_commit is off for this session; a pooler may have left out our setting of it: " +
			"set it for the role, by alter role … set synchronous_commit = on"), nil
	default:
		return nil, nil
	}
}
