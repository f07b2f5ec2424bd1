package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed migrations/*.sql
var files embed.FS

// migration is one step of the schema, applied in a transaction of its own, so that
// one that was interrupted is begun again.
type migration struct {
	version int
	name    string
	text    string
}

// migrations returns all steps in order. Their files are named 0001_what.sql.
func migrations() ([]migration, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var all []migration
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		base := strings.TrimSuffix(strings.TrimPrefix(name, "migrations/"), ".sql")
		number, rest, _ := strings.Cut(base, "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != len(all)+1 {
			return nil, fmt.Errorf("migration %s: want number %d", name, len(all)+1)
		}
		all = append(all, migration{version, rest, string(text)})
	}
	return all, nil
}

// Step is the state of one migration. At is zero if it is still to be applied.
type Step struct {
	Version int
	Name    string
	At      time.Time
}

// lockTimeout bounds the wait for another node that migrates.
const lockTimeout = "60s"

// migrateUp applies what is missing, under a lock: of several nodes that start at
// one time one does it and the others wait. schema is quoted.
func migrateUp(ctx context.Context, pool *pgxpool.Pool, schema string, log *slog.Logger) error {
	all, err := migrations()
	if err != nil {
		return err
	}
	for {
		step, err := migrateOne(ctx, pool, schema, all)
		if err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		if step == nil {
			return nil
		}
		log.Info("schema migrated", "schema", schema, "version", step.version, "name", step.name)
	}
}

// migrateOne applies the first step that is missing, and returns nil if none is.
func migrateOne(ctx context.Context, pool *pgxpool.Pool, schema string, all []migration) (step *migration, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		// A lock of the transaction, since a pooler may give the session to another.
		_, err := tx.Exec(ctx, `set local lock_timeout = '`+lockTimeout+`'; set local statement_timeout = 0`)
		if err != nil {
			return err
		}
		if _, err = tx.Exec(ctx, `select pg_advisory_xact_lock(hashtextextended('posthaste migration of ' || $1, 0))`, schema); err != nil {
			return err
		}
		// Not by if not exists, for which the role would need to be allowed to make one.
		var there bool
		if err := tx.QueryRow(ctx, `select to_regnamespace($1) is not null`, schema).Scan(&there); err != nil {
			return err
		}
		if !there {
			if _, err := tx.Exec(ctx, `create schema `+schema); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, `create table if not exists `+schema+`.migrations (version integer primary key, name text not null, at timestamptz not null default clock_timestamp())`)
		if err != nil {
			return err
		}
		var version int
		if err := tx.QueryRow(ctx, `select coalesce(max(version), 0) from `+schema+`.migrations`).Scan(&version); err != nil {
			return err
		}
		if version >= len(all) {
			return nil // also what a newer node has applied: steps only ever add
		}
		step = &all[version]
		if _, err := tx.Exec(ctx, strings.ReplaceAll(step.text, "{s}", schema)); err != nil {
			return fmt.Errorf("version %d, %s: %w", step.version, step.name, err)
		}
		_, err = tx.Exec(ctx, `insert into `+schema+`.migrations (version, name) values ($1, $2)`, step.version, step.name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return step, nil
}

// checkMigrated refuses a schema that lacks a step.
func checkMigrated(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	steps, err := migrationStatus(ctx, pool, schema)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if step.At.IsZero() {
			return fmt.Errorf("schema %s lacks migration %d, %s: run posthaste migrate up", schema, step.Version, step.Name)
		}
	}
	return nil
}

// migrationStatus lists all steps, those of newer versions too.
func migrationStatus(ctx context.Context, pool *pgxpool.Pool, schema string) ([]Step, error) {
	all, err := migrations()
	if err != nil {
		return nil, err
	}
	steps := make([]Step, len(all))
	for i, m := range all {
		steps[i] = Step{Version: m.version, Name: m.name}
	}
	// What is wrong with the query is told by the rows, too.
	rows, _ := pool.Query(ctx, `select version, name, at from `+schema+`.migrations order by version`)
	applied, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Step])
	if state, ok := errors.AsType[*pgconn.PgError](err); ok && state.Code == "42P01" {
		return steps, nil // no such table yet
	}
	for _, step := range applied {
		if step.Version <= len(steps) {
			steps[step.Version-1] = step
		} else {
			steps = append(steps, step)
		}
	}
	return steps, err
}

// Migrations brings a database up to date, or tells where it stands, for commands that
// do nothing else.
func Migrations(ctx context.Context, o Options, up bool) ([]Step, error) {
	pool, schema, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if up {
		if err := migrateUp(ctx, pool, schema, o.Log); err != nil {
			return nil, err
		}
	}
	return migrationStatus(ctx, pool, schema)
}

// Drop removes a schema with all that is in it.
func Drop(ctx context.Context, o Options) error {
	pool, schema, err := connect(ctx, o)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, `drop schema if exists `+schema+` cascade`)
	return err
}
