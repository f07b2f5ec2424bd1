package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// subscriptionsCommands look after endpoints.
type subscriptionsCommands struct {
	List   subscriptionsListCommand   `cmd:"" help:"List subscriptions by name."`
	Info   subscriptionsInfoCommand   `cmd:"" help:"Show a subscription, and what its pushes do now."`
	Create subscriptionsCreateCommand `cmd:"" help:"Push a queue's items to an endpoint. The queue is made if it is not there; the secret that signs pushes is shown once."`
	Update subscriptionsUpdateCommand `cmd:"" help:"Change what is given, and nothing else."`
	Delete subscriptionsDeleteCommand `cmd:"" help:"End pushes. The queue stays, and its items can be leased."`
	Pause  subscriptionsPauseCommand  `cmd:"" help:"Stop pushes; those that run go on."`
	Resume subscriptionsResumeCommand `cmd:"" help:"End a pause."`
	Enable subscriptionsEnableCommand `cmd:"" help:"Push again to an endpoint that was disabled, as by a 410."`
}

type subscriptionsListCommand struct{ connection }

// run implements Command.
func (f *subscriptionsListCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		rows := newTable("subscription", "queue", "state", "url")
		for s, err := range cl.Subscriptions(ctx) {
			if err != nil {
				return err
			}
			if f.JSON {
				if err := c.object(subscriptionViewOf(s)); err != nil {
					return err
				}
				continue
			}
			rows.add(cell{text: s.Name}, cell{text: s.Queue}, stateCell(s.State), cell{text: s.URL})
		}
		if f.JSON {
			return nil
		}
		return rows.print(c)
	})
}

// stateCell paints a subscription's state.
func stateCell(state string) cell {
	switch state {
	case "active":
		return cell{state, green}
	case "disabled":
		return cell{state, red}
	default:
		return cell{state, yellow}
	}
}

// subscriptionName is what most commands take.
type subscriptionName struct {
	Subscription string `arg:"" help:"The subscription."`
}

type subscriptionsInfoCommand struct {
	subscriptionName
	connection
}

// run implements Command.
func (f *subscriptionsInfoCommand) run(ctx context.Context, c *console) error {
	return f.subscription(ctx, c, func(cl *client.Client) (client.Subscription, error) {
		return cl.GetSubscription(ctx, f.Subscription)
	})
}

// subscription prints what a call answers.
func (f *connection) subscription(ctx context.Context, c *console, do func(cl *client.Client) (client.Subscription, error)) error {
	return f.with(ctx, func(_ context.Context, cl *client.Client) error {
		s, err := do(cl)
		if err != nil {
			return err
		}
		if f.JSON {
			return c.object(subscriptionViewOf(s))
		}
		return subscriptionRecord(s, time.Now()).print(c)
	})
}

func subscriptionRecord(s client.Subscription, now time.Time) *record {
	r := new(record)
	r.paint("subscription", s.Name, bold)
	r.set("queue", s.Queue)
	r.set("url", s.Method+" "+s.URL)
	for name, value := range sorted(s.Headers) {
		r.set("header", name+": "+value)
	}
	r.paint("state", s.State, stateCell(s.State).colour)
	r.paint("reason", s.Reason, red)
	r.set("disabled", when(s.DisabledAt, now))
	r.paint("secret", s.Secret, bold)
	r.set("timeout", spanText(s.Timeout))
	r.set("max in flight", strconv.Itoa(s.MaxInFlight))
	r.set("retry", retryText(s.Retry))
	if l := s.Lane; l != nil {
		r.set("pushing", fmt.Sprintf("%d of %d", l.InFlight, l.Window))
		r.paint("breaker", l.Breaker, breakerColour(l.Breaker))
		r.set("breaker until", when(l.BreakerUntil, now))
		r.set("waits until", when(l.PausedUntil, now))
		r.set("lag", shortSpan(l.Lag))
		r.paint("last error", l.LastError, red)
		r.set("last error at", when(l.LastErrorAt, now))
	}
	r.set("created", when(s.CreatedAt, now))
	r.set("updated", when(s.UpdatedAt, now))
	r.set("revision", s.Revision)
	return r
}

