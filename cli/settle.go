package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// receipts are what settles.
type receipts struct {
	Receipt []string `arg:"" help:"Receipts of leased items; - reads them from standard input, with space between them."`
}

// read returns the receipts.
func (f *receipts) read(ctx context.Context, c *console) ([]string, error) {
	if !slices.Equal(f.Receipt, []string{"-"}) {
		return f.Receipt, nil
	}
	var out []string
	if err := c.read(ctx, func(in io.Reader) error {
		words := bufio.NewScanner(in)
		words.Split(bufio.ScanWords)
		for words.Scan() {
			out = append(out, words.Text())
		}
		return words.Err()
	}); err != nil {
		return nil, fmt.Errorf("receipts: %w", err)
	}
	if len(out) == 0 {
		return nil, usagef("standard input has no receipt")
	}
	return out, nil
}

// completeCommand ends leases well.
type completeCommand struct {
	receipts
	Result string `placeholder:"TEXT" help:"What came of the work, kept with the items for the queue's --keep-ended; 4096 bytes at most."`

	connection
}

// run implements Command.
func (f *completeCommand) run(ctx context.Context, c *console) error {
	return f.settle(ctx, c, &f.receipts, "completed", func(ctx context.Context, cl *client.Client, receipts []string) ([]client.SettleResult, error) {
		if f.Result == "" {
			return nil, cl.Complete(ctx, receipts...)
		}
		done := make([]client.Completion, len(receipts))
		for i, receipt := range receipts {
			done[i] = client.Completion{Receipt: receipt, Result: []byte(f.Result)}
		}
		return nil, cl.CompleteWith(ctx, done...)
	})
}

// retryCommand gives items back, counted.
type retryCommand struct {
	receipts
	Delay  time.Duration `help:"Try again after so long; at once if it is left out."`
	At     time.Time     `placeholder:"TIME" help:"Try again at this instant, such as 2030-01-31T08:00:00Z."`
	Reason string        `placeholder:"TEXT" help:"Why, kept with the items; 500 bytes at most."`

	connection
}

// run implements Command.
func (f *retryCommand) run(ctx context.Context, c *console) error {
	if f.Delay != 0 && !f.At.IsZero() {
		return usagef("--delay and --at: want one of them")
	}
	return f.settle(ctx, c, &f.receipts, "to be tried again", func(ctx context.Context, cl *client.Client, receipts []string) ([]client.SettleResult, error) {
		retries := make([]client.Retry, len(receipts))
		for i, receipt := range receipts {
			retries[i] = client.Retry{Receipt: receipt, At: f.At, Delay: f.Delay, Reason: f.Reason}
		}
		return cl.Retry(ctx, retries...)
	})
}

// releaseCommand gives items back, uncounted.
type releaseCommand struct {
	receipts
	Delay time.Duration `help:"Not to be leased before so long; to where they stood if it is left out."`

	connection
}

// run implements Command.
func (f *releaseCommand) run(ctx context.Context, c *console) error {
	return f.settle(ctx, c, &f.receipts, "released", func(ctx context.Context, cl *client.Client, receipts []string) ([]client.SettleResult, error) {
		return nil, cl.Release(ctx, f.Delay, receipts...)
	})
}

// buryCommand moves items to the dead-letter queue.
type buryCommand struct {
	receipts
	Reason string `placeholder:"TEXT" help:"Why, kept with the items; 500 bytes at most."`

	connection
}

// run implements Command.
func (f *buryCommand) run(ctx context.Context, c *console) error {
	return f.settle(ctx, c, &f.receipts, "buried", func(ctx context.Context, cl *client.Client, receipts []string) ([]client.SettleResult, error) {
		return nil, cl.Bury(ctx, f.Reason, receipts...)
	})
}

// extendCommand gets more time.
type extendCommand struct {
	receipts
	LeaseTimeout time.Duration `placeholder:"DURATION" help:"From now. Default is the queue's."`

	connection
}

// run implements Command.
func (f *extendCommand) run(ctx context.Context, c *console) error {
	return f.settle(ctx, c, &f.receipts, "extended", func(ctx context.Context, cl *client.Client, receipts []string) ([]client.SettleResult, error) {
		return cl.Extend(ctx, f.LeaseTimeout, receipts...)
	})
}

type settling func(ctx context.Context, cl *client.Client, receipts []string) ([]client.SettleResult, error)

// settle does what is asked of all receipts, and prints what became of each.
func (f *connection) settle(ctx context.Context, c *console, r *receipts, done string, do settling) error {
	receipts, err := r.read(ctx, c)
	if err != nil {
		return err
	}
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		results, err := do(ctx, cl, receipts)
		if refused, ok := errors.AsType[*client.Error](err); ok {
			results = refused.Results
		} else if err == nil && len(results) == 0 {
			for _, receipt := range receipts {
				results = append(results, client.SettleResult{Receipt: receipt, Status: "ok"})
			}
		}
		// The server repeats a receipt where it was not settled.
		for i := range results {
			if i < len(receipts) {
				results[i].Receipt = receipts[i]
			}
		}
		if e := f.printResults(c, results, done, time.Now()); e != nil {
			return e
		}
		lost := 0
		for _, result := range results {
			if !result.OK() {
				lost++
			}
		}
		if err == nil && lost > 0 { // extend, which takes each by itself
			return &statusError{fmt.Errorf("%s lost", plural(lost, "lease")), exitFailed}
		}
		return err
	})
}

func (f *connection) printResults(c *console, results []client.SettleResult, done string, now time.Time) error {
	rows := newTable("receipt", "result")
	for _, r := range results {
		if f.JSON {
			if err := c.object(settledView(r)); err != nil {
				return err
			}
			continue
		}
		result := cell{done, green}
		switch {
		case !r.OK():
			result = cell{r.Status, red}
		case r.Buried:
			result = cell{"buried", yellow}
		case !r.LeaseDeadline.IsZero():
			result.text += " to " + when(r.LeaseDeadline, now)
		case !r.AvailableAt.IsZero():
			result.text += " " + when(r.AvailableAt, now)
		}
		rows.add(cell{text: r.Receipt}, result)
	}
	if f.JSON || len(results) == 0 {
		return nil
	}
	return rows.print(c)
}
