package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// scheduleFlags are what create and update have in common.
type scheduleFlags struct {
	scheduleItemFlags
	missedFlags
	clocksFlags
	Overlap string            `enum:",allow,skip,queue_one" default:"" placeholder:"POLICY" help:"While the item of the fire before is not done: allow one more, skip, or queue_one, which lets one wait while another is worked on. Default allow."`
	Jitter  *time.Duration    `placeholder:"DURATION" help:"Move all fires by the same time of up to so much, 24h at most, another one for each schedule; 0s moves none. Default 0s."`
	StartAt *instantFlag      `placeholder:"TIME" help:"No fires before this instant, such as 2030-01-31T08:00:00Z; none takes it away."`
	EndAt   *instantFlag      `placeholder:"TIME" help:"No fires from this instant on; none takes it away."`
	Label   map[string]string `sep:"none" mapsep:"none" placeholder:"NAME=VALUE" help:"A note of yours. May be repeated; an update replaces all of them, and NAME= alone leaves none."`
}

// instantFlag is an instant, or none.
type instantFlag time.Time

// UnmarshalText implements [encoding.TextUnmarshaler].
func (f *instantFlag) UnmarshalText(text []byte) error {
	if string(text) == "none" {
		*f = instantFlag{}
		return nil
	}
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return fmt.Errorf("want an instant such as 2030-01-31T08:00:00Z, or none; got %q", text)
	}
	*f = instantFlag(at)
	return nil
}

// time is the zero time for none and for a flag that was not given.
func (f *instantFlag) time() time.Time {
	if f == nil {
		return time.Time{}
	}
	return time.Time(*f)
}

// clocksFlags are what happens where clocks change.
type clocksFlags struct {
	ClocksForward string `enum:",run_after,skip" default:"" placeholder:"POLICY" help:"A time that clocks go forward over: run_after, once they have, or skip. Default run_after."`
	ClocksBack    string `enum:",first,second,both" default:"" placeholder:"POLICY" help:"A time that comes twice when clocks go back: first, second or both. Default first."`
}

// missedFlags are what becomes of times at which no server ran.
type missedFlags struct {
	Missed      string         `enum:",latest,skip,all" default:"" placeholder:"POLICY" help:"Times at which no server ran: make up for the latest, skip those that are over a minute late, or make up for all. Default latest."`
	MissedMax   int            `placeholder:"N" help:"With --missed all, how many of the newest, 1 to 100. Default 10."`
	MissedGrace *time.Duration `placeholder:"DURATION" help:"Let go what is later than this; 0s lets go nothing. Default 0s."`
}

// scheduleItemFlags are the attributes of what is produced.
type scheduleItemFlags struct {
	Kind        string            `short:"k" help:"What it is, such as report.nightly."`
	Encoding    string            `short:"t" placeholder:"TYPE" help:"Media type of the payload, which a push sends as Content-Type. Default application/json for an object or a list, text/plain for other text."`
	Reference   string            `placeholder:"TEXT" help:"A note of yours. Times and the name are filled in as in the payload."`
	Header      map[string]string `short:"H" sep:"none" mapsep:"none" placeholder:"NAME=VALUE" help:"Sent with a push; times and the name are filled in. May be repeated; an update replaces all of them."`
	MaxAttempts int               `placeholder:"N" help:"How often an item may fail; --max-attempts=-1 is no limit. Default is the queue's or the subscription's."`
	Expire      time.Duration     `placeholder:"DURATION" help:"How long an item has until it goes to the dead-letter queue. Default is the queue's."`
	OrderingKey string            `placeholder:"KEY" help:"Items of a queue that share it are given out strictly one after the other."`
	OnDone      string            `placeholder:"QUEUE" help:"Tell this queue how items end. Default is the subscription's."`

	targetFlags
}

// check refuses what makes no sense.
func (f *scheduleFlags) check() error {
	if f.Expire < 0 {
		return usagef("--expire: want a duration that is not negative")
	}
	return f.targetFlags.check()
}

// set sets what is no part of something else.
func (f *scheduleFlags) set(s *client.Schedule) {
	s.ClocksForward, s.ClocksBack, s.Overlap, s.Labels = f.ClocksForward, f.ClocksBack, f.Overlap, f.Label
	s.StartAt, s.EndAt = f.StartAt.time(), f.EndAt.time()
	if f.Jitter != nil {
		s.Jitter = *f.Jitter
	}
}

// setMissed sets what was given.
func (f *missedFlags) setMissed(m *client.Missed) {
	m.Policy, m.Max = f.Missed, f.MissedMax
	if f.MissedGrace != nil {
		m.Grace = *f.MissedGrace
	}
}

func (f *scheduleItemFlags) givesItem() bool {
	return f.Kind != "" || f.Encoding != "" || f.Reference != "" || len(f.Header) > 0 || f.MaxAttempts != 0 || f.Expire != 0 || f.OrderingKey != "" ||
		f.OnDone != "" || f.targetFlags != targetFlags{}
}

// changeItem sets what was given.
func (f *scheduleItemFlags) changeItem(it *client.Item) {
	give(&it.Kind, f.Kind)
	give(&it.Encoding, f.Encoding)
	give(&it.Reference, f.Reference)
	give(&it.MaxAttempts, f.MaxAttempts)
	give(&it.ExpireTimeout, f.Expire)
	give(&it.OnDone, f.OnDone)
	give(&it.OrderingKey, f.OrderingKey)
	give(&it.Target, f.target())
	if len(f.Header) > 0 {
		it.Headers = f.Header
	}
}

// payloadOr is the payload of the command line, or of the file, of which - is standard
// input, or nil.
func payloadOr(ctx context.Context, c *console, text *string, file string) ([]byte, error) {
	switch {
	case text != nil && file != "":
		return nil, usagef("a payload and --file: want one of them")
	case text != nil:
		return []byte(*text), nil
	case file == "":
		return nil, nil
	case file == "-":
		file = ""
	}
	return readPayload(ctx, c, file)
}
