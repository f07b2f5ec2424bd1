package cli

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// itemsCommands look at single items.
type itemsCommands struct {
	Info   itemsInfoCommand   `cmd:"" help:"Tell where an item is, and the one reason why it is not delivered yet."`
	Wait   itemsWaitCommand   `cmd:"" help:"Wait until an item has ended. Exit status 0: completed; 1: cancelled or buried; 5: not yet."`
	Cancel itemsCancelCommand `cmd:"" help:"End items without delivering them, by id, or by --queue and what else must apply; they are erased, leased ones too."`
	List   itemsListCommand   `cmd:"" help:"List what a queue holds, in its order."`
}

type itemsInfoCommand struct {
	Item  string `arg:"" help:"The item's id."`
	Queue string `placeholder:"QUEUE" help:"Look in this queue only."`
	connection
}

// run implements Command.
func (f *itemsInfoCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		infos, err := cl.ItemInfo(ctx, f.Item, f.Queue)
		if err != nil {
			return err
		}
		return f.infos(c, f.Item, infos)
	})
}

// infos prints where an item is, a block for each queue.
func (f *connection) infos(c *console, id string, infos []client.ItemInfo) error {
	for i, info := range infos {
		if f.JSON {
			if err := c.object(itemInfoViewOf(id, info)); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			if err := c.printf("\n"); err != nil {
				return err
			}
		}
		if err := itemRecord(id, info, time.Now()).print(c); err != nil {
			return err
		}
	}
	return nil
}

func itemRecord(id string, i client.ItemInfo, now time.Time) *record {
	r := new(record)
	r.set("item", id)
	r.set("queue", i.Queue)
	r.paint("state", i.State, itemColour(i.State))
	r.set("why", i.Why)
	r.set("message", i.Message)
	r.set("next at", when(i.NextAt, now))
	r.set("ended", when(i.EndedAt, now))
	r.set("deliveries", count(i.Deliveries))
	r.set("attempts", count(i.Attempts))
	r.set("recoveries", count(i.Recoveries))
	r.set("last status", count(i.LastStatus))
	r.paint("last error", i.LastError, red)
	r.set("subscription", i.Subscription)
	if len(i.Result) > 0 {
		r.set("result", excerpt(i.Result, shownPayload))
	}
	return r
}

func itemColour(state string) colour {
	switch state {
	case "completed":
		return green
	case "buried", "cancelled":
		return red
	default:
		return plain
	}
}

type itemsWaitCommand struct {
	Item  string        `arg:"" help:"The item's id."`
	Queue string        `placeholder:"QUEUE" help:"Its end in this queue only."`
	Wait  time.Duration `default:"1m" help:"How long, 10ms to 15m."`
	connection
}

// run implements Command.
func (f *itemsWaitCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		infos, err := cl.WaitItem(ctx, f.Item, f.Queue, f.Wait)
		if err != nil {
			return err
		}
		if err := f.infos(c, f.Item, infos); err != nil {
			return err
		}
		bad := ""
		for _, i := range infos {
			switch {
			case !i.Ended():
				return nothingf("%s: not ended within %s", f.Item, f.Wait)
			case i.State != "completed":
				bad = i.State
			}
		}
		if bad != "" {
			return &statusError{fmt.Errorf("%s: %s", f.Item, bad), exitFailed}
		}
		return nil
	})
}

type itemsCancelCommand struct {
	Item   []string  `arg:"" optional:"" help:"Ids of items; with --queue, their copies in that queue only."`
	Queue  string    `placeholder:"QUEUE" help:"Without ids: the items of this queue to which all of the following applies."`
	Kind   string    `placeholder:"KIND" help:"Of this kind."`
	State  string    `enum:",ready,scheduled,retrying,leased,lapsed,behind" default:"" placeholder:"STATE" help:"In this state: ready, scheduled, retrying, leased, lapsed or behind."`
	Before time.Time `placeholder:"TIME" help:"Created before this instant, such as 2030-01-31T08:00:00Z."`
	Yes    bool      `short:"y" help:"Do not ask."`
	connection
}

// run implements Command.
func (f *itemsCancelCommand) run(ctx context.Context, c *console) error {
	filtered := f.Kind != "" || f.State != "" || !f.Before.IsZero()
	switch {
	case len(f.Item) > 0 && filtered:
		return usagef("--kind, --state and --before are for --queue without ids")
	case len(f.Item) == 0 && f.Queue == "":
		return usagef("say which items: their ids, or --queue and what else must apply")
	}
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		if len(f.Item) == 0 {
			if err := c.confirm(ctx, f.Yes, f.question()); err != nil {
				return err
			}
			return f.matching(ctx, c, cl)
		}
		return f.byID(ctx, c, cl)
	})
}

