package schedules

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// mostRounds bounds how often a fire to a topic is tried again whose subscriptions change.
const mostRounds = 20

const (
	// firePage is how many schedules are read at a time, of up to 1 MB each; fireWorkers how
	// many fire at a time: each waits for its own commit.
	firePage, fireWorkers = 64, 16
)

// Fire fires every schedule that is due. It returns when the next one is, zero if none is,
// and the store's time as it was then.
//
// An error of one schedule keeps no other from firing; that one is tried again by the next
// call, or, where that would not help, by this node in a minute: another may do better.
func (s *Service) Fire(ctx context.Context) (next, now time.Time, err error) {
	for {
		due, err := s.docs.Due(ctx, firePage+s.off.size())
		if err != nil {
			return time.Time{}, time.Time{}, err
		}
		// From here on the store's time is at least what it said, and what has passed since.
		heard := time.Now()
		clock := func() time.Time { return due.Now.Add(time.Since(heard)) }
		fired, err := s.fireAll(ctx, s.off.without(due.Values), clock)
		if fired == 0 {
			return due.Next, clock(), err
		}
		// What has fired may be next before what was still to come, so that the store is
		// asked again; also after errors: those may stand before more.
		if err != nil {
			s.log.Error("schedules could not fire", "fired", fired, "error", err)
		}
	}
}

// Overdue is for how long the schedule that waits longest has been due, 0 if none is.
func (s *Service) Overdue(ctx context.Context) (time.Duration, error) {
	due, err := s.docs.Due(ctx, 1)
	if err != nil || len(due.Values) == 0 {
		return 0, err
	}
	return due.Now.Sub(due.Values[0].WakeAt), nil
}

