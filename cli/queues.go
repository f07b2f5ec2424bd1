package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// queuesCommands look after queues.
type queuesCommands struct {
	List    queuesListCommand    `cmd:"" help:"List queues by name."`
	Info    queuesInfoCommand    `cmd:"" help:"Show a queue's settings."`
	Create  queuesCreateCommand  `cmd:"" help:"Make a queue."`
	Update  queuesUpdateCommand  `cmd:"" help:"Change what is given, and nothing else."`
	Delete  queuesDeleteCommand  `cmd:"" help:"Delete a queue that is empty, or with --force any."`
	Pause   queuesPauseCommand   `cmd:"" help:"Stop leases and pushes, or produces, or both."`
	Resume  queuesResumeCommand  `cmd:"" help:"End a pause."`
	Clear   queuesClearCommand   `cmd:"" help:"Cancel the items of a queue: they are erased, and not delivered."`
	Stats   queuesStatsCommand   `cmd:"" help:"Count what queues hold."`
	Keys    queuesKeysCommand    `cmd:"" help:"List ordering keys that have items waiting, with what they wait for."`
	Unblock queuesUnblockCommand `cmd:"" help:"Have the head of an ordering key tried again at once, or with --skip buried, so that the next goes."`
	Reload  queuesReloadCommand  `cmd:"" help:"Have the node that answers read the queue's settings again. Changes reach all nodes by themselves within seconds."`
}

type queuesListCommand struct{ connection }

// run implements Command.
func (f *queuesListCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		rows := newTable("queue", ">lease", ">attempts", ">expire", "dead-letter queue", "paused", "created")
		for q, err := range cl.Queues(ctx) {
			if err != nil {
				return err
			}
			if f.JSON {
				if err := c.object(queueViewOf(q)); err != nil {
					return err
				}
				continue
			}
			rows.add(cell{text: q.Name}, cell{text: shortSpan(q.LeaseTimeout)}, cell{text: limit(q.MaxAttempts)},
				cell{text: spanText(q.ExpireTimeout)}, cell{text: q.DeadQueue}, cell{q.Pause, yellow}, cell{text: q.CreatedAt.Format(time.DateTime)})
		}
		if f.JSON {
			return nil
		}
		return rows.print(c)
	})
}

// limit writes a count of which -1 is none.
func limit(n int) string {
	if n == -1 {
		return "no limit"
	}
	return strconv.Itoa(n)
}

type queuesInfoCommand struct {
	Queue string `arg:"" help:"The queue."`
	connection
}

// run implements Command.
func (f *queuesInfoCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		return f.show(ctx, c, cl, f.Queue)
	})
}

// show prints a queue's settings.
func (f *connection) show(ctx context.Context, c *console, cl *client.Client, queue string) error {
	q, err := cl.GetQueue(ctx, queue)
	if err != nil {
		return err
	}
	if f.JSON {
		return c.object(queueViewOf(q))
	}
	r, now := new(record), time.Now()
	r.paint("queue", q.Name, bold)
	r.set("reference", q.Reference)
	r.paint("paused", q.Pause, yellow)
	r.set("lease timeout", spanText(q.LeaseTimeout))
	r.set("expire timeout", spanText(q.ExpireTimeout))
	r.set("keep ended", spanText(q.KeepEnded))
	r.set("max attempts", limit(q.MaxAttempts))
	r.set("max recoveries", strconv.Itoa(q.MaxRecoveries))
	if q.ParkAfter > 0 {
		r.set("park after", strconv.Itoa(q.ParkAfter))
	}
	r.set("partitions", partitionsText(q))
	r.set("dead-letter queue", q.DeadQueue)
	r.set("created", when(q.CreatedAt, now))
	r.set("updated", when(q.UpdatedAt, now))
	r.set("revision", q.Revision)
	return r.print(c)
}

// partitionsText tells of a queue's partitions, those that drain too. One is nothing to tell.
func partitionsText(q client.Queue) string {
	if q.Partitions <= 1 && len(q.Draining) == 0 {
		return ""
	}
	text := strconv.Itoa(q.Partitions)
	if len(q.Draining) > 0 {
		left := 0
		for _, p := range q.Draining {
			left += p.Total
		}
		text += fmt.Sprintf(", and %d that drain, with %s", len(q.Draining), plural(left, "item"))
	}
	return text
}

