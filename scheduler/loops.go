package scheduler

import (
	"context"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// wake sleeps until the earliest due time and wakes its queue.
func (s *Scheduler) wake(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.kick:
		case <-timer.C:
		}
		due, wait := s.takeDue()
		if len(due) > 0 {
			s.o.Broker.Wake(due...)
			nudge(s.woke)
		}
		timer.Reset(wait)
	}
}

// forever is a wait that only a kick ends.
const forever = time.Hour

func (s *Scheduler) takeDue() (due []queue.Number, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	due = s.due.take(now)
	next, ok := s.due.next()
	if !ok {
		return due, forever
	}
	return due, next.Sub(now)
}

// poll asks the store what is due: each period, and soon after a wake. The period is
// for what other nodes did, the wake for what this one forgot or never knew.
func (s *Scheduler) poll(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	trouble := s.trouble("due times")
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.woke:
			if !pause(ctx, learnAfter) {
				return
			}
		case <-timer.C:
		}
		trouble(ctx, s.ask(ctx))
		timer.Reset(s.o.PollEvery)
	}
}

// ask learns the earliest due time of each queue, and wakes those where something is
// available: another node may have put it there, or a lease may have lapsed. What is
// available hides what is due next; where it was not so before, somebody will take
// it soon, and ask is called again.
func (s *Scheduler) ask(ctx context.Context) error {
	before := time.Now()
	answer, err := s.o.Broker.NextDue(ctx)
	if err != nil {
		return err
	}
	after := time.Now()
	// The store looked at its clock in between; taking the middle is wrong by half
	// of the call at most, and the broker looks again when it is woken too early.
	heard := before.Add(after.Sub(before) / 2)

	var ready []queue.Number
	fresh := false
	s.mu.Lock()
	s.stored, s.heard = answer.Now, heard
	for _, q := range answer.Queues {
		if q.At.After(answer.Now) {
			s.due.add(q.Queue, q.At)
		} else {
			ready = append(ready, q.Queue)
			fresh = fresh || !s.ready[q.Queue]
		}
	}
	clear(s.ready)
	for _, q := range ready {
		s.ready[q] = true
	}
	s.mu.Unlock()
	if len(ready) > 0 {
		s.o.Broker.Wake(ready...)
	}
	if fresh {
		nudge(s.woke)
	}
	nudge(s.kick)
	return nil
}

// leastWait is between two looks for schedules that are due: the store's clock need not run
// as fast as ours.
const leastWait = 5 * time.Millisecond

// fire sleeps until the next schedule is due and has it fired. What other nodes made is
// found by the look of each period, which costs the same however many there are.
func (s *Scheduler) fire(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	trouble := s.trouble("schedules")
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		case <-timer.C:
		}
		next, now, err := s.schedules.Fire(ctx)
		trouble(ctx, err)
		wait := s.o.PollEvery
		if !next.IsZero() {
			wait = min(wait, max(leastWait, next.Sub(now)))
		}
		timer.Reset(wait)
	}
}

func (s *Scheduler) sweep(ctx context.Context) error {
	buried, err := s.o.Broker.Sweep(ctx)
	if buried > 0 {
		s.log.Info("items swept", "buried", buried)
	}
	return err
}

// every calls run at once and then each period, counted from the end of the last call.
func (s *Scheduler) every(ctx context.Context, period time.Duration, what string, run func(context.Context) error) {
	trouble := s.trouble(what)
	for {
		trouble(ctx, run(ctx))
		if !pause(ctx, period) {
			return
		}
	}
}

// trouble returns a function that logs the first error of a row, and its end.
func (s *Scheduler) trouble(what string) func(context.Context, error) {
	failing := false
	return func(ctx context.Context, err error) {
		switch {
		case ctx.Err() != nil:
			return // interrupted by ourselves
		case err != nil && !failing:
			s.log.Warn("store refuses; trying again", "what", what, "error", err)
		case err == nil && failing:
			s.log.Info("store answers again", "what", what)
		}
		failing = err != nil
	}
}

// pause waits, and says whether it was for the whole time.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
