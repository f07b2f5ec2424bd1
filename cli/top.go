package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// topCommand watches a server.
type topCommand struct {
	Queue []string      `arg:"" optional:"" help:"Queues; all of them if none is given."`
	Every time.Duration `default:"1s" help:"How often it is looked."`
	Once  bool          `help:"Look once and end, as where output is no terminal. With --json, one object each look, until it is interrupted."`
	connection
}

// leastEvery keeps a mistake from becoming a flood.
const leastEvery = 100 * time.Millisecond

// run implements Command.
func (f *topCommand) run(ctx context.Context, c *console) error {
	if f.Every < leastEvery {
		return usagef("--every %s: want %s at least", f.Every, leastEvery)
	}
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		once := f.Once || !c.shown && !f.JSON
		now, err := f.look(ctx, cl)
		switch {
		case err != nil && ctx.Err() != nil && !once:
			return nil // which is how it is ended
		case err != nil:
			return err
		case once:
			return f.print(c, now, nil)
		}
		return f.watch(ctx, c, cl, now)
	})
}

// snapshot is what a look found.
type snapshot struct {
	at            time.Time
	queues        []counted
	subscriptions []client.Subscription
}

func (f *topCommand) look(ctx context.Context, cl *client.Client) (*snapshot, error) {
	queues, err := countQueues(ctx, cl, f.Queue)
	if err != nil {
		return nil, err
	}
	s := &snapshot{queues: queues}
	if s.subscriptions, err = lanes(ctx, cl, f.Queue); err != nil {
		return nil, err
	}
	s.at = time.Now()
	return s, nil
}

// lanes returns the subscriptions of these queues, or all, with what their pushes do.
func lanes(ctx context.Context, cl *client.Client, queues []string) ([]client.Subscription, error) {
	var subs []client.Subscription
	for s, err := range cl.Subscriptions(ctx) {
		if err != nil {
			return nil, err
		}
		if len(queues) == 0 || slices.Contains(queues, s.Queue) {
			subs = append(subs, s)
		}
	}
	err := each(ctx, len(subs), func(ctx context.Context, i int) error {
		s, err := cl.GetSubscription(ctx, subs[i].Name)
		if client.Is(err, client.CodeNotFound) {
			return nil // deleted meanwhile: it is shown for the last time
		}
		subs[i] = s
		return err
	})
	return subs, err
}

// Codes of a screen: another one and no cursor, so that what stood there comes back;
// lines are cut and not wrapped; drawing over what was there does not flicker.
const (
	screenBegin = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	screenEnd   = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	lineRest    = "\x1b[K"
	screenRest  = "\x1b[J"
)

