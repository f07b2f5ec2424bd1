package cli

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// subscriptionsCommands look after endpoints.
type subscriptionsCommands struct {
	List   subscriptionsListCommand   `cmd:"" help:"List subscriptions by name."`
	Info   subscriptionsInfoCommand   `cmd:"" help:"Show a subscription, and what its pushes do now."`
	Create subscriptionsCreateCommand `cmd:"" help:"Push a queue's items to an endpoint. The queue is made if it is not there; the secret that signs pushes is shown once."`
	Update subscriptionsUpdateCommand `cmd:"" help:"Change what is given, and nothing else."`
	Delete subscriptionsDeleteCommand `cmd:"" help:"End pushes. The queue stays, and its items can be leased; that of a subscription on a topic is deleted with all items in it."`
	Pause  subscriptionsPauseCommand  `cmd:"" help:"Stop pushes; those that run go on."`
	Resume subscriptionsResumeCommand `cmd:"" help:"End a pause."`
	Enable subscriptionsEnableCommand `cmd:"" help:"Push again to an endpoint that was disabled, as by a 410."`
	Test   subscriptionsTestCommand   `cmd:"" help:"Send a sample to the endpoint and tell what came of it; nothing is queued. Exit status 0: it was taken; 1: it was not."`
	Rotate subscriptionsRotateCommand `cmd:"" help:"Sign pushes with a new secret, which is shown once. The one before signs as well for a while, so that receivers can change theirs in peace."`
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

type subscriptionsCreateCommand struct {
	Subscription string `arg:"" help:"Its name."`
	Queue        string `arg:"" help:"The queue, which has one subscription; with --topic the topic."`
	Endpoint     string `arg:"" optional:"" help:"URL that items are sent to. With --allow-target it may be left out: each item brings its own; and with --topic, where consumers lease from the queue TOPIC~SUBSCRIPTION."`
	Topic        bool   `help:"Subscribe to a topic: its items are copied into a queue of the subscription's own."`
	SecretFile   string `placeholder:"FILE" help:"File with the secret that signs pushes, whsec_… or whsk_… ; - is standard input. Without it the server makes one."`
	Paused       bool   `help:"Push nothing until it is resumed."`

	endpointFlags
	connection
}

// run implements Command.
func (f *subscriptionsCreateCommand) run(ctx context.Context, c *console) error {
	if f.Endpoint == "" && !f.Topic && (f.AllowTarget == nil || !*f.AllowTarget) {
		return usagef("say where items are sent to: a URL after the queue, or --allow-target where each item brings its own")
	}
	s, err := f.creation(ctx, c)
	if err != nil {
		return err
	}
	s.Name, s.Queue, s.URL, s.Paused = f.Subscription, f.Queue, f.Endpoint, f.Paused
	if f.Topic {
		s.Queue, s.Topic = "", f.Queue
	}
	if s.Secret, err = c.secret(ctx, "--secret-file", f.SecretFile); err != nil {
		return err
	}
	return f.subscription(ctx, c, func(cl *client.Client) (client.Subscription, error) {
		return cl.CreateSubscription(ctx, s)
	})
}

type subscriptionsUpdateCommand struct {
	subscriptionName
	Endpoint string `placeholder:"URL" help:"URL that items are sent to."`
	Revision string `placeholder:"TEXT" help:"Refuse the change unless this is still the subscription's revision."`
	NoFilter bool   `help:"Get all items of the topic again."`
	NoAuth   bool   `help:"Take away all that requests authenticate with, but for their signatures."`

	endpointFlags
	connection
}

// run implements Command.
func (f *subscriptionsUpdateCommand) run(ctx context.Context, c *console) error {
	if f.NoFilter && f.givesFilter() {
		return usagef("--no-filter takes the filter away, and the other flags of filters set one; give one or the other")
	}
	u, err := f.update()
	switch {
	case err != nil:
		return err
	case f.NoAuth && f.givesAuth():
		return usagef("--no-auth takes authentication away; leave the flags out that give some")
	}
	u.URL = f.Endpoint
	if reflect.DeepEqual(u, client.SubscriptionUpdate{}) && !f.NoFilter && !f.NoAuth && !f.givesBatch() && !f.givesAuth() {
		return usagef("nothing to change was given")
	}
	u.Revision = f.Revision
	if f.NoFilter {
		u.Filter = new(client.Filter)
	}
	if f.NoAuth {
		u.Auth = new(client.Auth)
	}
	return f.subscription(ctx, c, func(cl *client.Client) (client.Subscription, error) {
		if err := f.compound(ctx, c, cl, &u); err != nil {
			return client.Subscription{}, err
		}
		return cl.UpdateSubscription(ctx, f.Subscription, u)
	})
}

// compound adds what is replaced whole: what is there, with what was given in its place.
func (f *subscriptionsUpdateCommand) compound(ctx context.Context, c *console, cl *client.Client, u *client.SubscriptionUpdate) error {
	if !f.givesBatch() && !f.givesAuth() {
		return nil
	}
	s, err := cl.GetSubscription(ctx, f.Subscription)
	if err != nil {
		return err
	}
	u.Revision = cmp.Or(u.Revision, s.Revision) // so that it is what was there
	if f.givesBatch() {
		u.Batch = cmp.Or(s.Batch, new(client.Batch))
		if err := f.changeBatch(u.Batch); err != nil {
			return err
		}
	}
	if f.givesAuth() {
		u.Auth = cmp.Or(s.Auth, new(client.Auth))
		return f.changeAuth(ctx, c, u.Auth)
	}
	return nil
}

type subscriptionsDeleteCommand struct {
	subscriptionName
	Yes bool `short:"y" help:"Do not ask."`

	connection
}

// run implements Command.
func (f *subscriptionsDeleteCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		if !f.Yes {
			question, err := f.question(ctx, cl)
			if err != nil {
				return err
			}
			if err := c.confirm(ctx, false, question); err != nil {
				return err
			}
		}
		if err := cl.DeleteSubscription(ctx, f.Subscription); err != nil {
			return err
		}
		return f.done(c, map[string]string{"name": f.Subscription}, "%s deleted", f.Subscription)
	})
}

// question tells what is gone after a deletion: on a topic the queue, too.
func (f *subscriptionsDeleteCommand) question(ctx context.Context, cl *client.Client) (string, error) {
	s, err := cl.GetSubscription(ctx, f.Subscription)
	if err != nil {
		return "", err
	}
	if s.Topic == "" {
		return fmt.Sprintf("Delete %s? Its secret is gone then, and receivers refuse what another one signs.", s.Name), nil
	}
	held, err := cl.Stats(ctx, s.Queue)
	if err != nil && !client.Is(err, client.CodeNotFound) {
		return "", err
	}
	return fmt.Sprintf("Delete %s, its queue %s and %s in it? Its secret is gone then, and receivers refuse what another one signs.",
		s.Name, s.Queue, plural(held.Total, "item")), nil
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
