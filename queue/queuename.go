package queue

import "context"

// QueueName returns the name that a queue has, or [ErrNotFound] if it was deleted.
func (b *Broker) QueueName(ctx context.Context, n Number) (string, error) {
	q, err := b.known.numbered(ctx, n)
	if err != nil {
		return "", err
	}
	return q.name, nil
}
