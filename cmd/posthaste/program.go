package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/posthaste-io/posthaste/cli"
)

// Exit codes.
const (
	exitOK = 0
	// exitFailed: it did not work, and the last line on standard error says why; or a
	// second signal came.
	exitFailed = 1
	// exitUsage: a flag, its environment variable or an argument makes no sense.
	exitUsage = 2
	// exitStore: the store broke while serving and could promise nothing any more.
	exitStore = 3
)

// usageError is something wrong with what the user gave.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// storeError is a store that failed while it was in use.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// commands are what the program can do.
type commands struct {
	Serve   serveCommand   `cmd:"" group:"server" help:"Run the server."`
	Demo    demoCommand    `cmd:"" group:"server" help:"See a queue push, retry and bury: a server, an endpoint and a few items, for half a minute at most."`
	Listen  listenCommand  `cmd:"" group:"server" help:"Run an endpoint for development: it verifies signatures and prints what came."`
	Health  healthCommand  `cmd:"" group:"server" help:"Ask a server whether it takes work, for the health checks of containers; 0 says yes."`
	Config  configCommand  `cmd:"" group:"server" help:"Tell what serve would run with, and whether a flag, a variable or a default says so."`
	Key     keyCommand     `cmd:"" group:"server" help:"Make a key: for those who call a server, or to encrypt secrets with."`
	Migrate migrateCommand `cmd:"" group:"server" help:"Bring the schema of a PostgreSQL database up to date, or tell where it stands."`

	cli.Commands

	Version versionCommand `cmd:"" group:"program" help:"Print the version, the commit and the Go release."`
}

// groups are the headings of the list of commands, and of flags.
var groups = append([]kong.Group{{Key: "server", Title: "Server:"}}, cli.Groups...)

// streams are where a command writes.
type streams struct {
	stdout, stderr io.Writer
}

const about = `A lease queue that pushes: it keeps items safe until they are due, then POSTs them
to an endpoint, signed, or leases them to a consumer that asks.

Exit codes of what runs here: 0 ended well, 1 did not work, 2 flags make no sense, 3 the
store broke while serving. The first SIGTERM or SIGINT stops in order, a second one at once.

Exit codes of what calls a server: ` + cli.ExitStatuses

// run runs one command until it is done or the context ends, and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	selected, err := parse(args, stdout, stderr)
	switch c := selected.(type) {
	case command:
		err = c.Run(ctx, streams{stdout, stderr})
	case cli.Command:
		err = cli.Run(ctx, c, cli.Streams{In: stdin, Out: stdout, Err: stderr})
	}
	if err != nil {
		fmt.Fprintln(stderr, "posthaste:", err)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var usage usageError
	var store storeError
	var known interface{ ExitStatus() int }
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &known):
		return known.ExitStatus()
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &store):
		return exitStore
	default:
		return exitFailed
	}
}

// command is one of [commands] that is none of [cli.Commands], with its flags read.
type command interface {
	Run(ctx context.Context, s streams) error
}

// newParser returns what reads the command line; helped is called once it has printed
// help.
func newParser(stdout, stderr io.Writer, helped func()) (*kong.Kong, error) {
	return kong.New(new(commands),
		kong.Name("posthaste"),
		kong.Description(about),
		kong.Writers(stdout, stderr),
		// Kong asks to exit once it has printed help; only main may.
		kong.Exit(func(int) { helped() }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.ExplicitGroups(groups),
		kong.ValueFormatter(describe),
	)
}

// parse reads the command line and the environment, and returns a [command] or a
// [cli.Command]; nothing, if all that was asked for was help.
func parse(args []string, stdout, stderr io.Writer) (any, error) {
	helped := false
	parser, err := newParser(stdout, stderr, func() { helped = true })
	if err != nil {
		return nil, fmt.Errorf("command line: %w", err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	switch {
	case helped:
		return nil, nil
	case err != nil:
		return nil, usagef("%s (posthaste --help lists commands and flags)", worded(err))
	}
	return parsed.Selected().Target.Addr().Interface(), nil
}

// worded leaves the empty value out of those that a flag takes: it is that of a flag which
// was not given.
func worded(err error) string {
	return strings.Replace(err.Error(), `must be one of "",`, "must be one of ", 1)
}

// describe adds a flag's environment variable to its help.
func describe(v *kong.Value) string {
	if v.Flag == nil || len(v.Flag.Envs) == 0 {
		return v.Help
	}
	return v.Help + " ($" + v.Flag.Envs[0] + ")"
}
