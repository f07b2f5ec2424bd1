package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// redriveCommand moves buried items back.
type redriveCommand struct {
	Queue  string     `arg:"" help:"The dead-letter queue, such as orders~dead."`
	Item   []string   `placeholder:"ID" help:"These items only. May be repeated."`
	Kind   string     `placeholder:"KIND" help:"Of this kind only."`
	Reason string     `placeholder:"WORD" help:"Buried for this reason only, such as max_attempts."`
	Before time.Time  `placeholder:"TIME" help:"Buried before this instant only, such as 2030-01-31T08:00:00Z."`
	From   string     `placeholder:"QUEUE" help:"Buried by this queue only."`
	To     string     `placeholder:"QUEUE" help:"Where to, a queue or a topic. Default is where each came from."`
	Limit  int        `placeholder:"N" help:"At most so many, up to 100000. Default is all."`
	Rate   *perPeriod `placeholder:"N/PERIOD" help:"Spread them, such as 100/s or 30/m: each is due so much after the one before it. Default is all at once."`
	DryRun bool       `short:"n" help:"Count what would be moved, and move nothing."`
	connection
}

// redriveView is what --json prints.
type redriveView struct {
	Moved   int       `json:"moved"`
	Skipped int       `json:"skipped"`
	More    bool      `json:"more"`
	DryRun  bool      `json:"dry_run"`
	Until   time.Time `json:"until,omitzero"`
}

// mostRedriven is the most that one call moves or counts.
const mostRedriven = 100_000

// longestSpread is over how long one call spreads items at most.
const longestSpread = 720 * time.Hour

// mostWithin is how many items one call may spread at a rate.
func mostWithin(r client.Rate) int {
	every := max(r.Period/time.Duration(r.Count), 1)
	return int(max(min(longestSpread/every, mostRedriven), 1))
}

func (f *redriveCommand) spreads() bool { return f.Rate != nil && f.Rate.Count > 0 && !f.DryRun }

// run implements Command.
func (f *redriveCommand) run(ctx context.Context, c *console) error {
	if f.Limit < 0 {
		return usagef("--limit %d: want 1 to %d", f.Limit, mostRedriven)
	}
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		params := client.RedriveParams{
			ItemIDs: f.Item, Kind: f.Kind, Reason: f.Reason, Before: f.Before, From: f.From, Limit: f.Limit, DryRun: f.DryRun, Target: f.To,
		}
		switch {
		case f.DryRun && f.Limit == 0:
			params.Limit = mostRedriven
		case f.spreads():
			params.Rate = client.Rate(*f.Rate)
			if f.Limit == 0 {
				params.Limit = mostWithin(params.Rate)
			}
		}
		v := redriveView{DryRun: f.DryRun}
		for again := true; again; {
			done, err := cl.Redrive(ctx, f.Queue, params)
			if err != nil {
				return partly(v.Moved, "moved", err)
			}
			v.Moved += done.Moved
			v.Skipped, v.More, v.Until = done.Skipped, done.More, done.Until
			// A dry run would count the same ones again, and so does one that moves none.
			again = done.More && f.Limit == 0 && !f.DryRun && done.Moved > 0
			if !again || !f.spreads() {
				continue
			}
			// The next call begins to spread at once, so it is for after those.
			c.note("%s moved; the next ones follow when the last of them is due, %s", plural(v.Moved, "item"), when(done.Until, time.Now()))
			if err := wait(ctx, time.Until(done.Until)); err != nil {
				return partly(v.Moved, "moved", err)
			}
		}
		return f.tell(c, v)
	})
}

func (f *redriveCommand) tell(c *console, v redriveView) error {
	if f.JSON {
		return c.object(v)
	}
	where := "to where they came from"
	if f.To != "" {
		where = "to " + f.To
	}
	text := fmt.Sprintf("%s moved %s", plural(v.Moved, "item"), where)
	if v.DryRun {
		text = fmt.Sprintf("%s would be moved %s", plural(v.Moved, "item"), where)
	}
	if !v.Until.IsZero() {
		text += "; the last of them is due " + when(v.Until, time.Now())
	}
	if v.Skipped > 0 {
		text += fmt.Sprintf("; %d left where they are: leased, in the target already, without a queue to go to, or wanted by nobody", v.Skipped)
	}
	if v.More {
		text += "; there are more"
	}
	return c.printf("%s\n", printable(text))
}

// wait waits, and says why if it was not to the end.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
