package main

import (
	"context"
	"errors"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// pushed tells the broker what it must know of subscriptions. The two need each
// other, so subs is set once both are made, before anybody calls.
type pushed struct {
	subs *subscriptions.Service
}

// Subscribed implements [queue.Subscribers].
func (p *pushed) Subscribed(ctx context.Context, ns queue.Namespace, name string) (bool, error) {
	_, err := p.subs.ByQueue(ctx, ns, name)
	if errors.Is(err, queue.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Unsubscribe implements [queue.Subscribers].
func (p *pushed) Unsubscribe(ctx context.Context, ns queue.Namespace, name string) error {
	sub, err := p.subs.ByQueue(ctx, ns, name)
	if err == nil {
		err = p.subs.Delete(ctx, ns, sub.Name)
	}
	if errors.Is(err, queue.ErrNotFound) {
		return nil
	}
	return err
}

// limit returns the limit of attempts that a queue's subscription sets, or 0.
func (p *pushed) limit(ctx context.Context, ns queue.Namespace, name string) (int32, error) {
	sub, err := p.subs.ByQueue(ctx, ns, name)
	if errors.Is(err, queue.ErrNotFound) {
		return 0, nil
	}
	return sub.Retry.MaxAttempts, err
}

var _ queue.Subscribers = (*pushed)(nil)