type queuesCreateCommand struct {
	Queue         string        `arg:"" help:"Its name."`
	LeaseTimeout  time.Duration `placeholder:"DURATION" help:"How long a lease lasts that does not say. Default 60s."`
	ExpireTimeout time.Duration `placeholder:"DURATION" help:"How long an item has, from when it is due, until it goes to the dead-letter queue. Default for ever."`
	KeepEnded     time.Duration `placeholder:"DURATION" help:"How long items that have ended are known, with their results, 72h at most. Default not at all."`
	MaxAttempts   int           `placeholder:"N" help:"How often an item may fail; --max-attempts=-1 is no limit. Default 25."`
	MaxRecoveries int           `placeholder:"N" help:"How many leases in a row may lapse until an item is buried. Default 3."`
	ParkAfter     int           `placeholder:"N" help:"After so many failures the head of an ordering key is not tried again by itself: its key waits for queues unblock. Default never."`
	Partitions    int           `placeholder:"N" help:"How many ordered sets items are spread over, 1 to 64. Default 1."`
	DeadQueue     string        `placeholder:"QUEUE" help:"Receives what is buried. Default is the queue's own, QUEUE~dead."`
	Reference     string        `placeholder:"TEXT" help:"A note of yours."`

	connection
}

// run implements Command.
func (f *queuesCreateCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		if err := cl.CreateQueue(ctx, client.Queue{
			Name: f.Queue, DeadQueue: f.DeadQueue, Reference: f.Reference, LeaseTimeout: f.LeaseTimeout,
			ExpireTimeout: f.ExpireTimeout, KeepEnded: f.KeepEnded, MaxAttempts: f.MaxAttempts, MaxRecoveries: f.MaxRecoveries,
			ParkAfter:  f.ParkAfter,
			Partitions: f.Partitions,
		}); err != nil {
			return err
		}
		return f.show(ctx, c, cl, f.Queue)
	})
}

type queuesUpdateCommand struct {
	Queue         string         `arg:"" help:"The queue."`
	LeaseTimeout  time.Duration  `placeholder:"DURATION" help:"How long a lease lasts that does not say."`
	ExpireTimeout *time.Duration `placeholder:"DURATION" help:"How long an item has; 0s is for ever."`
	KeepEnded     *time.Duration `placeholder:"DURATION" help:"How long items that have ended are known; 0s is not at all."`
	MaxAttempts   int            `placeholder:"N" help:"How often an item may fail; --max-attempts=-1 is no limit."`
	MaxRecoveries int            `placeholder:"N" help:"How many leases in a row may lapse until an item is buried."`
	ParkAfter     *int           `placeholder:"N" help:"After so many failures the head of an ordering key is not tried again by itself; 0 is never."`
	Partitions    int            `placeholder:"N" help:"How many ordered sets items are spread over, 1 to 64. Those beyond it become read-only, and go when they are empty."`
	DeadQueue     *string        `placeholder:"QUEUE" help:"Receives what is buried; an empty one goes back to the queue's own."`
	Reference     *string        `placeholder:"TEXT" help:"A note of yours."`
	Revision      string         `placeholder:"TEXT" help:"Refuse the change unless this is still the queue's revision."`

	connection
}

// run implements Command.
func (f *queuesUpdateCommand) run(ctx context.Context, c *console) error {
	u := client.QueueUpdate{
		Revision: f.Revision, DeadQueue: f.DeadQueue, Reference: f.Reference, LeaseTimeout: f.LeaseTimeout,
		MaxAttempts: f.MaxAttempts, MaxRecoveries: f.MaxRecoveries, ExpireTimeout: f.ExpireTimeout, KeepEnded: f.KeepEnded,
		ParkAfter:  f.ParkAfter,
		Partitions: f.Partitions,
	}
	if u == (client.QueueUpdate{Revision: f.Revision}) {
		return usagef("nothing to change was given")
	}
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		if err := cl.UpdateQueue(ctx, f.Queue, u); err != nil {
			return err
		}
		return f.show(ctx, c, cl, f.Queue)
	})
}

type queuesDeleteCommand struct {
	Queue string `arg:"" help:"The queue."`
	Force bool   `help:"Also if it holds items, which are cancelled, or has a subscription, which is deleted."`
	Yes   bool   `short:"y" help:"Do not ask."`

	connection
}

