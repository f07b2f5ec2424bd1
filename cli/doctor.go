package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// doctorCommand looks for what is wrong.
type doctorCommand struct {
	OldAfter time.Duration `default:"5m" placeholder:"DURATION" help:"Ready items of which the first was produced longer ago than this are told of."`
	connection
}

// level is how bad a finding is.
type level int

const (
	isOK level = iota + 1
	isWarning
	isBad
)

// String returns the word.
func (l level) String() string { return [...]string{"invalid", "ok", "warn", "bad"}[l] }

func (l level) colour() colour { return [...]colour{plain, green, yellow, red}[l] }

// finding is what one check found, a line.
type finding struct {
	check string
	level level
	text  string
	// advice is what to do, empty if nothing is.
	advice string
}

type findingView struct {
	Check   string `json:"check"`
	Level   string `json:"level"`
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
}

// run implements Command.
func (f *doctorCommand) run(ctx context.Context, c *console) error {
	bad := 0
	tell := func(found ...finding) error {
		for _, it := range found {
			if it.level == isBad {
				bad++
			}
			if err := f.print(c, it); err != nil {
				return err
			}
		}
		return c.flush()
	}
	if err := f.examine(ctx, tell); err != nil {
		return err
	}
	if bad > 0 {
		return &statusError{fmt.Errorf("%s bad", plural(bad, "check")), exitFailed}
	}
	return nil
}

func (f *doctorCommand) print(c *console, it finding) error {
	if f.JSON {
		return c.object(findingView{it.check, it.level.String(), it.text, it.advice})
	}
	text := printable(it.text)
	if it.advice != "" {
		text += "; " + printable(it.advice)
	}
	if !c.shown {
		return c.printf("%s\t%s\t%s\n", it.level, it.check, text)
	}
	return c.printf("%s %-14s %s\n", c.paint(it.level.colour(), fmt.Sprintf("%-4s", it.level)), it.check, text)
}

