package client

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	v1 "github.com/posthaste-io/posthaste/api/v1"
)

// Schedule puts an item on a queue at each time of a cron expression. What a creation
// leaves out takes its default.
type Schedule struct {
	Name string
	// Cron is five fields (minute, hour, day of month, month, day of week), six with seconds
	// first, or @hourly, @daily, @weekly, @monthly, @yearly, @every 90s.
	Cron string
	// Zone is a name of the tz database, such as Europe/Berlin: UTC.
	Zone string
	// Queue is where the items go.
	Queue string
	// Item is what is produced. In its payload, if that is text, its reference and the
	// values of its headers {{nominal_at}}, {{fired_at}} and {{schedule}} stand for the time
	// of the expression, the time of the fire and the name. EnqueueAt, Delay and
	// IdempotencyKey stay empty: the schedule has them.
	Item Item
	// ClocksForward says what becomes of times that clocks go forward over: run_after or
	// skip. Empty is run_after.
	ClocksForward string
	// ClocksBack says what becomes of times that come twice: first, second or both. Empty is
	// first.
	ClocksBack string
	// Missed says what becomes of times at which no server ran.
	Missed Missed
	// Overlap says what happens while the item before is not done: allow, skip, or
	// queue_one, which lets one wait while another is worked on. Empty is allow.
	Overlap string
	// Jitter moves all fires by the same time of up to so much, 24 h at most, another one
	// for each schedule: not at all.
	Jitter time.Duration
	// StartAt and EndAt bound when it fires: not before the one, and not from the other on.
	StartAt time.Time
	EndAt   time.Time
	// Paused makes it wait for ResumeSchedule.
	Paused bool
	// Labels are yours; at most 64, of 255 bytes.
	Labels map[string]string

	// What follows is the server's to set.

	// NextAt is when it fires next; zero while it is paused, and when it is over.
	NextAt time.Time
	// LastAt is the time of the expression for which it fired last, LastFiredAt when it did,
	// and LastItemID what it produced.
	LastAt      time.Time
	LastFiredAt time.Time
	LastItemID  string
	// LastError is why nothing could be produced for the last time that was due; empty if it
	// was.
	LastError string
	// MissedCount and SkippedCount count times without an item: missed, and skipped for an
	// overlap.
	MissedCount  int
	SkippedCount int
	CreatedAt    time.Time
	UpdatedAt    time.Time
	// Revision names the version, for [ScheduleUpdate].
	Revision string
}

// Missed says what becomes of the times of a schedule at which no server ran.
type Missed struct {
	// Policy is latest, the newest of them; skip, none that is over a minute late; or all.
	// Empty is latest.
	Policy string
	// Max is how many of the newest are made up for with all, 1 to 100: 10.
	Max int
	// Grace lets go what is later than this, up to 8,784 h; 0 lets go nothing.
	Grace time.Duration
}

// Fire is a time at which a schedule fires, without jitter.
type Fire struct {
	At time.Time
	// Local is At on the clock of the zone: 2026-03-08T03:00:00-04:00.
	Local string
	// Note says what is odd about it because clocks change; mostly empty.
	Note string
}

// CreateSchedule makes a schedule, or answers already_exists.
func (c *Client) CreateSchedule(ctx context.Context, s Schedule) (Schedule, error) {
	return c.schedule(ctx, "schedules.create", s.wire())
}

// ScheduleUpdate changes what is set and nothing else; Item and Labels are replaced whole.
type ScheduleUpdate struct {
	// Revision, if set, must be the schedule's.
	Revision string
	Cron     string
	Zone     string
	Queue    string
	Item     *Item
	// ClocksForward, ClocksBack and Overlap are turned back by the names of their defaults.
	ClocksForward string
	ClocksBack    string
	Missed        MissedUpdate
	Overlap       string
	// Jitter, if it points to 0, is taken away.
	Jitter *time.Duration
	// StartAt and EndAt, if they point to the zero time, are taken away.
	StartAt *time.Time
	EndAt   *time.Time
	// Labels with an empty value are none.
	Labels map[string]string
}

