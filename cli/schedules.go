package cli

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// schedulesCommands look after schedules.
type schedulesCommands struct {
	List    schedulesListCommand    `cmd:"" help:"List schedules by name."`
	Info    schedulesInfoCommand    `cmd:"" help:"Show a schedule, when it fires next and what it did last."`
	Create  schedulesCreateCommand  `cmd:"" help:"Put an item on a queue at each time of a cron expression."`
	Update  schedulesUpdateCommand  `cmd:"" help:"Change what is given, and nothing else."`
	Delete  schedulesDeleteCommand  `cmd:"" help:"Delete a schedule. Items that it has produced stay."`
	Pause   schedulesPauseCommand   `cmd:"" help:"Stop fires until it is resumed."`
	Resume  schedulesResumeCommand  `cmd:"" help:"End a pause. What passed meanwhile is not made up for."`
	Trigger schedulesTriggerCommand `cmd:"" help:"Produce the item of a schedule now, beside its times, and print the item's id."`
	Preview schedulesPreviewCommand `cmd:"" help:"Print when a schedule fires next, in its zone, and what is odd about it because clocks change: one that is there, or one of a --cron."`
}

type schedulesListCommand struct{ connection }

// run implements Command.
func (f *schedulesListCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		rows, now := newTable("schedule", "queue", "cron", "zone", "state", "next", ">missed"), time.Now()
		for s, err := range cl.Schedules(ctx) {
			if err != nil {
				return err
			}
			if f.JSON {
				if err := c.object(scheduleViewOf(s)); err != nil {
					return err
				}
				continue
			}
			rows.add(cell{text: s.Name}, cell{text: s.Queue}, cell{text: s.Cron}, cell{text: s.Zone}, scheduleState(s),
				cell{text: when(s.NextAt, now)}, cell{text: count(s.MissedCount)})
		}
		if f.JSON {
			return nil
		}
		return rows.print(c)
	})
}

// scheduleName is what most commands take.
type scheduleName struct {
	Schedule string `arg:"" help:"The schedule."`
}

type schedulesInfoCommand struct {
	scheduleName
	connection
}

// run implements Command.
func (f *schedulesInfoCommand) run(ctx context.Context, c *console) error {
	return f.schedule(ctx, c, func(ctx context.Context, cl *client.Client) (client.Schedule, error) {
		return cl.GetSchedule(ctx, f.Schedule)
	})
}

// schedule prints what a call answers.
func (f *connection) schedule(ctx context.Context, c *console, do func(context.Context, *client.Client) (client.Schedule, error)) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		s, err := do(ctx, cl)
		if err != nil {
			return err
		}
		if f.JSON {
			return c.object(scheduleViewOf(s))
		}
		return scheduleRecord(s, time.Now()).print(c)
	})
}

type schedulesCreateCommand struct {
	Schedule string  `arg:"" help:"Its name."`
	Queue    string  `arg:"" help:"The queue that its items go to."`
	Cron     string  `arg:"" help:"When it fires: \"30 9 * * MON-FRI\", which is minute, hour, day of month, month and day of week, or six fields with seconds first, or @hourly, @daily, @weekly, @monthly, @yearly, \"@every 90s\"."`
	Payload  *string `arg:"" optional:"" help:"The payload of each item. In it {{nominal_at}}, {{fired_at}} and {{schedule}} stand for the time of the expression, the time of the fire and the name. Without it and --file it is empty."`
	File     string  `short:"f" placeholder:"FILE" help:"Read the payload from this file; - is standard input."`
	Zone     string  `placeholder:"ZONE" help:"The time zone, by its name in the tz database, such as Europe/Berlin. Default UTC."`
	Paused   bool    `help:"Fire not before it is resumed."`

	scheduleFlags
	connection
}

