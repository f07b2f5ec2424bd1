package schedules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/posthaste-io/posthaste/cron"
	"github.com/posthaste-io/posthaste/queue"
)

const (
	// firePage is how many schedules are read at a time, of up to [storage.MaxValue] bytes
	// each; fireWorkers how many fire at a time: each waits for its own commit.
	firePage, fireWorkers = 100, 16
	// maxCounted bounds how many missed times are counted one by one.
	maxCounted = 10_000
	// later is when a schedule is looked at again that cannot be fired.
	later = time.Minute
)

// Fire fires every schedule that is due. It returns when the next one is, zero if none is,
// and the store's time as it was then.
//
// An error of one schedule keeps no other from firing; that one is tried again by the next
// call.
func (s *Service) Fire(ctx context.Context) (next, now time.Time, err error) {
	for {
		due, err := s.docs.Due(ctx, firePage)
		if err != nil || due.Len() == 0 {
			return due.Next, due.Now, err
		}
		// From here on the store's time is at least what it said, and what has passed since.
		heard := time.Now()
		clock := func() time.Time { return due.Now.Add(time.Since(heard)) }
		// What has fired may be next before what was still to come, so that the store is
		// asked again; also after errors, if others fired: they may stand before more.
		fired, err := s.fireAll(ctx, &due, clock)
		if err != nil && fired == 0 {
			return due.Next, due.Now, err
		}
		if err != nil {
			s.log.Error("schedules could not fire", "fired", fired, "error", err)
		}
	}
}

// Overdue is for how long the schedule that waits longest has been due, 0 if none is.
func (s *Service) Overdue(ctx context.Context) (time.Duration, error) {
	due, err := s.docs.Due(ctx, 1)
	switch {
	case err != nil || due.Len() == 0:
		return 0, err
	case len(due.Unreadable) > 0:
		return due.Now.Sub(due.Unreadable[0].WakeAt), nil
	default:
		return due.Now.Sub(due.Values[0].WakeAt), nil
	}
}

func (s *Service) fireAll(ctx context.Context, due *queue.Due[Document], clock func() time.Time) (fired int, err error) {
	var errs []error
	for i := range due.Unreadable {
		bad := &due.Unreadable[i]
		errs = append(errs, bad.Err, s.postpone(ctx, bad.Namespace, bad.Name, bad.Revision, due.Now))
	}
	// Nodes that see the same ones begin at others.
	rand.Shuffle(len(due.Values), func(i, j int) { due.Values[i], due.Values[j] = due.Values[j], due.Values[i] })
	var mu sync.Mutex
	var wg sync.WaitGroup
	work := make(chan *queue.Versioned[Document])
	for range min(fireWorkers, len(due.Values)) {
		wg.Go(func() {
			for doc := range work {
				err := s.fire(ctx, doc, clock())
				mu.Lock()
				if err != nil {
					errs = append(errs, fmt.Errorf("schedule %s: %w", doc.Name, err))
				} else {
					fired++
				}
				mu.Unlock()
			}
		})
	}
	for i := range due.Values {
		work <- &due.Values[i]
	}
	close(work)
	wg.Wait()
	return fired, errors.Join(errs...)
}

