package cli

import (
	"context"
	"errors"
	"io"

	"github.com/alecthomas/kong"
)

// Commands are the commands of this package, for kong.
type Commands struct {
	Produce       produceCommand        `cmd:"" group:"items" help:"Put an item on a queue, or many from JSON lines."`
	Lease         leaseCommand          `cmd:"" group:"items" help:"Wait for items of a queue and lease them."`
	Complete      completeCommand       `cmd:"" group:"items" help:"Say that leased items are done: all of them, or none."`
	Retry         retryCommand          `cmd:"" group:"items" help:"Give leased items back to be tried later, counted: all of them, or none."`
	Release       releaseCommand        `cmd:"" group:"items" help:"Give leased items back as if they had not been leased: all of them, or none."`
	Bury          buryCommand           `cmd:"" group:"items" help:"Move leased items to the dead-letter queue: all of them, or none."`
	Extend        extendCommand         `cmd:"" group:"items" help:"Get more time for leased items, each by itself."`
	Items         itemsCommands         `cmd:"" group:"items" help:"Look at items, wait for their end, or cancel them."`
	Attempts      attemptsCommands      `cmd:"" group:"items" help:"Read the log of attempts."`
	Tail          tailCommand           `cmd:"" group:"items" help:"Follow the log of attempts: each push and what came of it, until it is interrupted."`
	Redrive       redriveCommand        `cmd:"" group:"items" help:"Move buried items back, with fresh attempts."`
	Queues        queuesCommands        `cmd:"" group:"queues" help:"Make, change, pause, count and clear queues."`
	Topics        topicsCommands        `cmd:"" group:"queues" help:"Make, change and delete topics, which copy items to all who subscribe."`
	Subscriptions subscriptionsCommands `cmd:"" group:"queues" help:"Make, change and pause the endpoints that queues and topics are pushed to."`
	Schedules     schedulesCommands     `cmd:"" group:"queues" help:"Make, change, pause and preview what produces items at the times of a cron expression."`
	Top           topCommand            `cmd:"" group:"queues" help:"Watch queues and the pushes of subscriptions."`
	Doctor        doctorCommand         `cmd:"" group:"queues" help:"Look for what is wrong with a server, its queues and its subscriptions, and say what to do."`
	Bench         benchCommand          `cmd:"" group:"queues" help:"Measure a server on a queue of its own: how many items a second, and how long each step takes."`
	Completion    completionCommand     `cmd:"" group:"program" help:"Print a script that completes commands, flags and names in a shell."`
	Words         wordsCommand          `cmd:"" name:"__complete" hidden:"" passthrough:""`
}

// Groups are the headings of commands and flags in a help text.
var Groups = []kong.Group{
	{Key: "items", Title: "Items:"},
	{Key: "queues", Title: "Queues, topics, subscriptions and schedules:"},
	{Key: "program", Title: "This program:"},
	{Key: "connection", Title: "Server and output:"},
}

// Command is one of [Commands], with its flags read.
type Command interface {
	run(ctx context.Context, c *console) error
}

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Run runs a command until it is done or ctx ends, with the reason as its cause.
func Run(ctx context.Context, command Command, s Streams) error {
	c := newConsole(s)
	err := command.run(ctx, c)
	// What a failed command found out is printed before its error is.
	if e := c.flush(); e != nil && !errors.Is(err, errOutput) {
		err = errors.Join(err, e)
	}
	return explain(ctx, err)
}