func (f *itemsCancelCommand) question() string {
	what := "all items"
	if f.State != "" {
		what = "all " + f.State + " items"
	}
	if f.Kind != "" {
		what += " of kind " + f.Kind
	}
	what += " of " + f.Queue
	if !f.Before.IsZero() {
		what += " from before " + f.Before.UTC().Format(time.RFC3339)
	}
	return "Cancel " + what + "? They are erased and not delivered."
}

func (f *itemsCancelCommand) matching(ctx context.Context, c *console, cl *client.Client) error {
	total := 0
	for more := true; more; {
		done, err := cl.CancelMatching(ctx, client.ItemFilter{Queue: f.Queue, Kind: f.Kind, State: f.State, Before: f.Before})
		if err != nil {
			return partly(total, "cancelled", err)
		}
		total, more = total+done.Count, done.More
	}
	return f.done(c, countView{Count: total}, "%s cancelled", plural(total, "item"))
}

const (
	// maxIDs bounds the items and receipts of one call.
	maxIDs = 1000
	// cancelIDs is what the server does of a call however short the time: the rest would be
	// sent again, and what was cancelled of it be reported as not found.
	cancelIDs = 500
)

func (f *itemsCancelCommand) byID(ctx context.Context, c *console, cl *client.Client) error {
	var all countView
	for ids := range slices.Chunk(f.Item, cancelIDs) {
		for more := true; more; {
			done, err := cl.CancelItems(ctx, f.Queue, ids...)
			if err != nil {
				return partly(all.Count, "cancelled", err)
			}
			all.Count += done.Count
			if more = done.More; !more {
				all.NotFound = append(all.NotFound, done.NotFound...)
			}
		}
	}
	if err := f.done(c, all, "%s cancelled", plural(all.Count, "item")); err != nil {
		return err
	}
	if len(all.NotFound) > 0 {
		return &statusError{fmt.Errorf("not found: %s", printable(strings.Join(all.NotFound, " "))), exitFailed}
	}
	return nil
}

type itemsListCommand struct {
	Queue     string `arg:"" help:"The queue."`
	Scheduled bool   `help:"What is not yet due only."`
	Limit     int    `default:"100" help:"At most so many; 0 is all."`
	connection
}

// run implements Command.
func (f *itemsListCommand) run(ctx context.Context, c *console) error {
	if f.Limit < 0 {
		return usagef("--limit %d: want 0 or more", f.Limit)
	}
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		list := cl.Items
		if f.Scheduled {
			list = cl.ScheduledItems
		}
		rows := newTable("item", "state", "kind", ">attempts", ">size", "created", "next", "payload")
		more, err := f.each(list(ctx, f.Queue), func(it client.StoredItem) error {
			if f.JSON {
				return c.object(itemViewOf(it))
			}
			rows.add(itemRow(it, time.Now())...)
			return nil
		})
		if err != nil {
			return err
		}
		if !f.JSON {
			if err := rows.print(c); err != nil {
				return err
			}
		}
		if more {
			c.note("there are more; --limit 0 lists all")
		}
		return nil
	})
}

// each calls do with the items up to the limit, and says whether there are more.
func (f *itemsListCommand) each(items iter.Seq2[client.StoredItem, error], do func(client.StoredItem) error) (more bool, err error) {
	n := 0
	for it, err := range items {
		switch {
		case err != nil:
			return false, err
		case f.Limit > 0 && n == f.Limit:
			return true, nil
		}
		n++
		if err := do(it); err != nil {
			return false, err
		}
	}
	return false, nil
}

// rowPayload is how much of a payload stands in a table.
const rowPayload = 40

func itemRow(it client.StoredItem, now time.Time) []cell {
	next, state, attempts := "", cell{text: it.State}, it.Attempts
	switch {
	case it.Dead != nil:
		state, attempts = cell{"buried: " + it.Dead.Reason, red}, it.Dead.Attempts
		next = "from " + it.Dead.Queue + ", " + ago(it.Dead.At, now)
	case !it.LeaseDeadline.IsZero():
		next = "leased until " + shortWhen(it.LeaseDeadline, now)
	case !it.EnqueueAt.IsZero():
		next = "due " + shortWhen(it.EnqueueAt, now)
	}
	if it.State == "retrying" {
		state.colour = yellow
	}
	return []cell{
		{text: it.ItemID},
		state,
		{text: it.Kind},
		{text: strconv.Itoa(attempts)},
		{text: strconv.Itoa(len(it.Payload))},
		{text: ago(it.CreatedAt, now)},
		{text: next},
		{text: excerpt(it.Payload, rowPayload)},
	}
}

func shortWhen(at, now time.Time) string {
	if at.Before(now) {
		return ago(at, now)
	}
	return "in " + shortSpan(at.Sub(now))
}
