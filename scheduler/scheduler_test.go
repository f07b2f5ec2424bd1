package scheduler_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/scheduler"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		slog.Error("goroutines are left over", "error", err)
		code = 1
	}
	os.Exit(code)
}

func TestScheduler_WakesAtTheDueTime(t *testing.T) {
	t.Parallel()
	inBubble(t, scheduler.Options{}, func(t *testing.T, b *broker) {
		start := time.Now()
		for _, ms := range []int{5250, 700, 3333, 701} {
			b.learn(1, start.Add(time.Duration(ms)*time.Millisecond))
		}
		b.learn(2, start.Add(2*time.Second+1500*time.Microsecond))
		pass(10 * time.Second)
		if got, want := b.wakes(1, start), []time.Duration{700, 701, 3333, 5250}; !equalMillis(got, want) {
			t.Errorf("queue 1 woken at %v, want %v ms", got, want)
		}
		// Up to the next millisecond: before its time a wake would find nothing.
		if got := b.wakes(2, start); !equalMillis(got, []time.Duration{2002}) {
			t.Errorf("queue 2 woken at %v", got)
		}
	})
}

func TestScheduler_AnEarlierTimeShortensTheWait(t *testing.T) {
	t.Parallel()
	inBubble(t, scheduler.Options{PollEvery: time.Hour}, func(t *testing.T, b *broker) {
		start := time.Now()
		b.learn(1, start.Add(time.Minute))
		pass(10 * time.Second)
		b.learn(2, start.Add(20*time.Second))
		pass(time.Minute)
		if got := b.wakes(2, start); !equalMillis(got, []time.Duration{20_000}) {
			t.Errorf("woken at %v", got)
		}
		if got := b.wakes(1, start); !equalMillis(got, []time.Duration{60_000}) {
			t.Errorf("woken at %v", got)
		}
	})
}

// After a restart nobody tells of the items that lie in the store, and it tells of the
// earliest only, which may be overdue.
func TestC07_StoreTellsWhatNobodyElseKnows(t *testing.T) {
	t.Parallel()
	b := newBroker()
	runInBubble(t, b, scheduler.Options{}, func(t *testing.T, b *broker) {
		start := time.Now()
		b.store(1, start.Add(-time.Minute))
		var want []time.Duration
		for i := range 20 {
			ms := time.Duration(1350 + 700*i)
			b.store(1, start.Add(ms*time.Millisecond))
			want = append(want, ms)
		}
		pass(time.Minute)
		if got := b.wakes(1, start); !equalMillis(got, append([]time.Duration{1000}, want...)) {
			t.Errorf("woken at %v, want 1s and %v ms", got, want)
		}
	})
}

func TestScheduler_WakesWhatIsAvailableAtEachPoll(t *testing.T) {
	t.Parallel()
	inBubble(t, scheduler.Options{}, func(t *testing.T, b *broker) {
		start := time.Now()
		b.keep(3, start.Add(-time.Minute)) // another node produced, or a lease lapsed
		pass(3500 * time.Millisecond)
		if got := b.wakes(3, start); !equalMillis(got, []time.Duration{1000, 1100, 2100, 3100}) {
			t.Errorf("woken at %v, want once a second, and once more at first", got)
		}
	})
}

// The store's clock decides; ours may be wrong by minutes.
func TestD05_WakesByTheStoresClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{-3 * time.Minute, 3 * time.Minute} {
		b := newBroker()
		b.ahead = ahead
		runInBubble(t, b, scheduler.Options{}, func(t *testing.T, b *broker) {
			start := time.Now()
			b.learn(1, start.Add(ahead+10*time.Second))
			pass(20 * time.Second)
			if got := b.wakes(1, start); !equalMillis(got, []time.Duration{10_000}) {
				t.Errorf("clock ahead by %v: woken at %v", ahead, got)
			}
		})
	}
}

func TestScheduler_IdleCostsOnePollASecond(t *testing.T) {
	t.Parallel()
	inBubble(t, scheduler.Options{}, func(t *testing.T, b *broker) {
		pass(time.Hour)
		polls, sweeps, tidies := b.calls()
		if polls < 3590 || polls > 3602 || sweeps < 239 || sweeps > 242 || tidies < 59 || tidies > 61 {
			t.Errorf("%d polls, %d sweeps, %d tidies in an hour", polls, sweeps, tidies)
		}
		if n := len(b.woken); n != 0 {
			t.Errorf("%d wakes", n)
		}
	})
}

func TestScheduler_SlowSweepHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	b := newBroker()
	b.slow = 10 * time.Minute
	runInBubble(t, b, scheduler.Options{}, func(t *testing.T, b *broker) {
		start := time.Now()
		b.learn(1, start.Add(5*time.Second))
		pass(time.Minute)
		if got := b.wakes(1, start); !equalMillis(got, []time.Duration{5000}) {
			t.Errorf("woken at %v", got)
		}
	})
}

func TestScheduler_TroubleIsLoggedOnceAndTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBroker()
	b.err = queue.ErrUnavailable
	var log bytes.Buffer
	runInBubble(t, b, scheduler.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, b *broker) {
		pass(10 * time.Minute)
		polls, sweeps, tidies := b.calls()
		if polls < 590 || sweeps < 39 || tidies < 9 {
			t.Errorf("%d polls, %d sweeps, %d tidies while the store refuses", polls, sweeps, tidies)
		}
		b.mu.Lock()
		b.err = nil
		b.mu.Unlock()
		pass(2 * time.Minute)
		if down, up := strings.Count(log.String(), "store refuses"), strings.Count(log.String(), "store answers again"); down != 3 || up != 3 {
			t.Errorf("logged %d and %d times, want once for each of three:\n%s", down, up, log.String())
		}
	})
}

func TestScheduler_RemembersABoundedNumber(t *testing.T) {
	t.Parallel()
	inBubble(t, scheduler.Options{}, func(t *testing.T, b *broker) {
		start := time.Now()
		// Latest first, so that the earliest have to push others out.
		for i := 200; i > 0; i-- {
			b.store(1, start.Add(time.Duration(i)*time.Second))
			b.learn(1, start.Add(time.Duration(i)*time.Second))
		}
		pass(5 * time.Minute)
		if got := b.wakes(1, start); len(got) < 200 {
			t.Errorf("woken %d times for 200 due times", len(got))
		}
	})
}

// broker is a scripted one. What it stores is gone once its queue was woken for it.
type broker struct {
	onDue func(queue.Number, time.Time)
	// ahead is how far its clock is.
	ahead time.Duration
	// slow is how long a sweep takes.
	slow time.Duration

	mu     sync.Mutex
	err    error
	stored map[queue.Number][]time.Time
	kept   map[queue.Number]time.Time
	woken  []wake
	polls  int
	sweeps int
	tidies int
}

type wake struct {
	queue queue.Number
	at    time.Time
}

func newBroker() *broker {
	return &broker{stored: map[queue.Number][]time.Time{}, kept: map[queue.Number]time.Time{}}
}

func inBubble(t *testing.T, o scheduler.Options, f func(*testing.T, *broker)) {
	t.Helper()
	runInBubble(t, newBroker(), o, f)
}

func runInBubble(t *testing.T, b *broker, o scheduler.Options, f func(*testing.T, *broker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Broker = b
		s := scheduler.New(o)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := s.Run(ctx); err != nil {
				t.Errorf("run: %v", err)
			}
		}()
		synctest.Wait()
		f(t, b)
		cancel()
		stopping := time.Now()
		<-ended
		if took := time.Since(stopping); took != 0 {
			t.Errorf("stop took %v", took)
		}
	})
}

func pass(d time.Duration) {
	<-time.After(d) // a bubble's clock jumps
	synctest.Wait()
}

func equalMillis(got, want []time.Duration) bool {
	return slices.EqualFunc(got, want, func(g, w time.Duration) bool { return g == w*time.Millisecond })
}

func (b *broker) OnDue(f func(queue.Number, time.Time)) { b.onDue = f }

func (b *broker) learn(q queue.Number, at time.Time) { b.onDue(q, at) }

func (b *broker) store(q queue.Number, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stored[q] = append(b.stored[q], at)
	slices.SortFunc(b.stored[q], time.Time.Compare)
}

// keep stores what nobody takes.
func (b *broker) keep(q queue.Number, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept[q] = at
}

func (b *broker) NextDue(context.Context) (queue.DueAnswer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.polls++
	if b.err != nil {
		return queue.DueAnswer{}, b.err
	}
	answer := queue.DueAnswer{Now: time.Now().Add(b.ahead)}
	for q, times := range b.stored {
		if len(times) > 0 {
			answer.Queues = append(answer.Queues, queue.QueueDue{Queue: q, At: times[0]})
		}
	}
	for q, at := range b.kept {
		answer.Queues = append(answer.Queues, queue.QueueDue{Queue: q, At: at})
	}
	return answer, nil
}

func (b *broker) Wake(queues ...queue.Number) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, q := range queues {
		b.woken = append(b.woken, wake{q, now})
		b.stored[q] = slices.DeleteFunc(b.stored[q], func(at time.Time) bool { return !at.After(now.Add(b.ahead)) })
	}
}

func (b *broker) Sweep(ctx context.Context) (int, error) {
	b.mu.Lock()
	b.sweeps++
	slow, err := b.slow, b.err
	b.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
		}
	}
	return 0, err
}

func (b *broker) Tidy(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tidies++
	return b.err
}

func (b *broker) wakes(q queue.Number, since time.Time) []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	var at []time.Duration
	for _, w := range b.woken {
		if w.queue == q {
			at = append(at, w.at.Sub(since))
		}
	}
	return at
}

func (b *broker) calls() (polls, sweeps, tidies int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.polls, b.sweeps, b.tidies
}
