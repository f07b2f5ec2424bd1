package client

import (
	"context"
	"iter"
	"time"

	v1 "github.com/posthaste-io/posthaste/api/v1"
)

// Topic copies what is produced to it into the queues of its subscriptions.
type Topic struct {
	// Name is none that a queue has.
	Name string
	// Reference is a note of yours.
	Reference string
	// FromQueue has [Client.CreateTopic] make a topic of the queue of that name, which must
	// have a subscription. Name may be left out then. Answers do not have it.
	FromQueue string

	// What follows is the server's to set.

	// Subscriptions is how many there are.
	Subscriptions int
	CreatedAt     time.Time
	UpdatedAt     time.Time
	// Revision names the version, for [TopicUpdate]; it rises with every subscription that
	// comes or goes, too.
	Revision string
}

// TopicUpdate changes what is set and nothing else.
type TopicUpdate struct {
	// Revision, if set, must be the topic's: the update is refused if somebody else was
	// quicker.
	Revision  string
	Reference *string
}

// CreateTopic makes a topic, or answers already_exists. [Client.CreateSubscription] with
// Topic subscribes to it.
//
// With FromQueue a queue becomes the topic of its name, without its producers noticing: it
// goes on, with its items, as the queue of its subscription, orders~subscription. That
// takes a little more than ten seconds where nodes share a database.
func (c *Client) CreateTopic(ctx context.Context, t Topic) (Topic, error) {
	w := &v1.Topic{Topic: t.Name, FromQueue: t.FromQueue}
	if t.Reference != "" {
		w.Reference = &t.Reference
	}
	return c.topic(ctx, "topics.create", w)
}

// UpdateTopic changes a topic and returns it.
func (c *Client) UpdateTopic(ctx context.Context, name string, u TopicUpdate) (Topic, error) {
	return c.topic(ctx, "topics.update", &v1.Topic{Topic: name, Revision: u.Revision, Reference: u.Reference})
}

// GetTopic returns a topic.
func (c *Client) GetTopic(ctx context.Context, name string) (Topic, error) {
	p := new(v1.Topic)
	if err := c.call(ctx, "topics.info", &v1.TopicsInfoRequest{Topic: name}, p); err != nil {
		return Topic{}, err
	}
	return topicOf(p), nil
}

func (c *Client) topic(ctx context.Context, method string, w *v1.Topic) (Topic, error) {
	p := new(v1.Topic)
	if err := c.call(ctx, method, w, p); err != nil {
		return Topic{}, err
	}
	return topicOf(p), nil
}

// Topics lists topics by name.
func (c *Client) Topics(ctx context.Context) iter.Seq2[Topic, error] {
	return pages(func(cursor string) ([]Topic, string, error) {
		p := new(v1.TopicsListReply)
		if err := c.call(ctx, "topics.list", &v1.TopicsListRequest{Cursor: cursor}, p); err != nil {
			return nil, "", err
		}
		page := make([]Topic, len(p.GetItems()))
		for i, t := range p.GetItems() {
			page[i] = topicOf(t)
		}
		return page, p.GetCursor(), nil
	})
}

// DeleteTopic removes a topic without subscriptions; with force also one that has some,
// which are deleted with their queues and what is in these. Dead-letter queues stay.
func (c *Client) DeleteTopic(ctx context.Context, name string, force bool) error {
	return c.call(ctx, "topics.delete", &v1.TopicsDeleteRequest{Topic: name, Force: force}, nil)
}

func topicOf(t *v1.Topic) Topic {
	return Topic{
		Name: t.GetTopic(), Reference: t.GetReference(), Subscriptions: int(t.GetSubscriptions()),
		CreatedAt: instant(t.GetCreatedAt()), UpdatedAt: instant(t.GetUpdatedAt()), Revision: t.GetRevision(),
	}
}
