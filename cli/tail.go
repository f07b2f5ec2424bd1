package cli

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// tailCommand follows the attempt log.
type tailCommand struct {
	Subscription string        `placeholder:"SUBSCRIPTION" help:"Of this subscription only."`
	Queue        string        `placeholder:"QUEUE" help:"Of this queue only."`
	Item         string        `placeholder:"ID" help:"Of this item only."`
	Failures     bool          `help:"Only what did not go well."`
	Since        moment        `placeholder:"TIME" help:"Begin at this instant, such as 2030-01-31T08:00:00Z, or so long ago, such as 15m. Default is with what comes now."`
	Every        time.Duration `default:"500ms" help:"How often it is looked."`
	connection
}

// run implements Command.
func (f *tailCommand) run(ctx context.Context, c *console) error {
	if f.Every < leastEvery {
		return usagef("--every %s: want %s at least", f.Every, leastEvery)
	}
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		t := &tail{list: cl.Attempts, filter: client.AttemptFilter{
			ItemID: f.Item, Subscription: f.Subscription, Queue: f.Queue, From: f.Since.time(time.Now()), OldestFirst: true, PageSize: attemptsPage,
		}}
		if f.Since == (moment{}) {
			if err := t.skip(ctx); err != nil {
				return ended(ctx, err)
			}
		}
		c.note("following the log of attempts; end with Ctrl-C")
		return ended(ctx, f.follow(ctx, c, t))
	})
}

// ended makes a success of an interrupt, which is how it is ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// follow prints what is new, again and again. A server that is away may come back: then
// it goes on where it was.
func (f *tailCommand) follow(ctx context.Context, c *console, t *tail) error {
	tick := time.NewTicker(f.Every)
	defer tick.Stop()
	away := false
	for {
		err := t.look(ctx, func(a client.Attempt) error {
			if f.Failures && !isFailure(a) {
				return nil
			}
			return f.print(c, a)
		})
		switch {
		case err != nil && statusOfAny(err) != exitUnreached:
			return err
		case err != nil && !away && ctx.Err() == nil:
			c.note("%s\nit goes on where it was once a server answers", explain(ctx, f.named(err)))
		case err == nil && away:
			c.note("a server answers again")
		}
		away = err != nil
		if err := c.flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (f *tailCommand) print(c *console, a client.Attempt) error {
	if f.JSON {
		return c.object(attemptViewOf(a))
	}
	if !c.shown {
		rows := newTable()
		rows.add(attemptRow(a)...)
		return rows.print(c)
	}
	who := a.Queue
	if a.Subscription != "" {
		who = a.Subscription
	}
	text := fmt.Sprintf("%s  %s  %3s  %7s  %s  %s #%d  %s", a.At.Local().Format("15:04:05.000"),
		c.paint(verdictColour(a), fmt.Sprintf("%-10s", printable(a.Verdict))), count(a.Status), attemptRow(a)[4].text,
		printable(who), printable(a.ItemID), a.Attempt, printable(nextText(a)))
	if a.Error != "" {
		text += "  " + c.paint(dim, printable(a.Error))
	}
	return c.printf("%s\n", text)
}

// tail reads a log that grows, each line once.
//
// Its end is no place to go on from: a line has the time at which its transaction began,
// so that one from before may appear behind it, and nodes may differ a little. So each
// look begins somewhat before where the log ended last time, and leaves out what was given.
type tail struct {
	list   func(ctx context.Context, f client.AttemptFilter) iter.Seq2[client.Attempt, error]
	filter client.AttemptFilter
	// end is the time of the newest line that a look has passed, of any filter: what lies
	// behind it, less settleTime, was given.
	end time.Time
	// given are the lines from there on that were given.
	given map[lineKey]bool
}

// settleTime is how late a line may appear. It is longer than a transaction may take and
// clocks of nodes may differ.
const settleTime = 5 * time.Second

// lineKey tells lines apart. An item may have several of one time.
type lineKey struct {
	item, queue, kind, verdict string
	attempt                    int
	at                         time.Time
}

// skip passes the lines that there are, by the server's clock and not by ours.
func (t *tail) skip(ctx context.Context) (err error) {
	if t.end, err = t.newest(ctx); err != nil {
		return err
	}
	return t.look(ctx, func(client.Attempt) error { return nil })
}

// newest is the time of the newest line of all, zero if there is none.
func (t *tail) newest(ctx context.Context) (time.Time, error) {
	for a, err := range t.list(ctx, client.AttemptFilter{PageSize: 1}) {
		return a.At, err
	}
	return time.Time{}, nil
}

// look calls give with the lines that are new, the oldest first.
func (t *tail) look(ctx context.Context, give func(client.Attempt) error) error {
	// Asked before: what this look does not find is newer, or late.
	end, err := t.newest(ctx)
	if err != nil {
		return err
	}
	filter := t.filter
	if from := t.end.Add(-settleTime); from.After(filter.From) {
		filter.From = from
	}
	if t.given == nil {
		t.given = map[lineKey]bool{}
	}
	for a, err := range t.list(ctx, filter) {
		if err != nil {
			return err
		}
		key := lineKey{a.ItemID, a.Queue, a.Type, a.Verdict, a.Attempt, a.At}
		if t.given[key] {
			continue
		}
		if err := give(a); err != nil {
			return err
		}
		t.given[key] = true
	}
	if end.After(t.end) {
		t.end = end
	}
	for key := range t.given {
		if key.at.Before(t.end.Add(-settleTime)) {
			delete(t.given, key)
		}
	}
	return nil
}
