package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/storage"
)

// DefaultSchema is where the tables lie unless told otherwise.
const DefaultSchema = "posthaste"

// Options say where and how; URL is required.
type Options struct {
	// URL is a connection string of libpq's, as URL or as key=value. Parameters of pgx
	// such as pool_max_conns and default_query_exec_mode are understood.
	URL string
	// Schema is a name of a-z, 0-9 and _; empty is [DefaultSchema].
	Schema string
	// Migrate brings the schema up to date when the store is opened.
	Migrate bool
	// Log is told what an operator should know; nil is silent.
	Log *slog.Logger
	// NoListen spares the connection that hears other nodes' hints, and sends none:
	// through a pooler in transaction mode they would not arrive.
	NoListen bool
	// Now replaces the database's clock, for tests. Nodes would need the same one.
	Now func() time.Time
}

// maxConns bounds the pool unless the URL does: a verb has one batch on its way at a
// time, and what looks at items needs a few more.
const maxConns = 12

// Store is a [storage.Backend] on PostgreSQL. Its methods may be called concurrently.
type Store struct {
	pool *pgxpool.Pool
	log  *slog.Logger
	// schema is quoted.
	schema string
	clock  clock
	texts  sync.Map

	// hints is told what became available; channel is where they are heard.
	hints   *hints
	channel string
	heads   heads
	keyed   keyedQueues
	durable bool
	// reach is why the database does not answer, nil while it does.
	reach atomic.Pointer[error]

	// noOwner and noVacuum tell once what the role may not do.
	noOwner, noVacuum sync.Once

	stop   context.CancelFunc
	tasks  sync.WaitGroup
	failed chan struct{} // never closed
}

var _ storage.Backend = (*Store)(nil)

// Open connects, and migrates if that is wanted.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	pool, schema, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Store{
		pool: pool, log: o.Log, schema: schema, clock: clock{now: o.Now},
		hints: newHints(), channel: "posthaste." + orElse(o.Schema, DefaultSchema), failed: make(chan struct{}),
	}
	if err := s.begin(ctx, o); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open store: %w", err)
	}
	return s, nil
}

// begin judges the server, brings the schema up to date, and starts what runs beside
// the verbs.
func (s *Store) begin(ctx context.Context, o Options) error {
	unsafe, err := checkServer(ctx, s.pool)
	if err != nil {
		return err
	}
	if s.durable = unsafe == nil; !s.durable {
		s.log.Error("the database does not keep what it is given: after a crash of its machine acknowledged work may be gone", "cause", unsafe)
	}
	if o.Migrate {
		err = migrateUp(ctx, s.pool, s.schema, o.Log)
	} else {
		err = checkMigrated(ctx, s.pool, s.schema)
	}
	if err != nil {
		return err
	}
	if err := s.makeDays(ctx); err != nil {
		return err
	}
	if err := s.goOn(ctx); err != nil {
		return err
	}
	s.hints.off = o.NoListen
	running, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.tasks.Go(func() { s.keepClean(running) })
	s.tasks.Go(func() { s.repeat(running, "measure tables", measureEvery, s.measure) })
	s.tasks.Go(func() { s.watch(running) })
	if !o.NoListen {
		s.tasks.Go(func() { s.sendHints(running) })
		s.tasks.Go(func() { s.hearHints(running) })
	}
	return nil
}

// goOn begins the clock at the newest time that was given out, should the database's
// be behind it: another machine may have taken over.
func (s *Store) goOn(ctx context.Context) error {
	var newest *time.Time
	var now time.Time
	if err := s.pool.QueryRow(ctx, s.text(`select max(at), clock_timestamp() from {s}.batches`)).Scan(&newest, &now); err != nil {
		return err
	}
	if newest == nil {
		return nil
	}
	if ahead := newest.Sub(now); s.clock.now == nil && ahead > maxAhead {
		s.log.Error("the database's clock was far ahead and is not any more; going on by what it says now", "ahead", ahead)
		return nil
	}
	s.clock.saw(*newest)
	return nil
}