// examine makes the checks from the outside in: what cannot be known because of what is
// wrong further out is left out.
func (f *doctorCommand) examine(ctx context.Context, tell func(...finding) error) error {
	cl, err := f.open()
	if err != nil {
		return err
	}
	defer cl.Close()
	h, err := f.health(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := tell(judgeHealth(f.URL, h, err)...); err != nil || h == nil {
		return err
	}
	queues, err := countQueues(ctx, cl, nil)
	if err := tell(judgeKey(err)); err != nil {
		return err
	}
	if err != nil {
		return ctx.Err() // it was told
	}
	found, err := f.judgeQueues(ctx, cl, queues, h.now(time.Now()))
	if err != nil {
		return err
	}
	if err := tell(found...); err != nil {
		return err
	}
	subs, err := lanes(ctx, cl, nil)
	if err != nil {
		return err
	}
	if err := tell(judgeSubscriptions(subs, queues, time.Now())...); err != nil {
		return err
	}
	found, err = judgeSchedules(ctx, cl, h.now(time.Now()))
	if err != nil {
		return err
	}
	return tell(found...)
}

// judgeKey takes the error of the first call that wants a key.
func judgeKey(err error) finding {
	switch {
	case err == nil:
		return finding{"key", isOK, "the server takes our calls", ""}
	case client.Is(err, client.CodeUnauthenticated), client.Is(err, client.CodeForbidden):
		text, _, _ := strings.Cut(explain(context.Background(), err).Error(), "\n")
		return finding{"key", isBad, text, "$POSTHASTE_KEY or --key-file give the key; posthaste key new makes one for the server"}
	default:
		text, _, _ := strings.Cut(explain(context.Background(), err).Error(), "\n")
		return finding{"calls", isBad, text, "see the server's log"}
	}
}

// recently is how new a buried item is that makes a dead-letter queue a growing one.
const recently = time.Hour

// judgeQueues looks at what waits and at what was buried. now is the server's.
func (f *doctorCommand) judgeQueues(ctx context.Context, cl *client.Client, queues []counted, now time.Time) ([]finding, error) {
	dead := map[string]bool{}
	for _, q := range queues {
		dead[q.settings.DeadQueue] = true
	}
	found := make([][]finding, len(queues))
	err := each(ctx, len(queues), func(ctx context.Context, i int) error {
		q := queues[i]
		var err error
		switch {
		case q.Total == 0:
		case dead[q.name] || strings.HasSuffix(q.name, "~dead"):
			found[i], err = judgeDead(ctx, cl, q, now)
		case q.Ready() > 0:
			found[i], err = f.judgeWaiting(ctx, cl, q, now)
		}
		if client.Is(err, client.CodeNotFound) {
			return nil // it went away meanwhile
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var all []finding
	for i, q := range queues {
		if q.settings.Pause != "" {
			all = append(all, finding{"queue", isWarning, q.name + " is paused: " + q.settings.Pause, "posthaste queues resume " + q.name})
		}
		all = append(all, found[i]...)
	}
	if len(all) == 0 {
		all = append(all, finding{"queues", isOK, fmt.Sprintf("%s: nothing waits for long, is buried or paused", plural(len(queues), "queue")), ""})
	}
	return all, nil
}

// judgeWaiting looks at the first item that could be leased.
func (f *doctorCommand) judgeWaiting(ctx context.Context, cl *client.Client, q counted, now time.Time) ([]finding, error) {
	for it, err := range cl.Items(ctx, q.name) {
		if err != nil {
			return nil, err
		}
		if it.State != "ready" {
			return nil, nil // they stand first, so it was taken meanwhile
		}
		age := now.Sub(it.CreatedAt)
		if age < f.OldAfter {
			return nil, nil
		}
		infos, err := cl.ItemInfo(ctx, it.ItemID, q.name)
		if err != nil || len(infos) == 0 {
			return nil, err
		}
		return []finding{{
			"queue", isWarning,
			fmt.Sprintf("%s has %s ready, the first of them produced %s ago: %s", q.name, plural(q.Ready(), "item"), shortSpan(age), cmp.Or(infos[0].Message, infos[0].Why)),
			adviceOf(infos[0]),
		}}, nil
	}
	return nil, nil
}

// adviceOf says what to do about an item that is not delivered.
func adviceOf(i client.ItemInfo) string {
	switch i.Why {
	case "no_receiver":
		return "start consumers, or posthaste subscriptions create"
	case "queue_paused":
		return "posthaste queues resume " + i.Queue
	case "subscription_paused":
		return "posthaste subscriptions resume " + i.Subscription
	case "subscription_disabled":
		return "posthaste subscriptions enable " + i.Subscription
	case "rate_limited":
		return "posthaste subscriptions info " + i.Subscription + " shows its rate and what the endpoint asked for; posthaste subscriptions update --rate raises it"
	case "breaker_open":
		return "posthaste subscriptions info " + i.Subscription + " shows the endpoint's last error"
	case "window_full":
		return "the endpoint is slow; posthaste subscriptions update " + i.Subscription + " --max-in-flight lets more requests run"
	default:
		return "more consumers or a quicker endpoint would help"
	}
}

// judgeDead counts what was buried, and how much of it lately.
func judgeDead(ctx context.Context, cl *client.Client, q counted, now time.Time) ([]finding, error) {
	old, err := cl.Redrive(ctx, q.name, client.RedriveParams{Before: now.Add(-recently), DryRun: true})
	if err != nil {
		return nil, err
	}
	advice := fmt.Sprintf("posthaste items list %s shows why; posthaste redrive %s moves them back", q.name, q.name)
	fresh := q.Total - old.Moved - old.Skipped
	switch {
	case old.More:
		return []finding{{"dead letters", isWarning, fmt.Sprintf("%s has %s", q.name, plural(q.Total, "item")), advice}}, nil
	case fresh > 0:
		return []finding{{"dead letters", isWarning, fmt.Sprintf("%s grows: %s, %d of them within the last hour", q.name, plural(q.Total, "item"), fresh), advice}}, nil
	default:
		return []finding{{"dead letters", isOK, fmt.Sprintf("%s has %s, none of them from the last hour", q.name, plural(q.Total, "item")), advice}}, nil
	}
}

// hostOf is where an endpoint is. The rest of its URL may be a secret, and findings are
// shown around.
func hostOf(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "its URL"
	}
	return u.Host
}

func judgeSubscriptions(subs []client.Subscription, queues []counted, now time.Time) []finding {
	var all []finding
	for _, s := range subs {
		waiting := ""
		if i := slices.IndexFunc(queues, func(q counted) bool { return q.name == s.Queue }); i >= 0 && queues[i].Total > 0 {
			waiting = fmt.Sprintf("; %s in %s", plural(queues[i].Total, "item"), s.Queue)
		}
		switch {
		case s.State == "disabled":
			all = append(all, finding{
				"subscription", isBad, fmt.Sprintf("%s is disabled: %s%s", s.Name, s.Reason, waiting),
				"mend the endpoint, then posthaste subscriptions enable " + s.Name,
			})
		case s.State == "paused":
			all = append(all, finding{"subscription", isWarning, s.Name + " is paused" + waiting, "posthaste subscriptions resume " + s.Name})
		case s.Lane != nil && s.Lane.Breaker == "open":
			all = append(all, finding{"subscription", isWarning, fmt.Sprintf("%s: its breaker is open, so nothing is sent for a while%s; last error: %s",
				s.Name, waiting, s.Lane.LastError), "see to the endpoint at " + hostOf(s.URL)})
		case s.Lane != nil && s.Lane.PausedUntil.After(now):
			all = append(all, finding{"subscription", isWarning, fmt.Sprintf("%s: the endpoint asked to wait until %s%s", s.Name, when(s.Lane.PausedUntil, now), waiting), ""})
		case !s.FailingSince.IsZero():
			all = append(all, finding{
				"subscription", isWarning, fmt.Sprintf("%s: nothing but failures for %s%s", s.Name, shortSpan(now.Sub(s.FailingSince)), waiting),
				"posthaste attempts list --subscription " + s.Name + " shows them",
			})
		}
	}
	if len(all) == 0 {
		all = append(all, finding{"subscriptions", isOK, fmt.Sprintf("%s: none is paused, disabled or failing", plural(len(subs), "subscription")), ""})
	}
	return all
}
