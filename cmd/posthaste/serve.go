package main

import (
	"context"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/storage/postgres"
	"github.com/posthaste-io/posthaste/telemetry"
	"github.com/posthaste-io/posthaste/webhooks"
)

// serveCommand is the server's configuration as people give it.
type serveCommand struct {
	Listen      string `default:"127.0.0.1:2319" env:"POSTHASTE_LISTEN" help:"Address of the API. Others than this machine may reach it only with keys, and with TLS or --allow-plaintext."`
	AdminListen string `default:"127.0.0.1:2320" env:"POSTHASTE_ADMIN_LISTEN" help:"Address of health checks, metrics for Prometheus and profiles; loopback only."`
	Store       string `env:"POSTHASTE_STORE" placeholder:"URL" help:"Where items are kept: badger:///absolute/directory, badger:relative/directory, postgres://user:password@host/database, or memory: (gone when the process ends). Default badger:posthaste-data; with --dev memory:."`
	Dev         bool   `env:"POSTHASTE_DEV" help:"For development: a memory store unless --store says otherwise, no key needed unless one is given, pushes to loopback addresses allowed, logs as text, errors indented and with the cause of what went wrong within."`

	accessFlags

	encryptionFlags

	EgressAllow     []string `env:"POSTHASTE_EGRESS_ALLOW" sep:"," placeholder:"CIDR[:PORT]" help:"Let pushes go to these private addresses, such as 10.0.0.0/8:8443. May be repeated. All public addresses are open, all others closed."`
	EgressHTTPSOnly bool     `name:"egress-https-only" env:"POSTHASTE_EGRESS_HTTPS_ONLY" help:"Refuse endpoints that start with http://."`

	LogFormat logFormat     `enum:"auto,json,text" default:"auto" env:"POSTHASTE_LOG_FORMAT" help:"json, text, or auto: json unless --dev."`
	LogLevel  slog.Level    `default:"info" env:"POSTHASTE_LOG_LEVEL" help:"debug, info, warn or error."`
	Grace     time.Duration `default:"10s" env:"POSTHASTE_GRACE" help:"At the stop running requests to endpoints may go on so long; then they are cancelled, and their items given back uncounted."`

	limitFlags

	Window         int      `default:"1000000" env:"POSTHASTE_WINDOW" help:"How many items a store on disk keeps in memory as well, at about 90 bytes each; what is beyond it is read when it is wanted."`
	MinFreeDisk    byteSize `env:"POSTHASTE_MIN_FREE_DISK" placeholder:"SIZE" help:"With less free space than this no new items are taken (507); settling goes on down to a quarter of it. Default 512MiB or a twentieth of the disk, whichever is more."`
	Schema         string   `default:"posthaste" env:"POSTHASTE_SCHEMA" help:"Schema of the tables on PostgreSQL, of a-z, 0-9 and _."`
	Migrate        bool     `default:"true" negatable:"" env:"POSTHASTE_MIGRATE" help:"Bring the schema on PostgreSQL up to date at the start; otherwise a schema that lacks a step is refused."`
	Hints          bool     `default:"true" negatable:"" env:"POSTHASTE_HINTS" help:"Tell other nodes by NOTIFY what became available. Without it, as behind a pooler in transaction mode, they see it at their next poll, each second."`
	AcceptDataLoss bool     `env:"POSTHASTE_ACCEPT_DATA_LOSS" help:"Open a store whose log lost commits that were acknowledged, or whose files are damaged, and go on with what is left. Damaged files are set aside, not deleted."`
}

// logFormat is how log lines look.
type logFormat string

const (
	logAuto logFormat = "auto"
	logText logFormat = "text"
	logJSON logFormat = "json"
)

// Run implements command: it serves until the context ends.
func (c *serveCommand) Run(ctx context.Context, s streams) error {
	config, err := c.config(os.Getenv(rootKeyVariable))
	if err != nil {
		return err
	}
	if config.export, err = telemetry.ReadEnvironment(os.Getenv); err != nil {
		return usageError{err}
	}
	if config.encryption, err = c.keys(os.Getenv(encryptionKeyVariable)); err != nil {
		return err
	}
	config.stdout = s.stdout
	defer paceCollector()()
	if config.logFormat == logText {
		log := newLogger(s.stderr, logText, config.logLevel)
		captureLibraries(log)
		return serve(ctx, config, log)
	}
	log, flush := newGatheringLogger(s.stderr, config.logLevel)
	defer flush()
	captureLibraries(log)
	return serve(ctx, config, log)
}

// captureLibraries has what libraries print by themselves, such as net/http about frames of
// an endpoint that make no sense, go where it can be looked for and disturbs nobody.
func captureLibraries(log *slog.Logger) {
	stdlog.SetFlags(0)
	stdlog.SetOutput(slog.NewLogLogger(log.Handler(), slog.LevelDebug).Writer())
}