// fire produces what is due of a schedule, and moves it on. Of several nodes that do so one
// writes; the others find another revision, and that is no error.
func (s *Service) fire(ctx context.Context, doc *queue.Versioned[Document], now time.Time) error {
	sched, spec, clock, err := readDue(doc)
	if err != nil {
		return errors.Join(err, s.postpone(ctx, doc.Namespace, doc.Name, doc.Revision, now))
	}
	until := now.Add(-sched.shift())
	newest := sched.newest(spec, clock, until)
	times := sched.madeUp(spec, clock, newest, until)
	missed := sched.count(spec, clock, newest) - len(times)
	times, skipped, err := s.withoutOverlap(ctx, &sched, times)
	if err != nil {
		return err
	}
	prepared, left, refusal, err := s.prepare(ctx, &sched, times, now)
	if err != nil {
		return err
	}
	if len(times) > 0 {
		sched.LastError = refusal
	}
	missed += len(times) - len(left)
	times = left
	written := false
	defer func() {
		if prepared != nil {
			prepared.Release(written)
		}
	}()
	var items []queue.NewItem
	if prepared != nil {
		items = prepared.Items
		last := len(items) - 1
		sched.LastAt, sched.LastFiredAt, sched.LastItem = times[last], now.UTC().Truncate(time.Microsecond), items[last].ID
	}
	sched.MissedCount += int64(missed)
	sched.SkippedCount += int64(skipped)
	sched.DecidedAt, sched.NominalAt = newest, sched.next(spec, clock, newest)
	_, err = s.docs.Put(ctx, sched.Namespace, sched.Name, toDocument(&sched), sched.stored, sched.FiresAt(), items...)
	if err != nil {
		return ignoreOvertaken(err)
	}
	written = true
	if s.o.Observe != nil {
		s.o.Observe(Fired{
			Namespace: sched.Namespace, Schedule: sched.Name,
			Produced: len(items), Missed: missed, Skipped: skipped, Lag: until.Sub(newest),
		})
	}
	return nil
}

func readDue(doc *queue.Versioned[Document]) (Schedule, cron.Spec, cron.Clock, error) {
	sched, err := fromDocument(&doc.Value, doc.Revision)
	if err != nil {
		return sched, cron.Spec{}, cron.Clock{}, err
	}
	spec, clock, err := sched.times()
	return sched, spec, clock, err
}

// postpone keeps a schedule that cannot be fired from standing before all others. Nothing of
// it is changed.
func (s *Service) postpone(ctx context.Context, ns queue.Namespace, name string, revision uint64, now time.Time) error {
	return ignoreOvertaken(s.docs.Postpone(ctx, ns, name, revision, now.Add(later)))
}

// ignoreOvertaken is for what any node may do: another was quicker, or somebody changed or
// deleted the schedule.
func ignoreOvertaken(err error) error {
	if errors.Is(err, queue.ErrRevision) || errors.Is(err, queue.ErrNotFound) {
		return nil
	}
	return err
}

// newest is the last time that is due at an instant, from the next one on.
func (s *Schedule) newest(spec cron.Spec, clock cron.Clock, until time.Time) time.Time {
	if !s.EndAt.IsZero() && !until.Before(s.EndAt) {
		until = s.EndAt.Add(-time.Nanosecond)
	}
	if last, ok := spec.Latest(s.NominalAt, until, clock); ok {
		return last.At.UTC()
	}
	return s.NominalAt
}

// count is how many times there are from the next one to the newest, up to maxCounted.
func (s *Schedule) count(spec cron.Spec, clock cron.Clock, newest time.Time) int {
	n := 1
	for at := s.NominalAt; at.Before(newest) && n < maxCounted; n++ {
		fire, ok := spec.Next(at, clock)
		if !ok {
			break
		}
		at = fire.At
	}
	return n
}

// madeUp are the times that items are produced for, oldest first, by what the schedule says
// of those that were missed.
func (s *Schedule) madeUp(spec cron.Spec, clock cron.Clock, newest, until time.Time) []time.Time {
	tooLate := func(at time.Time) bool {
		late := until.Sub(at)
		return s.Missed.Policy == MissSkip && late > OnTime || s.Missed.Grace > 0 && late > max(s.Missed.Grace, OnTime)
	}
	most := 1
	switch {
	case until.Sub(s.NominalAt) <= OnTime:
		most = MaxMissed // nothing was missed: a hiccup drops no time of a schedule that fires each second
	case s.Missed.Policy == MissAll:
		most = s.Missed.Max
	}
	var times []time.Time
	for at := newest; len(times) < most && !tooLate(at); {
		times = append(times, at)
		before, ok := spec.Latest(s.NominalAt.Add(-time.Second), at.Add(-time.Second), clock)
		if !ok {
			break
		}
		at = before.At.UTC()
	}
	slices.Reverse(times)
	return times
}