// watch looks again and again until ctx ends.
func (f *topCommand) watch(ctx context.Context, c *console, cl *client.Client, now *snapshot) (err error) {
	draws := c.shown && !f.JSON
	if draws {
		if err := c.printf(screenBegin); err != nil {
			return err
		}
		defer func() {
			// The screen is given back whatever happened; what happened is told then.
			if e := c.printf(screenEnd); err == nil {
				err = e
			}
		}()
	}
	tick := time.NewTicker(f.Every)
	defer tick.Stop()
	var before *snapshot
	var trouble error
	for {
		if draws {
			err = f.draw(c, now, before, trouble)
		} else if trouble == nil {
			err = f.print(c, now, before)
		}
		if err == nil {
			err = c.flush()
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		next, err := f.look(ctx, cl)
		switch {
		case err == nil:
			before, now, trouble = now, next, nil
		case ctx.Err() != nil:
			return nil
		case statusOfAny(err) != exitUnreached:
			return err
		default:
			trouble = err // it may come back
			if !draws {
				c.note("%s", explain(ctx, err))
			}
		}
	}
}

// draw fills the screen.
func (f *topCommand) draw(c *console, now, before *snapshot, trouble error) error {
	head := fmt.Sprintf("%s  %s  every %s; end with Ctrl-C", printable(f.URL), now.at.Format(time.TimeOnly), f.Every)
	if trouble != nil {
		first, _, _ := strings.Cut(explain(context.Background(), trouble).Error(), "\n")
		head = c.paint(red, head+"  NOT REACHED: "+first)
	}
	lines := append([]string{head, ""}, strings.Split(strings.TrimSuffix(f.body(c, now, before), "\n"), "\n")...)
	if height := c.height(); height > 1 && len(lines) > height {
		hidden := len(lines) - (height - 1)
		lines = append(lines[:height-1], c.paint(dim, fmt.Sprintf("… %d lines more; name queues to see only those", hidden)))
	}
	return c.printf("%s%s%s%s", screenHome, strings.Join(lines, lineRest+"\n"), lineRest, screenRest)
}

// topView is what --json prints for a look.
type topView struct {
	At            time.Time          `json:"at"`
	Queues        []topQueueView     `json:"queues"`
	Subscriptions []subscriptionView `json:"subscriptions"`
}

type topQueueView struct {
	statsView
	Pause string `json:"pause,omitempty"`
	// ReadyRate and TotalRate are the change a second since the look before.
	ReadyRate *float64 `json:"ready_rate,omitempty"`
	TotalRate *float64 `json:"total_rate,omitempty"`
}

func (f *topCommand) print(c *console, now, before *snapshot) error {
	if !f.JSON {
		return c.printf("%s", f.body(c, now, before))
	}
	v := topView{At: now.at.UTC(), Queues: []topQueueView{}, Subscriptions: []subscriptionView{}}
	for _, q := range now.queues {
		qv := topQueueView{statsView: statsViewOf(q.name, q.Stats), Pause: q.settings.Pause}
		if ready, total, ok := rates(q, now, before); ok {
			qv.ReadyRate, qv.TotalRate = &ready, &total
		}
		v.Queues = append(v.Queues, qv)
	}
	for _, s := range now.subscriptions {
		v.Subscriptions = append(v.Subscriptions, subscriptionViewOf(s))
	}
	return c.object(v)
}

// rates are how quickly a queue's ready and total counts change, a second.
func rates(q counted, now, before *snapshot) (ready, total float64, ok bool) {
	if before == nil {
		return 0, 0, false
	}
	i := slices.IndexFunc(before.queues, func(b counted) bool { return b.name == q.name })
	if i < 0 {
		return 0, 0, false
	}
	past, seconds := before.queues[i], now.at.Sub(before.at).Seconds()
	if seconds <= 0 {
		return 0, 0, false
	}
	return float64(q.Ready()-past.Ready()) / seconds, float64(q.Total-past.Total) / seconds, true
}

func rateText(rate float64) string {
	switch {
	case rate > -0.05 && rate < 0.05:
		return "0"
	case rate > -10 && rate < 10:
		return fmt.Sprintf("%+.1f", rate)
	default:
		return fmt.Sprintf("%+.0f", rate)
	}
}

// body is the two tables, aligned wherever they go: top is read by people.
func (f *topCommand) body(c *console, now, before *snapshot) string {
	queues := newTable(slices.Concat(rowHead, []string{">ready/s", ">total/s", "paused"})...)
	for _, q := range now.queues {
		ready, total, ok := rates(q, now, before)
		change := cells("", "")
		if ok {
			change = cells(rateText(ready), rateText(total))
		}
		queues.add(append(append(q.row(), change...), cell{q.settings.Pause, yellow})...)
	}
	text := queues.aligned(c)
	if len(now.queues) == 0 {
		text = "there are no queues\n"
	}
	if len(now.subscriptions) == 0 {
		return text
	}
	subs := newTable("subscription", "queue", "state", ">pushing", ">window", "breaker", "waits", ">deferred", ">lag", "last error")
	for _, s := range now.subscriptions {
		l := s.Lane
		if l == nil {
			subs.add(append([]cell{{text: s.Name}, {text: s.Queue}, stateCell(s.State)}, cells("", "", "", "", "", "", s.Reason)...)...)
			continue
		}
		subs.add(
			cell{text: s.Name}, cell{text: s.Queue}, stateCell(s.State), cell{text: fmt.Sprint(l.InFlight)}, cell{text: fmt.Sprint(l.Window)},
			cell{l.Breaker, breakerColour(l.Breaker)}, cell{waitsText(l.BreakerUntil, l.PausedUntil, l.RateUntil, now.at), yellow},
			cell{text: count(l.Deferred)}, cell{text: spanText(l.Lag)}, lastErrorCell(l.LastError, l.LastErrorAt, now.at),
		)
		for _, h := range l.Hosts {
			subs.add(
				cell{text: "  " + h.Host}, cell{}, cell{}, cell{text: fmt.Sprint(h.InFlight)}, cell{text: fmt.Sprint(h.Window)},
				cell{h.Breaker, breakerColour(h.Breaker)}, cell{waitsText(h.BreakerUntil, h.PausedUntil, h.RateUntil, now.at), yellow},
				cell{}, cell{}, lastErrorCell(h.LastError, h.LastErrorAt, now.at),
			)
		}
	}
	return text + "\n" + subs.aligned(c)
}

func lastErrorCell(text string, at, now time.Time) cell {
	if text == "" {
		return cell{}
	}
	return cell{ago(at, now) + ": " + text, dim}
}
