package cli

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// leaseCommand leases items and prints them with the receipts that settle them.
type leaseCommand struct {
	Queue        string        `arg:"" help:"The queue."`
	Batch        int           `short:"n" default:"1" help:"At most so many items, 1 to 1000."`
	Wait         time.Duration `default:"10s" help:"How long to wait for the first item, 10ms to 15m."`
	LeaseTimeout time.Duration `placeholder:"DURATION" help:"How long the lease lasts. Default is the queue's."`
	ClientID     string        `name:"client-id" placeholder:"NAME" help:"Names the consumer; it can wait once at a time."`

	connection
}

// run implements Command.
func (f *leaseCommand) run(ctx context.Context, c *console) error {
	if f.Batch < 1 || f.Batch > maxIDs {
		return usagef("--batch %d: want 1 to %d", f.Batch, maxIDs)
	}
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		items, err := cl.Lease(ctx, client.LeaseParams{
			Queue: f.Queue, BatchSize: f.Batch, Wait: f.Wait, LeaseTimeout: f.LeaseTimeout, ClientID: f.ClientID,
		})
		if err != nil {
			return err
		}
		if len(items) == 0 {
			return nothingf("%s: no item came within %s", f.Queue, f.Wait)
		}
		if err = f.print(c, items, time.Now()); err == nil {
			err = c.flush()
		}
		if err != nil {
			return errors.Join(err, giveBack(ctx, cl, items))
		}
		return nil
	})
}

// giveBackTime bounds the call of giveBack.
const giveBackTime = 5 * time.Second

// giveBack releases what nobody has the receipts of: it would be held until its lease
// lapsed, and count as a consumer that died of it.
func giveBack(ctx context.Context, cl *client.Client, items []client.Leased) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	receipts := make([]string, len(items))
	for i := range items {
		receipts[i] = items[i].Receipt
	}
	return cl.Release(ctx, 0, receipts...)
}

func (f *leaseCommand) print(c *console, items []client.Leased, now time.Time) error {
	if f.JSON {
		for _, it := range items {
			if err := c.object(leasedViewOf(it)); err != nil {
				return err
			}
		}
		return nil
	}
	if !c.shown {
		rows := newTable()
		for _, it := range items {
			rows.add(cells(it.Receipt, it.ItemID, it.Kind, strconv.Itoa(it.Deliveries), string(it.Payload))...)
		}
		return rows.print(c)
	}
	for i, it := range items {
		if i > 0 {
			if err := c.printf("\n"); err != nil {
				return err
			}
		}
		if err := leasedRecord(it, now).print(c); err != nil {
			return err
		}
	}
	return nil
}

// shownPayload is how much of a payload is shown to people.
const shownPayload = 400

func leasedRecord(it client.Leased, now time.Time) *record {
	r := new(record)
	r.set("item", it.ItemID)
	r.paint("receipt", it.Receipt, bold)
	r.set("kind", it.Kind)
	r.set("reference", it.Reference)
	r.set("encoding", it.Encoding)
	for name, value := range sorted(it.Headers) {
		r.set("header", name+": "+value)
	}
	if it.Deliveries > 1 {
		r.paint("leased", "for the "+ordinal(it.Deliveries)+" time", yellow)
	}
	r.paint("last error", it.LastError, red)
	r.set("created", when(it.CreatedAt, now))
	r.set("deadline", when(it.LeaseDeadline, now))
	r.set("payload", excerpt(it.Payload, shownPayload))
	return r
}

// ordinal writes 1st, 2nd, 3rd, 4th.
func ordinal(n int) string {
	suffix := "th"
	if tens := n % 100; tens < 11 || tens > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}