func breakerColour(state string) colour {
	if state == "open" {
		return red
	}
	return plain
}

// retryText says a policy in words.
func retryText(p client.RetryPolicy) string {
	parts := []string{limit(p.MaxAttempts) + " attempts"}
	if p.MaxAttempts == -1 {
		parts[0] = "any number of attempts"
	}
	if len(p.Schedule) > 0 {
		waits := make([]string, len(p.Schedule))
		for i, wait := range p.Schedule {
			waits[i] = shortSpan(wait)
		}
		parts = append(parts, "after "+strings.Join(waits, ", "))
	} else if p.MinBackoff > 0 {
		parts = append(parts, fmt.Sprintf("after %s, times %v, up to %s", shortSpan(p.MinBackoff), p.Multiplier, shortSpan(p.MaxBackoff)))
	}
	if p.GiveUpAfter != nil && *p.GiveUpAfter > 0 {
		parts = append(parts, "given up after "+shortSpan(*p.GiveUpAfter))
	}
	if len(p.BuryOn) > 0 {
		parts = append(parts, "buried at once on "+strings.Trim(fmt.Sprint(p.BuryOn), "[]"))
	}
	return strings.Join(parts, "; ")
}

// endpointFlags are what create and update have in common.
type endpointFlags struct {
	Method      string            `placeholder:"POST" help:"POST, PUT or PATCH."`
	Header      map[string]string `short:"H" sep:"none" mapsep:"none" placeholder:"NAME=VALUE" help:"Sent with each push. May be repeated; an update replaces all of them."`
	HeaderFile  string            `placeholder:"FILE" help:"File with more of them, a line each, NAME: VALUE, for those that nobody should read from a command line."`
	Timeout     time.Duration     `placeholder:"DURATION" help:"Bounds one attempt, 1s to 30m. Default 30s."`
	MaxInFlight int               `placeholder:"N" help:"How many requests run at one time. Default 32."`
	MaxAttempts int               `placeholder:"N" help:"How often an item is tried; --max-attempts=-1 is no limit. Default 12."`
	Schedule    []time.Duration   `placeholder:"DURATION,…" help:"The wait before each retry; the last one repeats. Instead of a wait that grows."`
	MinBackoff  time.Duration     `placeholder:"DURATION" help:"The first wait. Default 5s."`
	MaxBackoff  time.Duration     `placeholder:"DURATION" help:"The longest wait. Default 12h."`
	Multiplier  float64           `placeholder:"N" help:"By how much the wait grows. Default 3."`
	GiveUpAfter *time.Duration    `placeholder:"DURATION" help:"Bury an item that fails when it is older; 0s is never. Default 168h."`
	BuryOn      []int             `placeholder:"STATUS,…" help:"HTTP statuses that bury an item at once."`
}