func (s *Service) fireAll(ctx context.Context, due []queue.Versioned[Document], clock func() time.Time) (fired int, err error) {
	// Nodes that see the same ones begin at others.
	rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	var errs []error
	var mu sync.Mutex
	var wg sync.WaitGroup
	work := make(chan *queue.Versioned[Document])
	for range min(fireWorkers, len(due)) {
		wg.Go(func() {
			for doc := range work {
				err := s.fireDocument(ctx, doc, clock())
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
	for i := range due {
		work <- &due[i]
	}
	close(work)
	wg.Wait()
	return fired, errors.Join(errs...)
}

// fireDocument fires a schedule as it was read. One that cannot be fired is put off.
func (s *Service) fireDocument(ctx context.Context, doc *queue.Versioned[Document], now time.Time) error {
	sched, err := read(doc)
	if err == nil {
		err = s.fire(ctx, &sched, now)
	}
	if err != nil && ctx.Err() == nil && !isPassing(err) {
		s.off.add(doc)
	}
	return err
}

// isPassing says whether an error is the store's, of which it recovers, or of a topic that is
// changed all the time.
func isPassing(err error) bool {
	return errors.Is(err, queue.ErrOvertaken) || errors.Is(err, queue.ErrUnavailable) || errors.Is(err, queue.ErrUnknownOutcome) || errors.Is(err, queue.ErrDiskFull)
}

// ignoreOvertaken is for what any node may do: another was quicker, or somebody changed or
// deleted the schedule.
func ignoreOvertaken(err error) error {
	if errors.Is(err, queue.ErrRevision) || errors.Is(err, queue.ErrNotFound) {
		return nil
	}
	return err
}

// fire produces what is due of a schedule, and moves it on. Of several nodes that do so one
// writes; the others find another revision, and that is no error.
//
// What cannot be produced is let go, with the reason, so that the schedule goes on and fires
// again once that is mended. Of more than one write may have, it writes the oldest: the rest
// stays due.
func (s *Service) fire(ctx context.Context, sched *Schedule, now time.Time) error {
	d, err := sched.decide(now)
	if err != nil {
		return err
	}
	if err := s.avoidOverlap(ctx, sched, &d); err != nil {
		return err
	}
	for round := 1; ; {
		err := s.write(ctx, *sched, &d, now)
		refused, ok := errors.AsType[*refusal](err)
		switch {
		case errors.Is(err, queue.ErrOvertaken) && round < mostRounds:
			round++ // somebody subscribed just now
		case !ok:
			return ignoreOvertaken(err)
		case refused.tooLarge() && len(d.times) > 1:
			d.leave(max(len(d.times)/8, 1))
		default:
			s.log.Warn("schedule could not produce", "schedule", sched.Name, "queue", sched.Queue, "times", len(d.times), "error", err)
			d.letGo(clip(atItem(refused.error).Error()))
		}
	}
}

// write produces what was decided and moves the schedule on, in one transaction, or returns
// why the items are not taken, as a [refusal].
func (s *Service) write(ctx context.Context, sched Schedule, d *decision, now time.Time) error {
	prepared, err := s.prepare(ctx, &sched, d.times, now)
	if err != nil {
		return err
	}
	written := false
	defer func() { prepared.Release(written) }()
	sched.follow(d)
	items := prepared.Items
	if n := len(items); n > 0 {
		sched.LastAt, sched.LastFiredAt, sched.LastItem = d.times[n-1], now.UTC().Truncate(time.Microsecond), items[n-1].ID
	}
	_, err = s.docs.Put(ctx, sched.Namespace, sched.Name, toDocument(&sched), sched.stored, sched.FiresAt(), items...)
	if _, large := errors.AsType[*queue.TooLargeError](err); large && len(items) > 0 {
		return &refusal{err}
	}
	if err != nil {
		return err
	}
	written = true
	if s.o.Observe != nil {
		s.o.Observe(Fired{
			Namespace: sched.Namespace, Schedule: sched.Name,
			Produced: len(items), Missed: d.missed, Skipped: d.skipped, Lag: d.lag,
		})
	}
	return nil
}

// refusal is why items are not taken, whoever sends them.
type refusal struct{ error }

// Unwrap returns the reason.
func (r *refusal) Unwrap() error { return r.error }

func (r *refusal) tooLarge() bool {
	_, large := errors.AsType[*queue.TooLargeError](r.error)
	_, fannedOut := errors.AsType[*queue.FanOutError](r.error)
	return large || fannedOut
}

// prepare makes the items for times, of which there may be none.
func (s *Service) prepare(ctx context.Context, sched *Schedule, times []time.Time, now time.Time) (*queue.Prepared, error) {
	if len(times) == 0 {
		return new(queue.Prepared), nil
	}
	items := make([]queue.ScheduledItem, len(times))
	for i, at := range times {
		items[i] = queue.ScheduledItem{
			ProduceItem: sched.item(at, now), Key: "schedule/" + sched.ID + "/" + strconv.FormatInt(at.Unix(), 10),
		}
	}
	prepared, err := s.broker.Prepare(ctx, sched.Namespace, sched.Queue, items)
	_, invalid := errors.AsType[*queue.InvalidError](err)
	_, large := errors.AsType[*queue.TooLargeError](err)
	_, fannedOut := errors.AsType[*queue.FanOutError](err)
	if invalid || large || fannedOut || errors.Is(err, queue.ErrNotFound) || errors.Is(err, queue.ErrNotSupported) {
		return nil, &refusal{err}
	}
	return prepared, err
}

// maxError bounds what is kept of an error, in bytes.
const maxError = 500

func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxError)], "") }

// avoidOverlap leaves out times whose items would stand beside the one before. That is
// decided by that item, and not by a mark that a crash could leave behind.
func (s *Service) avoidOverlap(ctx context.Context, sched *Schedule, d *decision) error {
	if sched.Overlap == OverlapAllow || len(d.times) == 0 {
		return nil
	}
	d.skip(len(d.times) - 1) // they would overlap each other
	if sched.LastItem.IsZero() {
		return nil
	}
	states, err := s.broker.Look(ctx, sched.Namespace, sched.LastItem, "")
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		return fmt.Errorf("item of the fire before: %w", err)
	}
	for i := range states {
		if sched.overlaps(&states[i]) {
			d.skip(1)
			return nil
		}
	}
	return nil
}

// overlaps says whether the item of the fire before keeps the next from being produced.
func (s *Schedule) overlaps(before *queue.ItemState) bool {
	state := before.Item.State(before.Now)
	switch {
	case before.Ending != nil, before.Item.Dead != nil:
		return false
	case state == queue.Leased:
		return s.Overlap != OverlapQueueOne
	default:
		return !before.Item.Expired(before.Now) // an expired one is done, and the sweep only has to find it
	}
}