// serve runs an app until the context ends or the app cannot go on.
func serve(ctx context.Context, c config, log *slog.Logger) error {
	a, err := openApp(c, log)
	if err != nil {
		return err
	}
	a.start()
	announce(log, "listening", "api", a.api.Addr().String(), "admin", a.admin.Addr().String(), "tls", a.certificate != nil,
		"access", c.access.String(), "durable", a.store.Durable())
	return a.wait(ctx)
}

// config is the server's configuration, judged.
type config struct {
	listen, adminListen string
	access              access
	encryption          encryption
	// stdout is where a key that was made is shown.
	stdout io.Writer
	store  storeURL
	// dev says that people look at the log and at errors.
	dev       bool
	allow     []webhooks.AllowRule
	httpsOnly bool
	limits    limitFlags
	logFormat logFormat
	logLevel  slog.Level
	grace     time.Duration
	window    int
	// minFreeDisk is in bytes; 0 is the store's default.
	minFreeDisk    uint64
	acceptDataLoss bool
	// export says what goes to a collector.
	export telemetry.Export
	// schema, migrate and hints are for PostgreSQL.
	schema         string
	migrate, hints bool
}

// config judges the flags, and the keys of the environment; its errors are [usageError].
func (c *serveCommand) config(rootKey string) (config, error) {
	out := config{
		listen: c.Listen, adminListen: c.AdminListen, dev: c.Dev,
		httpsOnly: c.EgressHTTPSOnly, limits: c.limitFlags,
		logFormat: c.LogFormat, logLevel: c.LogLevel, grace: c.Grace,
		window: c.Window, minFreeDisk: uint64(c.MinFreeDisk), acceptDataLoss: c.AcceptDataLoss,
		schema: c.Schema, migrate: c.Migrate, hints: c.Hints,
		stdout: io.Discard,
	}
	var err error
	if out.access, err = c.judge(rootKey, c.Dev); err != nil {
		return config{}, err
	}
	if err := checkListen("--listen", c.Listen, out.access.remote, out.access.why()); err != nil {
		return config{}, err
	}
	if err := checkListen("--admin-listen", c.AdminListen, false, whyAdmin); err != nil {
		return config{}, err
	}
	if out.store, err = parseStoreURL(orElse(c.Store, defaultStore(c.Dev))); err != nil {
		return config{}, err
	}
	if err := postgres.CheckSchema(c.Schema); err != nil {
		return config{}, usagef("--schema: %w", err)
	}
	rules := c.EgressAllow
	if c.Dev {
		// Not 127.0.0.1 alone: a rule for a single address opens our own listeners as well.
		// IPv6 has but the one.
		rules = append([]string{"127.0.0.0/8", "[::1/128]"}, rules...)
	}
	for _, text := range rules {
		rule, err := webhooks.ParseAllow(text)
		if err != nil {
			return config{}, usagef("--egress-allow: %w", err)
		}
		out.allow = append(out.allow, rule)
	}
	if err := c.check(); err != nil {
		return config{}, err
	}
	if c.Window < 1 {
		return config{}, usagef("--window %d: want 1 or more", c.Window)
	}
	if c.Grace < 0 {
		return config{}, usagef("--grace %s: want a duration that is not negative", c.Grace)
	}
	if out.logFormat == logAuto {
		out.logFormat = logJSON
		if c.Dev {
			out.logFormat = logText
		}
	}
	return out, nil
}

func defaultStore(dev bool) string {
	if dev {
		return "memory:"
	}
	return "badger:posthaste-data"
}

// whyAdmin says what keeps others than this machine from the admin listener.
const whyAdmin = "profiles show what is in memory, to whoever asks, without a key"

// checkListen refuses an address that others than this machine could reach, unless
// they may.
func checkListen(flag, address string, remote bool, why string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return usagef("%s %q: want host:port, such as 127.0.0.1:2319", flag, address)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return usagef("%s %q: there is no port %q; want 0 to 65535, where 0 takes a free one", flag, address, port)
	}
	if remote || host == "localhost" {
		return nil // what it resolves to is judged once it is bound
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() {
		return nil
	}
	return usagef("%s %q: refused, it is not a loopback address, and %s", flag, address, why)
}

// byteSize is a count of bytes, written as 1048576, 512MB or 2GiB.
type byteSize uint64

var byteUnits = []struct {
	suffix string
	size   uint64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"kB", 1e3},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
	{"", 1},
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *byteSize) UnmarshalText(text []byte) error {
	for _, unit := range byteUnits {
		digits, ok := strings.CutSuffix(string(text), unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || n > 1<<62/unit.size {
			break
		}
		*b = byteSize(n * unit.size)
		return nil
	}
	return fmt.Errorf("%q is no count of bytes such as 1048576, 512MB or 2GiB", text)
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