// withoutOverlap leaves out times whose items would stand beside the one before. That is
// decided by that item, and not by a mark that a crash could leave behind.
func (s *Service) withoutOverlap(ctx context.Context, sched *Schedule, times []time.Time) (left []time.Time, skipped int, err error) {
	if sched.Overlap == OverlapAllow || len(times) == 0 {
		return times, 0, nil
	}
	skipped = len(times) - 1 // they would overlap each other
	times = times[skipped:]
	if sched.LastItem.IsZero() {
		return times, skipped, nil
	}
	states, err := s.broker.Look(ctx, sched.Namespace, sched.LastItem, "")
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		return nil, 0, fmt.Errorf("item of the fire before: %w", err)
	}
	for i := range states {
		st := &states[i]
		switch {
		case st.Ending != nil, st.Item.Dead != nil:
		case sched.Overlap == OverlapQueueOne && st.Item.State(st.Now) == queue.Leased:
		default:
			return nil, skipped + 1, nil
		}
	}
	return times, skipped, nil
}

// prepare makes the items for times, and says for which: of more than a call may have the
// newest that fit, and none of what is refused, with the reason. A schedule whose queue is
// gone goes on, so that it fires again once that is mended.
func (s *Service) prepare(ctx context.Context, sched *Schedule, times []time.Time, now time.Time) (
	prepared *queue.Prepared, left []time.Time, refusal string, err error,
) {
	for len(times) > 0 {
		items := make([]queue.ScheduledItem, len(times))
		for i, at := range times {
			items[i] = queue.ScheduledItem{
				ProduceItem: sched.item(at, now), Key: "schedule/" + sched.ID + "/" + strconv.FormatInt(at.Unix(), 10),
			}
		}
		prepared, err := s.broker.Prepare(ctx, sched.Namespace, sched.Queue, items)
		if err == nil {
			return prepared, times, "", nil
		}
		_, invalid := errors.AsType[*queue.InvalidError](err)
		_, large := errors.AsType[*queue.TooLargeError](err)
		switch {
		case large && len(times) > 1:
			times = times[(len(times)+1)/2:]
			continue
		case !invalid && !large && !errors.Is(err, queue.ErrNotFound) && !errors.Is(err, queue.ErrNotSupported):
			return nil, nil, "", err
		}
		s.log.Warn("schedule could not produce", "schedule", sched.Name, "queue", sched.Queue, "times", len(times), "error", err)
		return nil, nil, clip(atItem(err).Error()), nil
	}
	return nil, nil, "", nil
}

// maxError bounds what is kept of an error, in bytes.
const maxError = 500

func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxError)], "") }

// shift is by how much all fires are moved.
func (s *Schedule) shift() time.Duration {
	seconds := uint64(s.Jitter / time.Second)
	if seconds == 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(s.ID))
	return time.Duration(h.Sum64()%(seconds+1)) * time.Second
}

// item is what is produced for a time, with what stands for times and for the name replaced.
func (s *Schedule) item(nominal, fired time.Time) queue.ProduceItem {
	in := strings.NewReplacer(
		"{{nominal_at}}", nominal.UTC().Format(time.RFC3339),
		// Of one length, so that what was taken once is not too long later.
		"{{fired_at}}", fired.UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
		"{{schedule}}", s.Name,
	)
	it := s.Item
	it.Reference = in.Replace(it.Reference)
	if len(it.Headers) > 0 {
		it.Headers = make(map[string]string, len(s.Item.Headers))
		for name, value := range s.Item.Headers {
			it.Headers[name] = in.Replace(value)
		}
	}
	if utf8.Valid(it.Payload) && bytes.Contains(it.Payload, []byte("{{")) {
		it.Payload = []byte(in.Replace(string(it.Payload)))
	}
	return it
}

// atItem gives an error about a call's only item the path that a schedule has for it.
func atItem(err error) error {
	if invalid, ok := errors.AsType[*queue.InvalidError](err); ok {
		return &queue.InvalidError{Field: strings.Replace(invalid.Field, "items[0]", "item", 1), Reason: invalid.Reason}
	}
	if large, ok := errors.AsType[*queue.TooLargeError](err); ok {
		at := *large
		at.Field = strings.Replace(large.Field, "items[0]", "item", 1)
		return &at
	}
	return err
}
