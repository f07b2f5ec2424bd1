package subscriptions

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/posthaste-io/posthaste/queue"
)

// raw is the filter as a topic keeps it, nil for one that takes everything.
func (f Filter) raw() json.RawMessage {
	if f.IsZero() {
		return nil
	}
	text, err := json.Marshal(FilterDocument(f))
	if err != nil {
		panic(err) // it has texts and nothing else
	}
	return text
}

// CompileTopicFilter is for [queue.Options]: it reads what a topic keeps of a filter.
func CompileTopicFilter(raw json.RawMessage) (queue.Matcher, error) {
	var doc FilterDocument
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	m, err := CompileFilter(Filter(doc))
	if err != nil {
		return nil, err
	}
	return topicMatcher{m}, nil
}

// topicMatcher shares what it reads of an item with the others that are asked about it.
type topicMatcher struct{ *Matcher }

// Match implements [queue.Matcher].
func (m topicMatcher) Match(c *queue.Candidate) (bool, error) {
	candidate, ok := c.Read.(*Candidate)
	if !ok {
		candidate = NewCandidate(c.Content)
		c.Read = candidate
	}
	return m.Matcher.Match(candidate)
}

// changeFilter has a topic filter by what a subscription says now. Of several changes at a
// time the topic may have been told of the last one first, so that the subscription is read
// again until both say the same.
func (s *Service) changeFilter(ctx context.Context, sub Subscription) error {
	for range rounds {
		if err := s.queues.Refilter(ctx, sub.Namespace, sub.Topic, sub.Name, sub.QueueNumber, sub.Filter.raw()); err != nil {
			return fmt.Errorf("topic of subscription %s: %w", sub.Name, err)
		}
		now, err := s.Get(ctx, sub.Namespace, sub.Name)
		if err != nil || now.Filter.equal(sub.Filter) {
			return err
		}
		sub = now
	}
	return fmt.Errorf("subscription %s: %w", sub.Name, queue.ErrRevision)
}

func (f Filter) equal(g Filter) bool {
	return slices.Equal(f.Kinds, g.Kinds) && f.CEL == g.CEL && f.OnError == g.OnError
}