// run implements Command.
func (f *schedulesCreateCommand) run(ctx context.Context, c *console) error {
	s := client.Schedule{Name: f.Schedule, Queue: f.Queue, Cron: f.Cron, Zone: f.Zone, Paused: f.Paused}
	if err := f.check(); err != nil {
		return err
	}
	payload, err := payloadOr(ctx, c, f.Payload, f.File)
	if err != nil {
		return err
	}
	f.set(&s)
	f.changeItem(&s.Item)
	s.Item.Payload, s.Item.Encoding = payload, cmp.Or(f.Encoding, encodingOf(payload))
	f.setMissed(&s.Missed)
	return f.schedule(ctx, c, func(ctx context.Context, cl *client.Client) (client.Schedule, error) {
		return cl.CreateSchedule(ctx, s)
	})
}

type schedulesUpdateCommand struct {
	scheduleName
	Queue    string  `placeholder:"QUEUE" help:"The queue that its items go to."`
	Cron     string  `placeholder:"CRON" help:"When it fires. The next time is reckoned anew from now."`
	Zone     string  `placeholder:"ZONE" help:"The time zone, by its name in the tz database."`
	Payload  *string `placeholder:"TEXT" help:"The payload of each item."`
	File     string  `short:"f" placeholder:"FILE" help:"Read the payload from this file; - is standard input."`
	Revision string  `placeholder:"TEXT" help:"Refuse the change unless this is still the schedule's revision."`

	scheduleFlags
	connection
}

// run implements Command.
func (f *schedulesUpdateCommand) run(ctx context.Context, c *console) error {
	if err := f.check(); err != nil {
		return err
	}
	u := f.update()
	item := f.givesPayload() || f.givesItem()
	if reflect.DeepEqual(u, client.ScheduleUpdate{}) && !item {
		return usagef("nothing to change was given")
	}
	u.Revision = f.Revision
	payload, err := payloadOr(ctx, c, f.Payload, f.File)
	if err != nil {
		return err
	}
	return f.schedule(ctx, c, func(ctx context.Context, cl *client.Client) (client.Schedule, error) {
		if item {
			return f.changeItem(ctx, cl, u, payload)
		}
		return cl.UpdateSchedule(ctx, f.Schedule, u)
	})
}

func (f *schedulesUpdateCommand) givesPayload() bool { return f.Payload != nil || f.File != "" }

// update is what is changed by itself.
func (f *schedulesUpdateCommand) update() client.ScheduleUpdate {
	var s client.Schedule
	f.set(&s)
	return client.ScheduleUpdate{
		Cron: f.Cron, Zone: f.Zone, Queue: f.Queue, ClocksForward: s.ClocksForward, ClocksBack: s.ClocksBack,
		Overlap: s.Overlap, Jitter: f.Jitter, StartAt: (*time.Time)(f.StartAt), EndAt: (*time.Time)(f.EndAt), Labels: s.Labels,
		Missed: client.MissedUpdate{Policy: f.Missed, Max: f.MissedMax, Grace: f.MissedGrace},
	}
}

// changeItem updates the item as well, which is replaced whole: what is there, with what was
// given in its place.
func (f *schedulesUpdateCommand) changeItem(ctx context.Context, cl *client.Client, u client.ScheduleUpdate, payload []byte) (client.Schedule, error) {
	s, err := cl.GetSchedule(ctx, f.Schedule)
	if err != nil {
		return client.Schedule{}, err
	}
	u.Revision = cmp.Or(f.Revision, s.Revision) // so that it is what was there
	u.Item = &s.Item
	f.changePayload(u.Item, payload)
	f.scheduleFlags.changeItem(u.Item)
	return cl.UpdateSchedule(ctx, f.Schedule, u)
}

func (f *schedulesUpdateCommand) changePayload(it *client.Item, payload []byte) {
	if !f.givesPayload() {
		return
	}
	if it.Encoding == encodingOf(it.Payload) {
		it.Encoding = encodingOf(payload) // the one before was a guess as well
	}
	it.Payload = payload
}

type schedulesDeleteCommand struct {
	scheduleName
	Yes bool `short:"y" help:"Do not ask."`

	connection
}

