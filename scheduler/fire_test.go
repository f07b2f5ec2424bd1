package scheduler_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/scheduler"
)

// crons are schedules that fire at given times of the store's clock.
type crons struct {
	ahead time.Duration // of ours
	mu    sync.Mutex
	times []time.Time
	err   error
	looks int
	// fired are the looks that found something due.
	fired []time.Duration
	start time.Time
}

func (c *crons) Fire(context.Context) (next, now time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	now = time.Now().Add(c.ahead)
	if c.err != nil {
		return time.Time{}, time.Time{}, c.err
	}
	for len(c.times) > 0 && !c.times[0].After(now) {
		c.fired = append(c.fired, time.Since(c.start))
		c.times = c.times[1:]
	}
	if len(c.times) > 0 {
		next = c.times[0]
	}
	return next, now, nil
}

func (c *crons) add(at ...time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times = append(c.times, at...)
}

func (c *crons) seen() (looks int, fired []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks, c.fired
}

func firing(t *testing.T, b *broker, o scheduler.Options, f func(*testing.T, *scheduler.Scheduler, *crons)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Broker = b
		s := scheduler.New(o)
		c := &crons{start: time.Now()}
		s.Fires(c)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		synctest.Wait()
		f(t, s, c)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

// What the scheduler takes the store's time for has no part in it, also where the store does
// not tell it.
func TestC15_FiresByTheStoresClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{-time.Hour, 0, time.Hour} {
		b := newBroker()
		b.err = queue.ErrUnavailable
		firing(t, b, scheduler.Options{}, func(t *testing.T, s *scheduler.Scheduler, c *crons) {
			c.ahead = ahead
			start := time.Now().Add(ahead)
			c.add(start.Add(2345*time.Millisecond), start.Add(7*time.Second))
			s.Changed()
			pass(10 * time.Second)
			if looks, fired := c.seen(); !equalMillis(fired, []time.Duration{2345, 7000}) || looks > 15 {
				t.Errorf("store ahead by %v: fired after %v, %d looks", ahead, fired, looks)
			}
		})
	}
}

func TestScheduler_AChangeIsFiredOnTime(t *testing.T) {
	t.Parallel()
	firing(t, newBroker(), scheduler.Options{PollEvery: time.Hour}, func(t *testing.T, s *scheduler.Scheduler, c *crons) {
		pass(10 * time.Second)
		c.add(c.start.Add(10500 * time.Millisecond))
		s.Changed()
		pass(time.Second)
		if _, fired := c.seen(); !equalMillis(fired, []time.Duration{10_500}) {
			t.Errorf("fired after %v", fired)
		}
	})
}

// What another node made is found by the look of each second, in time for what is due later.
func TestScheduler_FindsWhatOtherNodesMade(t *testing.T) {
	t.Parallel()
	firing(t, newBroker(), scheduler.Options{}, func(t *testing.T, _ *scheduler.Scheduler, c *crons) {
		pass(500 * time.Millisecond)
		c.add(c.start.Add(3777 * time.Millisecond))
		pass(10 * time.Second)
		looks, fired := c.seen()
		if !equalMillis(fired, []time.Duration{3777}) {
			t.Errorf("fired after %v", fired)
		}
		if looks > 13 {
			t.Errorf("%d looks in ten seconds, want one each and one for what was due", looks)
		}
	})
}

func TestScheduler_TroubleWithSchedulesIsTriedAgain(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := scheduler.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	firing(t, newBroker(), o, func(t *testing.T, _ *scheduler.Scheduler, c *crons) {
		c.mu.Lock()
		c.err = queue.ErrUnavailable
		c.mu.Unlock()
		c.add(c.start.Add(time.Second))
		pass(time.Minute + 100*time.Millisecond)
		looks, _ := c.seen()
		if looks < 59 || looks > 62 {
			t.Errorf("%d looks in a minute, want one a second", looks)
		}
		c.mu.Lock()
		c.err = nil
		c.mu.Unlock()
		pass(time.Second)
		if _, fired := c.seen(); len(fired) != 1 {
			t.Errorf("fired %d times", len(fired))
		}
		if n := strings.Count(log.String(), "what=schedules"); n != 2 {
			t.Errorf("logged %d times, want its begin and its end:\n%s", n, log.String())
		}
	})
}
