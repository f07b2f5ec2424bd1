package main

import (
	"context"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// pushed tells the broker what it must know of subscriptions. The two need each
// other, so Service is set once both are made, before anybody calls.
type pushed struct {
	*subscriptions.Service
}

// What follows is asked of the service that there is by then.

func (p *pushed) limit(ctx context.Context, ns queue.Namespace, name string) (int32, error) {
	return p.Limit(ctx, ns, name)
}

func (p *pushed) allowsTarget(ctx context.Context, ns queue.Namespace, name string) (bool, error) {
	return p.AllowsTarget(ctx, ns, name)
}

func (p *pushed) onDone(ctx context.Context, ns queue.Namespace, name string) (string, error) {
	return p.OnDone(ctx, ns, name)
}

func (p *pushed) pushedBy(ctx context.Context, ns queue.Namespace, name string) (string, bool, error) {
	return p.PushedBy(ctx, ns, name)
}

var _ queue.Subscribers = (*pushed)(nil)