// headers are those of the flags and of the file.
func (f *endpointFlags) headers() (map[string]string, error) {
	if f.HeaderFile == "" {
		return f.Header, nil
	}
	text, err := os.ReadFile(f.HeaderFile)
	if err != nil {
		return nil, usagef("--header-file: %w", err)
	}
	all := maps.Clone(f.Header)
	if all == nil {
		all = map[string]string{}
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, usagef("--header-file: line %d: want NAME: VALUE", number) // not shown: it may be a secret
		}
		all[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return all, nil
}

func (f *endpointFlags) retry() client.RetryPolicy {
	return client.RetryPolicy{
		MaxAttempts: f.MaxAttempts, Schedule: f.Schedule, MinBackoff: f.MinBackoff, MaxBackoff: f.MaxBackoff,
		Multiplier: f.Multiplier, GiveUpAfter: f.GiveUpAfter, BuryOn: f.BuryOn,
	}
}

func (f *endpointFlags) givesRetry() bool {
	return f.MaxAttempts != 0 || len(f.Schedule) > 0 || f.MinBackoff != 0 || f.MaxBackoff != 0 || f.Multiplier != 0 ||
		f.GiveUpAfter != nil || len(f.BuryOn) > 0
}

type subscriptionsCreateCommand struct {
	Subscription string `arg:"" help:"Its name."`
	Queue        string `arg:"" help:"The queue, which has one subscription."`
	Endpoint     string `arg:"" help:"URL that items are sent to."`
	SecretFile   string `placeholder:"FILE" help:"File with the secret that signs pushes, whsec_… . Without it the server makes one."`
	Paused       bool   `help:"Push nothing until it is resumed."`

	endpointFlags
	connection
}

// run implements Command.
func (f *subscriptionsCreateCommand) run(ctx context.Context, c *console) error {
	secret := ""
	if f.SecretFile != "" {
		text, err := os.ReadFile(f.SecretFile)
		if err != nil {
			return usagef("--secret-file: %w", err)
		}
		secret = strings.TrimSpace(string(text))
		if secret == "" {
			return usagef("--secret-file %s: holds no secret", f.SecretFile)
		}
	}
	headers, err := f.headers()
	if err != nil {
		return err
	}
	return f.subscription(ctx, c, func(cl *client.Client) (client.Subscription, error) {
		return cl.CreateSubscription(ctx, client.Subscription{
			Name: f.Subscription, Queue: f.Queue, URL: f.Endpoint, Method: f.Method, Headers: headers, Timeout: f.Timeout,
			MaxInFlight: f.MaxInFlight, Retry: f.retry(), Paused: f.Paused, Secret: secret,
		})
	})
}

type subscriptionsUpdateCommand struct {
	subscriptionName
	Endpoint string `placeholder:"URL" help:"URL that items are sent to."`
	Revision string `placeholder:"TEXT" help:"Refuse the change unless this is still the subscription's revision."`

	endpointFlags
	connection
}

// run implements Command.
func (f *subscriptionsUpdateCommand) run(ctx context.Context, c *console) error {
	headers, err := f.headers()
	if err != nil {
		return err
	}
	u := client.SubscriptionUpdate{
		Revision: f.Revision, URL: f.Endpoint, Method: f.Method, Headers: headers, Timeout: f.Timeout, MaxInFlight: f.MaxInFlight,
	}
	if f.givesRetry() {
		u.Retry = new(f.retry())
	}
	if u.URL == "" && u.Method == "" && len(u.Headers) == 0 && u.Timeout == 0 && u.MaxInFlight == 0 && u.Retry == nil {
		return usagef("nothing to change was given")
	}
	return f.subscription(ctx, c, func(cl *client.Client) (client.Subscription, error) {
		return cl.UpdateSubscription(ctx, f.Subscription, u)
	})
}

type subscriptionsDeleteCommand struct {
	subscriptionName
	Yes bool `short:"y" help:"Do not ask."`

	connection
}

// run implements Command.
func (f *subscriptionsDeleteCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		question := fmt.Sprintf("Delete %s? Its secret is gone then, and receivers refuse what another one signs.", f.Subscription)
		if err := c.confirm(ctx, f.Yes, question); err != nil {
			return err
		}
		if err := cl.DeleteSubscription(ctx, f.Subscription); err != nil {
			return err
		}
		return f.done(c, map[string]string{"name": f.Subscription}, "%s deleted", f.Subscription)
	})
}

type subscriptionsPauseCommand struct {
	subscriptionName
	connection
}

// run implements Command.
func (f *subscriptionsPauseCommand) run(ctx context.Context, c *console) error {
	return f.state(ctx, c, (*client.Client).PauseSubscription, f.Subscription)
}

type subscriptionsResumeCommand struct {
	subscriptionName
	connection
}

// run implements Command.
func (f *subscriptionsResumeCommand) run(ctx context.Context, c *console) error {
	return f.state(ctx, c, (*client.Client).ResumeSubscription, f.Subscription)
}

type subscriptionsEnableCommand struct {
	subscriptionName
	connection
}

// run implements Command.
func (f *subscriptionsEnableCommand) run(ctx context.Context, c *console) error {
	return f.state(ctx, c, (*client.Client).EnableSubscription, f.Subscription)
}

// state does one of pause, resume and enable, and says in what state it is then.
func (f *connection) state(ctx context.Context, c *console, do func(*client.Client, context.Context, string) (client.Subscription, error), name string) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		s, err := do(cl, ctx, name)
		if err != nil {
			return err
		}
		return f.done(c, subscriptionViewOf(s), "%s: %s", s.Name, s.State)
	})
}
