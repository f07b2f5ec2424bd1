package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
)

func (s *Server) topicRoutes() {
	register(s, method[*v1.Topic, *v1.Topic]{
		name: "topics.create", bytes: s.limits.Call,
		noun: "topic", target: newTopic, place: newTopicPlace,
		do: s.createTopic,
	})
	register(s, method[*v1.Topic, *v1.Topic]{
		name: "topics.update", bytes: s.limits.Call,
		noun: "topic", target: (*v1.Topic).GetTopic,
		do: s.updateTopic,
	})
	register(s, method[*v1.TopicsListRequest, *v1.TopicsListReply]{
		name: "topics.list", bytes: s.limits.Call,
		noun: "topic", target: noTarget[*v1.TopicsListRequest], optional: true,
		do: s.listTopics,
	})
	register(s, method[*v1.TopicsInfoRequest, *v1.Topic]{
		name: "topics.info", bytes: s.limits.Call,
		noun: "topic", target: (*v1.TopicsInfoRequest).GetTopic,
		do: func(ctx context.Context, c *call, q *v1.TopicsInfoRequest) (*v1.Topic, error) {
			p, err := s.topic(ctx, c, q.GetTopic())
			return p, s.noTopic(ctx, c, q.GetTopic(), err, "use queues.info")
		},
	})
	register(s, method[*v1.TopicsDeleteRequest, *v1.Reply]{
		name: "topics.delete", bytes: s.limits.Call,
		noun: "topic", target: (*v1.TopicsDeleteRequest).GetTopic,
		do: func(ctx context.Context, c *call, q *v1.TopicsDeleteRequest) (*v1.Reply, error) {
			return done(s.deleteTopic(ctx, c, q))
		},
	})
}

func (s *Server) createTopic(ctx context.Context, c *call, q *v1.Topic) (*v1.Topic, error) {
	name, from := newTopic(q), q.GetFromQueue()
	switch {
	case q.GetRevision() != "":
		return nil, queue.Invalid("revision", "is for updates; a new topic has none")
	case from != "" && from != name:
		return nil, queue.Invalid("topic", "is %s, but the topic that is made of the queue %s has its name; leave it out", name, from)
	case from != "":
		if _, err := s.broker.TurnIntoTopic(ctx, c.namespace, from, q.GetReference()); err != nil {
			return nil, err
		}
		return s.topic(ctx, c, name)
	}
	if _, err := s.broker.CreateTopic(ctx, c.namespace, q.GetTopic(), q.GetReference()); err != nil {
		return nil, err
	}
	return s.topic(ctx, c, q.GetTopic())
}

// newTopic is the name of a topic that is to be made.
func newTopic(q *v1.Topic) string { return cmp.Or(q.GetTopic(), q.GetFromQueue()) }

func newTopicPlace(q *v1.Topic) string {
	if q.GetTopic() == "" && q.GetFromQueue() != "" {
		return "from_queue"
	}
	return "topic"
}

func (s *Server) updateTopic(ctx context.Context, c *call, q *v1.Topic) (*v1.Topic, error) {
	if q.GetFromQueue() != "" {
		return nil, queue.Invalid("from_queue", "is for topics.create; leave it out")
	}
	update := queue.TopicUpdate{Namespace: c.namespace, Name: q.GetTopic(), Reference: q.Reference}
	var err error
	if update.Revision, err = revision(q.GetRevision()); err != nil {
		return nil, err
	}
	if _, err := s.broker.UpdateTopic(ctx, update); err != nil {
		return nil, s.noTopic(ctx, c, q.GetTopic(), err, "use queues.update")
	}
	return s.topic(ctx, c, q.GetTopic())
}

func (s *Server) deleteTopic(ctx context.Context, c *call, q *v1.TopicsDeleteRequest) error {
	err := s.broker.DeleteTopic(ctx, c.namespace, q.GetTopic(), q.GetForce())
	if !errors.Is(err, queue.ErrNotEmpty) {
		return s.noTopic(ctx, c, q.GetTopic(), err, "use queues.delete")
	}
	settings, _, e := s.broker.Topic(ctx, c.namespace, q.GetTopic())
	if e != nil || len(settings.Topic.Subscribers) == 0 {
		return err
	}
	them := settings.Topic.Subscribers
	has := "1 subscription, " + them[0].Subscription + "; delete it"
	if n := len(them); n > 1 {
		has = fmt.Sprintf("%d subscriptions, such as %s; delete them", n, them[0].Subscription)
	}
	return &advisedError{err, "force", fmt.Sprintf("topic %s has %s first, "+
		"or give force, which deletes subscriptions with their queues and all items in these", settings.Name, has)}
}

// noTopic says of an error whether there is nothing of that name or a queue, of which
// advice says what to do with it.
func (s *Server) noTopic(ctx context.Context, c *call, name string, err error, advice string) error {
	if !errors.Is(err, queue.ErrNotFound) {
		return err
	}
	if _, _, e := s.broker.Queue(ctx, c.namespace, name); e == nil {
		return &advisedError{err, "topic", "topic: " + name + " is a queue, not a topic; " + advice}
	}
	return &placedError{err, "topic"}
}

func (s *Server) topic(ctx context.Context, c *call, name string) (*v1.Topic, error) {
	settings, revision, err := s.broker.Topic(ctx, c.namespace, name)
	if err != nil {
		return nil, err
	}
	return shownTopic(&settings, revision), nil
}

func shownTopic(s *queue.Settings, revision uint64) *v1.Topic {
	return &v1.Topic{
		Topic: s.Name, Reference: given(s.Reference), Subscriptions: count(len(s.Topic.Subscribers)),
		CreatedAt: stamp(s.CreatedAt), UpdatedAt: stamp(s.UpdatedAt), Revision: formatRevision(revision),
	}
}

func (s *Server) listTopics(ctx context.Context, c *call, q *v1.TopicsListRequest) (*v1.TopicsListReply, error) {
	limit, err := namePage(q.GetLimit(), "cursor", q.GetCursor())
	if err != nil {
		return nil, err
	}
	// One more than wanted: it is the first of the next page.
	found, err := s.broker.Topics(ctx, c.namespace, q.GetCursor(), limit+1)
	if err != nil {
		return nil, err
	}
	p := new(v1.TopicsListReply)
	if len(found) > limit {
		p.Cursor = found[limit].Name
		found = found[:limit]
	}
	c.items = len(found)
	for i := range found {
		p.Items = append(p.Items, shownTopic(&found[i].Value, found[i].Revision))
	}
	return p, nil
}