// run implements Command.
func (f *queuesDeleteCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		if f.Force && !f.Yes {
			s, err := cl.Stats(ctx, f.Queue)
			if err != nil {
				return err
			}
			if err := c.confirm(ctx, false, fmt.Sprintf("Delete %s with %s, and its subscription if it has one?", f.Queue, plural(s.Total, "item"))); err != nil {
				return err
			}
		}
		if err := cl.DeleteQueue(ctx, f.Queue, f.Force); err != nil {
			return err
		}
		return f.done(c, map[string]string{"queue_name": f.Queue}, "%s deleted", f.Queue)
	})
}

// sideFlag says what a pause is about.
type sideFlag struct {
	Queue string `arg:"" help:"The queue."`
	Side  string `enum:"lease,produce,both" default:"both" help:"${enum}: leases and pushes, new items, or both."`
}

type queuesPauseCommand struct {
	sideFlag
	connection
}

// run implements Command.
func (f *queuesPauseCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		if err := cl.PauseQueue(ctx, f.Queue, client.Side(f.Side)); err != nil {
			return err
		}
		return f.pauseState(ctx, c, cl, f.Queue)
	})
}

type queuesResumeCommand struct {
	sideFlag
	connection
}

// run implements Command.
func (f *queuesResumeCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		if err := cl.ResumeQueue(ctx, f.Queue, client.Side(f.Side)); err != nil {
			return err
		}
		return f.pauseState(ctx, c, cl, f.Queue)
	})
}

// pauseState says what is paused now: the other side may be, still.
func (f *connection) pauseState(ctx context.Context, c *console, cl *client.Client, queue string) error {
	q, err := cl.GetQueue(ctx, queue)
	if err != nil {
		return err
	}
	state := "nothing is paused"
	if q.Pause != "" {
		state = "paused: " + q.Pause
	}
	return f.done(c, queueViewOf(q), "%s: %s", queue, state)
}

type queuesClearCommand struct {
	Queue     string `arg:"" help:"The queue."`
	Ready     bool   `help:"What could be leased, and what stands behind its ordering key."`
	Scheduled bool   `help:"What is not yet due."`
	Leased    bool   `help:"What is leased; its receipts turn stale."`
	Yes       bool   `short:"y" help:"Do not ask."`

	connection
}

// run implements Command.
func (f *queuesClearCommand) run(ctx context.Context, c *console) error {
	if !f.Ready && !f.Scheduled && !f.Leased {
		return usagef("say what to clear: --ready, --scheduled, --leased, or several of them")
	}
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		s, err := cl.Stats(ctx, f.Queue)
		if err != nil {
			return err
		}
		about := 0
		for _, part := range []struct {
			wanted bool
			n      int
		}{{f.Ready, s.Ready() + s.Behind}, {f.Scheduled, s.Scheduled}, {f.Leased, s.Leased}} {
			if part.wanted {
				about += part.n
			}
		}
		if err := c.confirm(ctx, f.Yes, fmt.Sprintf("Cancel about %s of %s? They are erased and not delivered.", plural(about, "item"), f.Queue)); err != nil {
			return err
		}
		total := 0
		for more := true; more; {
			var n int
			n, more, err = cl.ClearQueue(ctx, f.Queue, client.ClearParams{Scheduled: f.Scheduled, Ready: f.Ready, Leased: f.Leased})
			if err != nil {
				return partly(total, "cancelled", err)
			}
			total += n
		}
		return f.done(c, countView{Count: total}, "%s cancelled", plural(total, "item"))
	})
}

// partly says what was done before an error.
func partly(n int, done string, err error) error {
	if n == 0 {
		return err
	}
	return fmt.Errorf("%s %s; then: %w", plural(n, "item"), done, err)
}

type queuesStatsCommand struct {
	Queue []string `arg:"" optional:"" help:"Queues; all of them if none is given."`
	connection
}

// run implements Command.
func (f *queuesStatsCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		counted, err := countQueues(ctx, cl, f.Queue)
		if err != nil {
			return err
		}
		rows := newTable(rowHead...)
		for _, q := range counted {
			if f.JSON {
				if err := c.object(statsViewOf(q.name, q.Stats)); err != nil {
					return err
				}
				continue
			}
			rows.add(q.row()...)
		}
		if f.JSON {
			return nil
		}
		return rows.print(c)
	})
}

type queuesReloadCommand struct {
	Queue string `arg:"" help:"The queue."`
	connection
}

// run implements Command.
func (f *queuesReloadCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		if err := cl.ReloadQueue(ctx, f.Queue); err != nil {
			return err
		}
		return f.done(c, map[string]string{"queue_name": f.Queue}, "%s: read again", f.Queue)
	})
}