// maxAhead bounds how far the database's clock may be behind what was given out. A
// machine that takes over is a little behind; a clock that was set wrong and mended may
// be off by a day, for which no lease would lapse.
const maxAhead = time.Hour

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// connect makes a pool, and quotes the schema.
func connect(ctx context.Context, o Options) (pool *pgxpool.Pool, schema string, err error) {
	if schema, err = quoteSchema(o.Schema); err != nil {
		return nil, "", err
	}
	config, err := poolConfig(o.URL)
	if err != nil {
		return nil, "", err
	}
	if pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, "", fmt.Errorf("open store: %w", err)
	}
	return pool, schema, nil
}

// poolConfig reads a connection string, whose errors never show its password.
func poolConfig(url string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the URL of the database cannot be read, or a parameter in it makes no sense; want postgres://user:password@host:port/database")
	}
	if !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = maxConns
	}
	settings := sessionSettings(config.ConnConfig.RuntimeParams)
	if isPooled(config.ConnConfig) {
		// Behind a pooler, which refuses settings that it does not track by itself.
		maps.DeleteFunc(settings, func(name, _ string) bool {
			_, given := config.ConnConfig.RuntimeParams[name]
			return !given && !slices.Contains(pooled, name)
		})
	}
	config.ConnConfig.RuntimeParams = settings
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		// Without prepared statements nobody else tells that these are.
		conn.TypeMap().RegisterDefaultPgType([16]byte{}, "uuid")
		conn.TypeMap().RegisterDefaultPgType([][16]byte{}, "_uuid")
		return nil
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	return config, nil
}

// isPooled says whether connections go through a pooler, by what the URL has to say then.
func isPooled(config *pgx.ConnConfig) bool {
	return config.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement
}

// pooled are the settings that PgBouncer keeps for each of its clients.
var pooled = []string{"application_name", "client_encoding", "timezone", "datestyle", "standard_conforming_strings"}

// sessionSettings are what must not depend on how the server or the role is set.
func sessionSettings(given map[string]string) map[string]string {
	settings := map[string]string{
		"application_name":              "posthaste",
		"client_encoding":               "UTF8",
		"bytea_output":                  "hex",
		"timezone":                      "UTC",
		"datestyle":                     "ISO",
		"intervalstyle":                 "postgres",
		"standard_conforming_strings":   "on",
		"default_transaction_isolation": "read committed",
		"default_transaction_read_only": "off",
		"synchronous_commit":            "on",
		"statement_timeout":             "60s",
		"lock_timeout":                  "30s",
		// A node that is cut off may hold locks of ordering keys, in a statement that waits for
		// the rest of its batch, which no timeout of statements ends.
		"tcp_keepalives_idle":                 "10",
		"tcp_keepalives_interval":             "3",
		"tcp_keepalives_count":                "3",
		"idle_in_transaction_session_timeout": "60s",
		"jit":                                 "off", // compiling costs more than these statements
		// Planning costs more than running them, so plans are kept; and one that was made
		// while a table was small must not read all of it later.
		"plan_cache_mode":   "force_generic_plan",
		"enable_seqscan":    "off",
		"enable_bitmapscan": "off",
		"enable_hashjoin":   "off",
		"enable_mergejoin":  "off",
	}
	for name, value := range given {
		settings[name] = value
	}
	return settings
}

// maxSchema leaves room for what is put before a schema's name to make a channel's.
const maxSchema = 53

// CheckSchema judges the name of a schema; empty is [DefaultSchema].
func CheckSchema(name string) error {
	if len(name) > maxSchema || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return fmt.Errorf("%.80q is no name of a schema; want at most %d characters of a-z, 0-9 and _", name, maxSchema)
	}
	return nil
}

func quoteSchema(name string) (string, error) {
	if err := CheckSchema(name); err != nil {
		return "", err
	}
	return pgx.Identifier{orElse(name, DefaultSchema)}.Sanitize(), nil
}

// Durable implements [queue.Store]. It is what was found when the store was opened;
// synchronous_commit is set by each session.
func (s *Store) Durable() bool { return s.durable }

// Close implements [storage.Backend].
func (s *Store) Close() error {
	s.stop()
	s.tasks.Wait()
	s.pool.Close()
	return nil
}

// Failed implements [storage.Backend]. A database that is away comes back, so this
// store never gives up.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err implements [storage.Backend].
func (s *Store) Err() error { return nil }
