package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/posthaste-io/posthaste/storage/postgres"
)

// migrateCommand looks after the schema of a PostgreSQL database.
type migrateCommand struct {
	Up     migrateUpCommand     `cmd:"" help:"Apply the steps that are missing, under a lock. Nodes of the version before go on meanwhile."`
	Status migrateStatusCommand `cmd:"" help:"List all steps, and when each was applied. Changes nothing."`
}

// databaseFlags say which schema is meant.
type databaseFlags struct {
	Store  string `required:"" env:"POSTHASTE_STORE" placeholder:"URL" help:"The database, postgres://user:password@host/database."`
	Schema string `default:"posthaste" env:"POSTHASTE_SCHEMA" help:"Schema of the tables."`
}

func (f *databaseFlags) options() (postgres.Options, error) {
	u, err := parseStoreURL(f.Store)
	if err != nil {
		return postgres.Options{}, err
	}
	if u.kind != storePostgres {
		return postgres.Options{}, usagef("--store %s: has no schema; want postgres://user:password@host/database", u)
	}
	if err := postgres.CheckSchema(f.Schema); err != nil {
		return postgres.Options{}, usagef("--schema: %w", err)
	}
	return postgres.Options{URL: u.database, Schema: f.Schema}, nil
}

type migrateUpCommand struct{ databaseFlags }

// Run implements command.
func (c *migrateUpCommand) Run(ctx context.Context, s streams) error {
	return c.steps(ctx, s, true)
}

type migrateStatusCommand struct{ databaseFlags }

// Run implements command.
func (c *migrateStatusCommand) Run(ctx context.Context, s streams) error {
	return c.steps(ctx, s, false)
}

func (f *databaseFlags) steps(ctx context.Context, s streams, up bool) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	steps, err := postgres.Migrations(ctx, o, up)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "version\tname\tapplied")
	for _, step := range steps {
		applied := "not yet"
		if !step.At.IsZero() {
			applied = step.At.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\n", step.Version, step.Name, applied)
	}
	return table.Flush()
}
