// Bench measures the real server over loopback, on each store, and
// prints one table: medians of short rounds in which the stores take turns, so
// that a slow moment of the machine meets both. Server, client and sink share the
// machine; trust the ratios and the processor time per item, not the absolute
// figures.
//
//	go run ./test/bench                       # everything, about five minutes
//	go run ./test/bench -quick                # does it still work? a few seconds
//	go run ./test/bench -only 'e2e|push' -json report.json -profiles .
//	go run ./test/bench -only none -churn 3m -stores postgres
//
// Whether what was acknowledged would survive a power cut stands beside each
// figure. What --json writes is described at [Report].
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
	"runtime"
	"slices"
	"time"

	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
)

// plan says how much is measured, and for how long.
type plan struct {
	rounds      int
	short, long time.Duration
	// queued is what the drain rows begin with, by batch size.
	queued map[int]int
	// shapes are those of [bench.flatRows]. The first is what the series of what is
	// queued is compared with; the one with baseQueued and nothing held, the other's,
	// in which as many items are held or queued altogether.
	shapes                 []shape
	baseQueued, mostQueued int
	probes                 int
	pushes                 int
}

var full = plan{
	rounds: 3, short: 1500 * time.Millisecond, long: 3 * time.Second,
	queued: map[int]int{1: 50_000, 10: 150_000, 100: 300_000},
	shapes: []shape{
		{queued: 1000},
		{queued: 100_000},
		{queued: 1_000_000},
		{queued: 100_000, held: 10_000},
		{queued: 100_000, held: 50_000},
	},
	baseQueued: 100_000, mostQueued: 1_000_000, probes: 500, pushes: 120_000,
}

var quick = plan{
	rounds: 1, short: 150 * time.Millisecond, long: 600 * time.Millisecond,
	queued:     map[int]int{1: 1000, 10: 2000, 100: 5000},
	shapes:     []shape{{queued: 1000}, {queued: 5000}, {queued: 4000, held: 1000}},
	baseQueued: 5000, mostQueued: 5000, probes: 20, pushes: 10_000,
}

// What a peer, a lease queue in Go, reached with the free run on such a machine,
// with a driver of its own over protobuf; its disk store without sync.
var peer = map[string]struct {
	rate float64
	text string
	goal float64
}{
	"memory":   {13_700, "a peer's 13,700 items/s", 1},
	"badger":   {2_400, "a peer's 2,400 items/s, unsynced", 3},
	"postgres": {1_900, "a peer's 1,900 items/s", 3},
}

type bench struct {
	plan     plan
	dir      string
	binary   string
	profiles string
	stores   []store
	sheet    sheet
	queues   int
	// postgres is the database's URL, each server on it has a schema of its own.
	postgres string
	schemas  int
	// churn is how long that runs, 0 for not at all.
	churn time.Duration
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
	rounds := flags.Int("rounds", 0, "measure so many `times`")
	only := flags.String("only", "", "groups to measure, a `regexp` over: e2e produce drain push flat")
	names := flags.String("stores", "memory|badger|postgres", "stores to measure, a `regexp`")
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
	b := &bench{plan: full, profiles: *profiles, churn: *churning}
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
	if slices.ContainsFunc(b.stores, func(s store) bool { return s.name == "postgres" }) {
		url, closing, err := pgtest.Open("shared_buffers=1GB", "max_wal_size=4GB")
		if err != nil {
			return err
		}
		b.postgres = url
		defer func() { err = errors.Join(err, closing()) }()
	}
	if b.dir, err = os.MkdirTemp("", "posthaste-bench"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.dir) }()
	if b.binary, err = build(ctx, b.dir); err != nil {
		return err
	}
	if err := b.measure(ctx, groups.MatchString); err != nil {
		return err
	}
	if len(b.sheet.rows) == 0 {
		return fmt.Errorf("-only %s -stores %s: nothing is measured", *only, *names)
	}
	if err := b.sheet.print(out); err != nil {
		return err
	}
	if *file == "" {
		return nil
	}
	report := Report{
		At: time.Now().UTC().Truncate(time.Second), Go: runtime.Version(), CPUs: runtime.NumCPU(),
		Rounds: b.plan.rounds, Quick: *smoke, Rows: b.sheet.rows,
	}
	return report.write(*file)
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
		if err := b.e2eRow(ctx, s); err != nil {
			return err
		}
		to := peer[on.name]
		b.sheet.row("e2e A", on, "items/s").against(to.rate, to.text, atLeast, to.goal)
	}
	if want("produce") {
		for _, one := range []struct{ producers, each int }{{16, 1}, {64, 1}, {16, 100}} {
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
	b.judgePush()
	return nil
}
