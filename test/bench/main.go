// Bench measures the real server over loopback, on each store, and
// prints one table: medians of short rounds in which the stores take turns, so
// that a slow moment of the machine meets both. Server, client and sink share the
// machine; trust the ratios and the processor time per item, not the absolute
// figures.
//
//	go run .                       # everything, less than ten minutes
//	go run . -quick                # does it still work? a few seconds
//	go run . -only 'e2e|push' -json report.json -profiles .
//	go run . -only none -churn 3m -stores postgres
//	go run . -report ../reports    # the figures to keep; on a quiet machine
//
// It is a module of its own, for the sake of what it measures beside: River and asynq
// are no dependencies of the server.
//
// Whether what was acknowledged would survive a power cut stands beside each
// figure. What -json writes is described at [Report].
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"time"

	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
)

type bench struct {
	plan     plan
	dir      string
	binary   string
	profiles string
	stores   []store
	sheet    sheet
	skipped  []string
	queues   int
	// postgres is the database's URL, each server on it has a schema of its own.
	postgres string
	schemas  int
	// database has the processor time of its processes.
	database []source
	// churn is how long that runs, 0 for not at all.
	churn time.Duration
	// fair matches the stores that fairness is measured on.
	fair *regexp.Regexp
}

func main() {
	if os.Getenv(sinkEnv) != "" {
		exit(serveSink(os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(run(ctx, os.Args[1:], os.Stdout))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run is the program.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	smoke := flags.Bool("quick", false, "measure little: shows that everything works, the figures mean nothing")
	file := flags.String("json", "", "write the report to this `file`")
	keep := flags.String("report", "", "write the report into this `folder`, named by the day, in JSON and in Markdown")
	rounds := flags.Int("rounds", 0, "measure so many `times`")
	only := flags.String("only", "", "groups to measure, a `regexp` over: e2e produce drain push fairness flat peers")
	names := flags.String("stores", "memory|badger|postgres", "stores to measure, a `regexp`")
	fair := flags.String("fair", "badger", "stores to measure fairness on, of those that are measured, a `regexp`")
	churning := flags.Duration("churn", 0, "also run producers and consumers over a standing backlog for so `long` on each store, as 3m")
	profiles := flags.String("profiles", "", "write processor profiles of e2e and push into this `folder`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	groups, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	on, err := regexp.Compile(*names)
	if err != nil {
		return fmt.Errorf("-stores: %w", err)
	}
	fairOn, err := regexp.Compile(*fair)
	if err != nil {
		return fmt.Errorf("-fair: %w", err)
	}
	b := &bench{plan: full, profiles: *profiles, churn: *churning, fair: fairOn}
	for _, s := range stores {
		if on.MatchString(s.name) {
			b.stores = append(b.stores, s)
		}
	}
	if *smoke {
		b.plan = quick
	}
	if *rounds > 0 {
		b.plan.rounds = *rounds
	}
	report := Report{At: time.Now().UTC().Truncate(time.Second), Machine: thisMachine(), Rounds: b.plan.rounds, Quick: *smoke}
	if report.Machine.Load > quiet {
		fmt.Fprintf(os.Stderr, "bench: the machine is busy (load average %.1f): trust ratios alone, and those little\n", report.Machine.Load)
	}
	closing, err := b.open(ctx)
	defer func() { err = errors.Join(err, closing()) }()
	if err != nil {
		return err
	}
	if err := b.measure(ctx, groups.MatchString); err != nil {
		return err
	}
	if len(b.sheet.rows) == 0 {
		return fmt.Errorf("-only %s -stores %s: nothing is measured", *only, *names)
	}
	b.sheet.judge(slices.Concat(b.plan.goals(), b.plan.fair.goals(b.stores)))
	report.Rows, report.Skipped = b.sheet.rows, b.skipped
	if err := b.nameOthers(ctx, &report.Machine); err != nil {
		return err
	}
	if err := report.print(out); err != nil {
		return err
	}
	if *keep != "" {
		if err := report.keep(*keep); err != nil {
			return err
		}
	}
	if *file == "" {
		return nil
	}
	return report.write(*file)
}

// quiet is the load average below which a machine does nothing else.
const quiet = 1.5

// open builds the server and starts a database, if one is measured. closing, which is
// never nil, ends it and removes all files.
func (b *bench) open(ctx context.Context) (closing func() error, err error) {
	remove := func() error { return os.RemoveAll(b.dir) }
	if b.dir, err = os.MkdirTemp("", "posthaste-bench"); err != nil {
		return remove, err
	}
	if b.binary, err = build(ctx, b.dir); err != nil || !b.measures("postgres") {
		return remove, err
	}
	url, closeDatabase, err := pgtest.Open("shared_buffers=1GB", "max_wal_size=4GB")
	if err != nil {
		return remove, err
	}
	b.postgres = url
	b.database, err = database(ctx, url)
	return func() error { return errors.Join(closeDatabase(), remove()) }, err
}

// measures says whether a store is wanted.
func (b *bench) measures(name string) bool {
	return slices.ContainsFunc(b.stores, func(s store) bool { return s.name == name })
}

// nameOthers adds the versions of what was measured beside, or stored in.
func (b *bench) nameOthers(ctx context.Context, m *Machine) (err error) {
	if b.postgres != "" {
		if m.PostgreSQL, err = postgresVersion(ctx, b.postgres); err != nil {
			return err
		}
	}
	for _, r := range b.sheet.rows {
		switch r.Store {
		case "river":
			m.River = moduleVersion("github.com/riverqueue/river")
		case "redis":
			m.Asynq = moduleVersion("github.com/hibiken/asynq")
			if m.Redis, err = redisVersion(ctx, redisProgram); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure takes all rows of the groups that are wanted.
func (b *bench) measure(ctx context.Context, want func(group string) bool) error {
	if want("e2e") || want("produce") || want("drain") {
		for range b.plan.rounds {
			for _, on := range b.stores {
				if err := b.queueRows(ctx, on, want); err != nil {
					return fmt.Errorf("%s: %w", on.name, err)
				}
			}
		}
	}
	if want("push") {
		if err := b.pushRows(ctx); err != nil {
			return err
		}
	}
	if want("fairness") {
		for _, on := range b.stores {
			if !b.fair.MatchString(on.name) {
				continue
			}
			if err := b.fairRows(ctx, on); err != nil {
				return err
			}
		}
	}
	if want("peers") {
		if err := b.peerRows(ctx); err != nil {
			return err
		}
	}
	if b.churn > 0 {
		for _, on := range b.stores {
			if err := b.churnRows(ctx, on); err != nil {
				return fmt.Errorf("churn on %s: %w", on.name, err)
			}
		}
	}
	if want("flat") {
		for _, on := range b.stores {
			if err := b.flatRows(ctx, on); err != nil {
				return err
			}
		}
	}
	return nil
}

// queueRows takes one round of one store, on a server of its own.
func (b *bench) queueRows(ctx context.Context, on store, want func(group string) bool) (err error) {
	s, err := b.start(ctx, on)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := s.stop(); err == nil {
			err = stopErr
		}
	}()
	if want("e2e") {
		for _, f := range []flow{paced, freeA, freeB} {
			if err := b.flowRow(ctx, s, f); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	if want("produce") {
		for _, one := range []struct{ producers, each int }{{1, 1}, {16, 1}, {64, 1}, {16, 100}} {
			if err := b.produceRow(s, one.producers, one.each); err != nil {
				return err
			}
		}
	}
	if want("drain") {
		for _, each := range []int{1, 10, 100} {
			if err := b.drainRow(s, 16, each, b.plan.queued[each]); err != nil {
				return err
			}
		}
	}
	return nil
}

// pushRows takes all rounds of pushing, each beside a bare client's.
func (b *bench) pushRows(ctx context.Context) (err error) {
	to, err := startSink()
	if err != nil {
		return err
	}
	defer func() {
		if endErr := to.end(); err == nil {
			err = endErr
		}
	}()
	for range b.plan.rounds {
		for _, on := range b.stores {
			if err := b.bareRow(ctx, to); err != nil {
				return err
			}
			if err := b.pushRow(ctx, on, to); err != nil {
				return fmt.Errorf("%s: %w", on.name, err)
			}
		}
	}
	return nil
}
