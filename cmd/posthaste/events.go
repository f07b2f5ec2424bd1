package main

import (
	"context"
	"errors"

	"github.com/posthaste-io/posthaste/queue"
)

// eventsQueue is told what happened to subscriptions, in namespaces that have it.
const eventsQueue = "posthaste.events"

// event produces an item that tells what happened, where somebody made the queue for it.
func (a *app) event(ctx context.Context, ns queue.Namespace, kind string, payload []byte) error {
	_, err := a.broker.Produce(ctx, queue.ProduceCall{
		Namespace: ns, Queue: eventsQueue,
		Items: []queue.ProduceItem{{Content: queue.Content{Kind: kind, Encoding: "application/json", Payload: payload}}},
	})
	if errors.Is(err, queue.ErrNotFound) {
		return nil // nobody listens
	}
	return err
}
