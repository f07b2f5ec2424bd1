package api

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/cron"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/schedules"
)

// The words of policies, each at its value.
var (
	forwardWords = []string{cron.RunAfter: "run_after", cron.SkipForward: "skip"}
	backWords    = []string{cron.First: "first", cron.Second: "second", cron.Both: "both"}
	missedWords  = []string{schedules.MissLatest: "latest", schedules.MissSkip: "skip", schedules.MissAll: "all"}
	overlapWords = []string{schedules.OverlapAllow: "allow", schedules.OverlapSkip: "skip", schedules.OverlapQueueOne: "queue_one"}
)

// choice reads one of a policy's words, nil for an empty text.
func choice[T ~int](field, text string, words []string) (*T, error) {
	if text == "" {
		return nil, nil
	}
	i := slices.Index(words, text)
	if i < 0 {
		return nil, queue.Invalid(field, "is %q; want one of %s", clip(text), strings.Join(words, ", "))
	}
	return new(T(i)), nil
}

// scheduleChange takes the settings that were given. What they may be is judged by the
// schedules; here is judged what only the wire has, such as words and texts of times.
func scheduleChange(q *v1.Schedule) (change schedules.Change, err error) {
	change = schedules.Change{
		Cron: given(q.GetCron()), Zone: given(q.GetZone()), Queue: given(q.GetQueueName()), Labels: q.GetLabels(),
	}
	if change.Item, err = scheduleItem(q.GetItem()); err != nil {
		return change, err
	}
	if err := clockChange(q, &change); err != nil {
		return change, err
	}
	if err := missedChange(q.GetMissed(), &change.Missed); err != nil {
		return change, err
	}
	if change.Overlap, err = choice[schedules.Overlap]("overlap", q.GetOverlap(), overlapWords); err != nil {
		return change, err
	}
	change.Jitter, err = optionalDuration("jitter", q.GetJitter(), 0, forever)
	return change, err
}

// clocked is what says when a schedule fires, beside its expression.
type clocked interface {
	GetClocksForward() string
	GetClocksBack() string
	GetStartAt() *timestamppb.Timestamp
	GetEndAt() *timestamppb.Timestamp
}

func clockChange(q clocked, change *schedules.Change) (err error) {
	if change.Forward, err = choice[cron.Forward]("clocks_forward", q.GetClocksForward(), forwardWords); err != nil {
		return err
	}
	if change.Back, err = choice[cron.Back]("clocks_back", q.GetClocksBack(), backWords); err != nil {
		return err
	}
	change.StartAt, change.EndAt = optionalInstant(q.GetStartAt()), optionalInstant(q.GetEndAt())
	return nil
}

// optionalInstant is nil for one that was left out. The zero time, which is the first
// instant of the year 1, is none: an update takes away what is kept with it. No more is
// taken of one than answers tell, so that they can be sent back.
func optionalInstant(at *timestamppb.Timestamp) *time.Time {
	if at == nil {
		return nil
	}
	return new(at.AsTime().Truncate(time.Microsecond))
}

// missedChange takes what was given; 0 and empty texts were not.
func missedChange(q *v1.Missed, to *schedules.MissedChange) (err error) {
	if n := q.GetMax(); n != 0 {
		to.Max = new(int(n))
	}
	if to.Policy, err = choice[schedules.MissedPolicy]("missed.policy", q.GetPolicy(), missedWords); err != nil {
		return err
	}
	to.Grace, err = optionalDuration("missed.grace", q.GetGrace(), 0, forever)
	return err
}

// scheduleItem reads what a schedule produces. When, and under which key, is its own to say.
func scheduleItem(q *v1.Produce) (*queue.ProduceItem, error) {
	switch {
	case q == nil:
		return nil, nil
	case q.GetEnqueueAt() != nil:
		return nil, queue.Invalid("item.enqueue_at", "is not for schedules: the item is due when the schedule fires")
	case q.GetDelay() != "":
		return nil, queue.Invalid("item.delay", "is not for schedules: the item is due when the schedule fires")
	case q.GetIdempotencyKey() != "":
		return nil, queue.Invalid("item.idempotency_key", "is not for schedules: each time of a schedule has a key of its own")
	}
	content, err := readContent(q)
	if err != nil {
		return nil, within("item", err)
	}
	item := &queue.ProduceItem{Content: content, MaxAttempts: q.GetMaxAttempts()}
	if text := q.GetExpireTimeout(); text != "" {
		item.ExpireTTL, err = parseDuration("item.expire_timeout", text, time.Millisecond, maxDelay)
	}
	return item, err
}

// defaultPreview is how many fires are told if nobody says how many.
const defaultPreview = 10

func previewParams(q *v1.PreviewRequest) (schedules.PreviewParams, error) {
	params := schedules.PreviewParams{Name: q.GetName(), Count: cmp.Or(int(q.GetCount()), defaultPreview)}
	if q.GetName() != "" {
		if field := inlineField(q); field != "" {
			return params, queue.Invalid(field, "goes without name: a schedule that is kept has its own")
		}
	}
	params.Cron, params.Zone = given(q.GetCron()), given(q.GetZone())
	if err := clockChange(q, &params.Change); err != nil {
		return params, err
	}
	if from := optionalInstant(q.GetFrom()); from != nil {
		params.From = *from
	}
	return params, nil
}

// inlineField is the first field of a preview that says what a kept schedule has itself,
// empty if there is none.
func inlineField(q *v1.PreviewRequest) string {
	for _, each := range []struct {
		field string
		given bool
	}{
		{"cron", q.GetCron() != ""},
		{"zone", q.GetZone() != ""},
		{"clocks_forward", q.GetClocksForward() != ""},
		{"clocks_back", q.GetClocksBack() != ""},
		{"start_at", q.GetStartAt() != nil},
		{"end_at", q.GetEndAt() != nil},
	} {
		if each.given {
			return each.field
		}
	}
	return ""
}
