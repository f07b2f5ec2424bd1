package api_test

import (
	"context"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
)

var _ api.Broker = (*broker)(nil)

// The verbs of the scripted broker that end, bring and look for items.

func (b *broker) Pause(_ context.Context, _ queue.Namespace, name string, what queue.Paused) (queue.Settings, error) {
	if b.pause == nil {
		return queue.Settings{}, queue.ErrNotFound
	}
	return queue.Settings{}, b.pause(name, what)
}

func (b *broker) Resume(_ context.Context, _ queue.Namespace, name string, what queue.Paused) (queue.Settings, error) {
	if b.resume == nil {
		return queue.Settings{}, queue.ErrNotFound
	}
	return queue.Settings{}, b.resume(name, what)
}

func (b *broker) Reload(_ context.Context, _ queue.Namespace, name string) error {
	if b.reload == nil {
		return queue.ErrNotFound
	}
	return b.reload(name)
}

func (b *broker) Clear(_ context.Context, call queue.ClearCall) (queue.Cancelled, error) {
	if b.clear == nil {
		return queue.Cancelled{}, queue.ErrNotFound
	}
	return b.clear(call)
}

func (b *broker) Cancel(_ context.Context, call queue.CancelCall) (queue.Cancelled, error) {
	if b.cancel == nil {
		return queue.Cancelled{}, queue.ErrNotFound
	}
	return b.cancel(call)
}

func (b *broker) Import(_ context.Context, call queue.ImportCall) ([]queue.Item, error) {
	if b.imports == nil {
		return nil, queue.ErrNotFound
	}
	return b.imports(call)
}

func (b *broker) Redrive(_ context.Context, call queue.RedriveCall) (queue.Redriven, error) {
	if b.redrive == nil {
		return queue.Redriven{}, queue.ErrNotFound
	}
	return b.redrive(call)
}

func (b *broker) Look(_ context.Context, _ queue.Namespace, id queue.ID, name string) ([]queue.ItemState, error) {
	if b.look == nil {
		return nil, queue.ErrNotFound
	}
	return b.look(id, name)
}

func (b *broker) Await(ctx context.Context, _ queue.Namespace, id queue.ID, name string, wait time.Duration) ([]queue.ItemState, error) {
	if b.await == nil {
		return nil, queue.ErrNotFound
	}
	return b.await(ctx, id, name, wait)
}

func (b *broker) Attempts(_ context.Context, q queue.AttemptsQuery) (queue.AttemptsPage, error) {
	if b.attempts == nil {
		return queue.AttemptsPage{}, queue.ErrNotFound
	}
	return b.attempts(q)
}

func (b *broker) Keys(_ context.Context, q queue.KeysQuery) (queue.KeysPage, error) {
	if b.keys == nil {
		return queue.KeysPage{}, queue.ErrNotFound
	}
	return b.keys(q)
}

func (b *broker) Unblock(_ context.Context, call queue.UnblockCall) error {
	if b.unblock == nil {
		return queue.ErrNotFound
	}
	return b.unblock(call)
}

// Of topics it knows none; what they do is tried with a real one.

func (b *broker) CreateTopic(context.Context, queue.Namespace, string, string) (queue.Settings, error) {
	return queue.Settings{}, queue.ErrNotFound
}

func (b *broker) TurnIntoTopic(context.Context, queue.Namespace, string, string) (queue.Settings, error) {
	return queue.Settings{}, queue.ErrNotFound
}

func (b *broker) UpdateTopic(context.Context, queue.TopicUpdate) (queue.Settings, error) {
	return queue.Settings{}, queue.ErrNotFound
}

func (b *broker) Topic(context.Context, queue.Namespace, string) (queue.Settings, uint64, error) {
	return queue.Settings{}, 0, queue.ErrNotFound
}

func (b *broker) Topics(context.Context, queue.Namespace, string, int) ([]queue.Versioned[queue.Settings], error) {
	return nil, nil
}

func (b *broker) DeleteTopic(context.Context, queue.Namespace, string, bool) error {
	return queue.ErrNotFound
}
