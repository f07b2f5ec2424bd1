package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// attemptsCommands read the attempt log.
type attemptsCommands struct {
	List attemptsListCommand `cmd:"" help:"List attempts, lapsed leases and ends of items, the newest first."`
}

type attemptsListCommand struct {
	Item         string `placeholder:"ID" help:"Of this item only."`
	Subscription string `placeholder:"SUBSCRIPTION" help:"Of this subscription only."`
	Queue        string `placeholder:"QUEUE" help:"Of this queue only."`
	Verdict      string `placeholder:"WORD" help:"Of this verdict only: delivered, deferred, retryable, throttled, rejected, gone, blocked or aborted, or for ends their reason, such as cancelled."`
	Type         string `enum:",attempt,lapse,ending,outcome" default:"" placeholder:"TYPE" help:"attempt, lapse, ending or outcome only: a request, a lease that ended without an outcome, the end of an item, or what an endpoint that finishes later did without ending it."`
	Since        moment `placeholder:"TIME" help:"From this instant on, such as 2030-01-31T08:00:00Z, or from so long ago, such as 15m."`
	Until        moment `placeholder:"TIME" help:"Before this instant, or before so long ago."`
	OldestFirst  bool   `help:"The oldest first."`
	Limit        int    `default:"100" help:"At most so many; 0 is all."`
	connection
}

// attemptsPage is how many a call brings at most: their answers come along.
const attemptsPage = 1000

// run implements Command.
func (f *attemptsListCommand) run(ctx context.Context, c *console) error {
	if f.Limit < 0 {
		return usagef("--limit %d: want 0 or more", f.Limit)
	}
	now := time.Now()
	filter := client.AttemptFilter{
		ItemID: f.Item, Subscription: f.Subscription, Queue: f.Queue, Verdict: f.Verdict, Type: f.Type,
		From: f.Since.time(now), To: f.Until.time(now), OldestFirst: f.OldestFirst, PageSize: attemptsPage,
	}
	if f.Limit > 0 {
		filter.PageSize = min(f.Limit+1, attemptsPage) // one more tells that there are more
	}
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		rows := newTable("at", "type", "verdict", ">status", ">took", "next", "queue", "subscription", "item", ">attempt", "error")
		n := 0
		for a, err := range cl.Attempts(ctx, filter) {
			if err != nil {
				return err
			}
			if f.Limit > 0 && n == f.Limit {
				c.note("there are more; --limit 0 lists all")
				break
			}
			n++
			if f.JSON {
				if err := c.object(attemptViewOf(a)); err != nil {
					return err
				}
				continue
			}
			rows.add(attemptRow(a)...)
		}
		if f.JSON {
			return nil
		}
		return rows.print(c)
	})
}

func attemptRow(a client.Attempt) []cell {
	took := ""
	if a.Type == "attempt" {
		took = shortSpan(a.Duration)
	}
	return []cell{
		{text: a.At.UTC().Format(timeMillis)},
		{text: a.Type},
		{a.Verdict, verdictColour(a)},
		{text: count(a.Status)},
		{text: took},
		{text: nextText(a)},
		{text: a.Queue},
		{text: a.Subscription},
		{text: a.ItemID},
		{text: strconv.Itoa(a.Attempt)},
		{text: a.Error},
	}
}

// timeMillis is RFC 3339 with as much of a second as people tell apart.
const timeMillis = "2006-01-02T15:04:05.000Z07:00"

// nextText says what became of the item.
func nextText(a client.Attempt) string {
	if a.NextAt.IsZero() {
		return a.Next
	}
	return fmt.Sprintf("%s in %s", a.Next, shortSpan(max(a.NextAt.Sub(a.At), 0)))
}

// isFailure says whether a line of the log is about something that did not go well.
func isFailure(a client.Attempt) bool {
	switch a.Type {
	case "attempt":
		return a.Verdict != "delivered" && a.Verdict != "deferred"
	case "ending":
		return a.Next == "bury"
	default:
		return true
	}
}

func verdictColour(a client.Attempt) colour {
	switch {
	case a.Next == "bury", a.Verdict == "gone":
		return red
	case isFailure(a):
		return yellow
	case a.Verdict == "delivered":
		return green
	default:
		return plain
	}
}

type attemptView struct {
	ItemID       string    `json:"item_id"`
	QueueName    string    `json:"queue_name"`
	Subscription string    `json:"subscription,omitempty"`
	Attempt      int       `json:"attempt"`
	Type         string    `json:"type"`
	At           time.Time `json:"at,omitzero"`
	StartedAt    time.Time `json:"started_at,omitzero"`
	Duration     span      `json:"duration,omitempty"`
	Verdict      string    `json:"verdict"`
	Status       int       `json:"status,omitempty"`
	Error        string    `json:"error,omitempty"`
	Response     []byte    `json:"response,omitempty"`
	Next         string    `json:"next,omitempty"`
	NextAt       time.Time `json:"next_at,omitzero"`
	Node         string    `json:"node,omitempty"`
}

func attemptViewOf(a client.Attempt) attemptView {
	return attemptView{
		ItemID: a.ItemID, QueueName: a.Queue, Subscription: a.Subscription, Attempt: a.Attempt, Type: a.Type,
		At: a.At, StartedAt: a.StartedAt, Duration: span(a.Duration), Verdict: a.Verdict, Status: a.Status,
		Error: a.Error, Response: a.Response, Next: a.Next, NextAt: a.NextAt, Node: a.Node,
	}
}