// MissedUpdate changes what is set of a [Missed].
type MissedUpdate struct {
	Policy string
	Max    int
	// Grace, if it points to 0, lets go nothing.
	Grace *time.Duration
}

// UpdateSchedule changes a schedule and returns it.
func (c *Client) UpdateSchedule(ctx context.Context, name string, u ScheduleUpdate) (Schedule, error) {
	return c.schedule(ctx, "schedules.update", u.wire(name))
}

// GetSchedule returns a schedule, with when it fires next and fired last.
func (c *Client) GetSchedule(ctx context.Context, name string) (Schedule, error) {
	return c.schedule(ctx, "schedules.info", &v1.ScheduleRequest{Name: name})
}

// Schedules lists schedules by name.
func (c *Client) Schedules(ctx context.Context) iter.Seq2[Schedule, error] {
	return pages(func(cursor string) ([]Schedule, string, error) {
		p := new(v1.SchedulesListReply)
		if err := c.call(ctx, "schedules.list", &v1.SchedulesListRequest{Cursor: cursor}, p); err != nil {
			return nil, "", err
		}
		page := make([]Schedule, len(p.GetItems()))
		for i, s := range p.GetItems() {
			page[i] = scheduleOf(s)
		}
		return page, p.GetCursor(), nil
	})
}

// DeleteSchedule ends a schedule. Items that it has produced stay.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	return c.call(ctx, "schedules.delete", &v1.ScheduleRequest{Name: name}, nil)
}

// PauseSchedule stops fires until ResumeSchedule.
func (c *Client) PauseSchedule(ctx context.Context, name string) (Schedule, error) {
	return c.schedule(ctx, "schedules.pause", &v1.ScheduleRequest{Name: name})
}

// ResumeSchedule ends a pause. Times that passed meanwhile are not made up for.
func (c *Client) ResumeSchedule(ctx context.Context, name string) (Schedule, error) {
	return c.schedule(ctx, "schedules.resume", &v1.ScheduleRequest{Name: name})
}

// Trigger is how TriggerSchedule makes an item.
type Trigger struct {
	// IdempotencyKey, 1 to 255 visible ASCII characters, makes a second call with it no second
	// item, for 24 h. It shares its space with the keys of produce calls to the queue.
	IdempotencyKey string
}

// TriggerSchedule produces the item of a schedule now, beside its times. The client's own
// repeats make no other; each call of yours does that has no IdempotencyKey.
func (c *Client) TriggerSchedule(ctx context.Context, name string, t Trigger) (Produced, error) {
	p := new(v1.TriggerReply)
	q := &v1.TriggerRequest{Name: name, RequestTimeout: text(waitWithin(ctx, 0))}
	err := c.call(ctx, "schedules.trigger", q, p, "Idempotency-Key", cmp.Or(t.IdempotencyKey, uuid.NewString()))
	return Produced{ItemID: p.GetItemId(), Duplicate: p.GetDuplicate()}, err
}

// PreviewParams name a schedule that is kept, or describe one that need not be there.
type PreviewParams struct {
	// Name is that of one that is kept. Without it what follows says it.
	Name          string
	Cron          string
	Zone          string
	ClocksForward string
	ClocksBack    string
	StartAt       time.Time
	EndAt         time.Time
	// Count is how many fires, 1 to 1,000; 0 is 10.
	Count int
	// From is after when; zero is now.
	From time.Time
}

// PreviewSchedule tells when a schedule fires next, and what is odd about it.
func (c *Client) PreviewSchedule(ctx context.Context, params PreviewParams) ([]Fire, error) {
	p := new(v1.PreviewReply)
	if err := c.call(ctx, "schedules.preview", params.wire(), p); err != nil {
		return nil, err
	}
	fires := make([]Fire, len(p.GetFires()))
	for i, f := range p.GetFires() {
		fires[i] = Fire{At: instant(f.GetAt()), Local: f.GetLocal(), Note: f.GetNote()}
	}
	return fires, nil
}

func (c *Client) schedule(ctx context.Context, method string, q proto.Message) (Schedule, error) {
	p := new(v1.Schedule)
	if err := c.call(ctx, method, q, p); err != nil {
		return Schedule{}, err
	}
	return scheduleOf(p), nil
}