// run implements Command.
func (f *schedulesDeleteCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		if err := c.confirm(ctx, f.Yes, fmt.Sprintf("Delete %s? A pause can be undone, and this cannot.", f.Schedule)); err != nil {
			return err
		}
		if err := cl.DeleteSchedule(ctx, f.Schedule); err != nil {
			return err
		}
		return f.done(c, map[string]string{"name": f.Schedule}, "%s deleted", f.Schedule)
	})
}

type schedulesPauseCommand struct {
	scheduleName
	connection
}

// run implements Command.
func (f *schedulesPauseCommand) run(ctx context.Context, c *console) error {
	return f.fires(ctx, c, (*client.Client).PauseSchedule, f.Schedule)
}

type schedulesResumeCommand struct {
	scheduleName
	connection
}

// run implements Command.
func (f *schedulesResumeCommand) run(ctx context.Context, c *console) error {
	return f.fires(ctx, c, (*client.Client).ResumeSchedule, f.Schedule)
}

// fires does one of pause and resume, and says when the schedule fires then.
func (f *connection) fires(ctx context.Context, c *console, do func(*client.Client, context.Context, string) (client.Schedule, error), name string) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		s, err := do(cl, ctx, name)
		if err != nil {
			return err
		}
		text := scheduleState(s).text
		if !s.NextAt.IsZero() {
			text += ", next " + when(s.NextAt, time.Now())
		}
		return f.done(c, scheduleViewOf(s), "%s: %s", s.Name, text)
	})
}

type schedulesTriggerCommand struct {
	scheduleName
	Key string `placeholder:"TEXT" help:"An idempotency key: a second call with it answers the item of the first, for 24 hours."`

	connection
}

// run implements Command.
func (f *schedulesTriggerCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		made, err := cl.TriggerSchedule(ctx, f.Schedule, client.Trigger{IdempotencyKey: f.Key})
		if err != nil {
			return err
		}
		return f.done(c, triggeredView{made.ItemID, made.Duplicate}, "%s", made.ItemID)
	})
}

type schedulesPreviewCommand struct {
	Schedule string    `arg:"" optional:"" help:"The schedule. Without it --cron and the other flags say it."`
	Cron     string    `placeholder:"CRON" help:"When it would fire, such as \"30 2 * * *\"."`
	Zone     string    `placeholder:"ZONE" help:"The time zone, by its name in the tz database. Default UTC."`
	StartAt  time.Time `placeholder:"TIME" help:"No fires before this instant."`
	EndAt    time.Time `placeholder:"TIME" help:"No fires from this instant on."`
	Count    int       `short:"n" default:"10" help:"How many, 1 to 1000."`
	From     time.Time `placeholder:"TIME" help:"After this instant, such as 2030-01-31T08:00:00Z. Default now."`

	clocksFlags
	connection
}

// run implements Command.
func (f *schedulesPreviewCommand) run(ctx context.Context, c *console) error {
	described := f.Cron != "" || f.Zone != "" || !f.StartAt.IsZero() || !f.EndAt.IsZero() || f.clocksFlags != clocksFlags{}
	switch {
	case f.Schedule == "" && f.Cron == "":
		return usagef("say which: a schedule's name, or --cron")
	case f.Schedule != "" && described:
		return usagef("a schedule and flags that describe another: want one of them")
	}
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		fires, err := cl.PreviewSchedule(ctx, client.PreviewParams{
			Name: f.Schedule, Cron: f.Cron, Zone: f.Zone, ClocksForward: f.ClocksForward, ClocksBack: f.ClocksBack,
			StartAt: f.StartAt, EndAt: f.EndAt, Count: f.Count, From: f.From,
		})
		if err != nil {
			return err
		}
		rows := newTable("local time", "note")
		for _, fire := range fires {
			if f.JSON {
				if err := c.object(fireView(fire)); err != nil {
					return err
				}
				continue
			}
			rows.add(cell{text: fire.Local}, cell{fire.Note, yellow})
		}
		if f.JSON {
			return nil
		}
		return rows.print(c)
	})
}
