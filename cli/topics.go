package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// topicsCommands look after topics.
type topicsCommands struct {
	List   topicsListCommand   `cmd:"" help:"List topics by name."`
	Info   topicsInfoCommand   `cmd:"" help:"Show a topic."`
	Create topicsCreateCommand `cmd:"" help:"Make a topic. Whoever subscribes gets what is produced to it from then on."`
	Update topicsUpdateCommand `cmd:"" help:"Change what is given, and nothing else."`
	Delete topicsDeleteCommand `cmd:"" help:"Delete a topic. One with subscriptions is kept, unless --force is given."`
}

type topicsListCommand struct{ connection }

// run implements Command.
func (f *topicsListCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		rows := newTable("topic", ">subscriptions", "reference")
		for t, err := range cl.Topics(ctx) {
			if err != nil {
				return err
			}
			if f.JSON {
				if err := c.object(topicViewOf(t)); err != nil {
					return err
				}
				continue
			}
			rows.add(cell{text: t.Name}, cell{text: strconv.Itoa(t.Subscriptions)}, cell{text: t.Reference})
		}
		if f.JSON {
			return nil
		}
		return rows.print(c)
	})
}

// topicName is what most commands take.
type topicName struct {
	Topic string `arg:"" help:"The topic."`
}

type topicsInfoCommand struct {
	topicName
	connection
}

// run implements Command.
func (f *topicsInfoCommand) run(ctx context.Context, c *console) error {
	return f.topic(ctx, c, func(ctx context.Context, cl *client.Client) (client.Topic, error) {
		return cl.GetTopic(ctx, f.Topic)
	})
}

// topic prints what a call answers.
func (f *connection) topic(ctx context.Context, c *console, do func(context.Context, *client.Client) (client.Topic, error)) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		t, err := do(ctx, cl)
		if err != nil {
			return err
		}
		if f.JSON {
			return c.object(topicViewOf(t))
		}
		r, now := new(record), time.Now()
		r.paint("topic", t.Name, bold)
		r.set("reference", t.Reference)
		r.set("subscriptions", strconv.Itoa(t.Subscriptions))
		r.set("created", when(t.CreatedAt, now))
		r.set("updated", when(t.UpdatedAt, now))
		r.set("revision", t.Revision)
		return r.print(c)
	})
}

type topicsCreateCommand struct {
	Topic     string `arg:"" help:"Its name, which no queue has."`
	FromQueue bool   `help:"Make it of the queue that has this name, and a subscription. The queue goes on, with its items, as <topic>~<subscription>, and producers notice nothing."`
	Reference string `placeholder:"TEXT" help:"A note of yours; without it a queue's is kept."`

	connection
}

// run implements Command.
func (f *topicsCreateCommand) run(ctx context.Context, c *console) error {
	return f.topic(ctx, c, func(ctx context.Context, cl *client.Client) (client.Topic, error) {
		t := client.Topic{Name: f.Topic, Reference: f.Reference}
		if f.FromQueue {
			t.FromQueue = f.Topic
		}
		return cl.CreateTopic(ctx, t)
	})
}

type topicsUpdateCommand struct {
	topicName
	Reference *string `placeholder:"TEXT" help:"A note of yours."`
	Revision  string  `placeholder:"TEXT" help:"Refuse the change unless this is still the topic's revision."`

	connection
}

// run implements Command.
func (f *topicsUpdateCommand) run(ctx context.Context, c *console) error {
	if f.Reference == nil {
		return usagef("nothing to change was given")
	}
	return f.topic(ctx, c, func(ctx context.Context, cl *client.Client) (client.Topic, error) {
		return cl.UpdateTopic(ctx, f.Topic, client.TopicUpdate{Reference: f.Reference, Revision: f.Revision})
	})
}

type topicsDeleteCommand struct {
	topicName
	Force bool `help:"Delete its subscriptions too, with their queues and all items in these. Dead-letter queues stay."`
	Yes   bool `short:"y" help:"Do not ask."`

	connection
}

// run implements Command.
func (f *topicsDeleteCommand) run(ctx context.Context, c *console) error {
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		if f.Force && !f.Yes {
			t, err := cl.GetTopic(ctx, f.Topic)
			if err != nil {
				return err
			}
			question := fmt.Sprintf("Delete %s with %s, each with its queue and all items in it?", f.Topic, plural(t.Subscriptions, "subscription"))
			if t.Subscriptions == 0 {
				question = fmt.Sprintf("Delete %s? It has no subscriptions.", f.Topic)
			}
			if err := c.confirm(ctx, false, question); err != nil {
				return err
			}
		}
		if err := cl.DeleteTopic(ctx, f.Topic, f.Force); err != nil {
			return err
		}
		return f.done(c, map[string]string{"topic": f.Topic}, "%s deleted", f.Topic)
	})
}

type topicView struct {
	Topic         string    `json:"topic"`
	Reference     string    `json:"reference,omitempty"`
	Subscriptions int       `json:"subscriptions"`
	CreatedAt     time.Time `json:"created_at,omitzero"`
	UpdatedAt     time.Time `json:"updated_at,omitzero"`
	Revision      string    `json:"revision,omitempty"`
}

func topicViewOf(t client.Topic) topicView {
	return topicView{
		Topic: t.Name, Reference: t.Reference, Subscriptions: t.Subscriptions,
		CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, Revision: t.Revision,
	}
}
