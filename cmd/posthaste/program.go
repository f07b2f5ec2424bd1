package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"
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
	Serve   serveCommand   `cmd:"" help:"Run the server."`
	Demo    demoCommand    `cmd:"" help:"See a queue push, retry and bury: a server, an endpoint and a few items, for half a minute at most."`
	Listen  listenCommand  `cmd:"" help:"Run an endpoint for development: it verifies signatures and prints what came."`
	Key     keyCommand     `cmd:"" help:"Make a key for those who call a server."`
	Migrate migrateCommand `cmd:"" help:"Bring the schema of a PostgreSQL database up to date, or tell where it stands."`
	Version versionCommand `cmd:"" help:"Print the version, the commit and the Go release."`
}

// streams are where a command writes.
type streams struct {
	stdout, stderr io.Writer
}

const about = `A lease queue that pushes: it keeps items safe until they are due, then POSTs them
to an endpoint, signed, or leases them to a consumer that asks.

Exit codes: 0 ended well, 1 did not work, 2 flags make no sense, 3 the store broke
while serving. The first SIGTERM or SIGINT stops in order, a second one at once.`

// run runs one command until it is done or the context ends, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	command, err := parse(args, stdout, stderr)
	if err == nil && command != nil {
		err = command.Run(ctx, streams{stdout, stderr})
	}
	if err != nil {
		fmt.Fprintln(stderr, "posthaste:", err)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var usage usageError
	var store storeError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &store):
		return exitStore
	default:
		return exitFailed
	}
}

// command is one of [commands], with its flags read.
type command interface {
	Run(ctx context.Context, s streams) error
}

// parse reads the command line and the environment. It returns no command if all
// that was asked for was help.
func parse(args []string, stdout, stderr io.Writer) (command, error) {
	var all commands
	helped := false
	parser, err := kong.New(&all,
		kong.Name("posthaste"),
		kong.Description(about),
		kong.Writers(stdout, stderr),
		// Kong asks to exit once it has printed help; only main may.
		kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.ValueFormatter(describe),
	)
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
		return nil, usagef("%w (posthaste --help lists commands and flags)", err)
	}
	switch parsed.Selected().Name {
	case "up":
		return &all.Migrate.Up, nil
	case "status":
		return &all.Migrate.Status, nil
	case "new":
		return &all.Key.New, nil
	case "serve":
		return &all.Serve, nil
	case "demo":
		return &all.Demo, nil
	case "listen":
		return &all.Listen, nil
	default:
		return &all.Version, nil
	}
}

// describe adds a flag's environment variable to its help.
func describe(v *kong.Value) string {
	if v.Flag == nil || len(v.Flag.Envs) == 0 {
		return v.Help
	}
	return v.Help + " ($" + v.Flag.Envs[0] + ")"
}
