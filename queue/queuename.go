package queue

import "context"

// QueueName returns the name that a queue or a topic has, or [ErrNotFound] if it was deleted.
func (b *Broker) QueueName(ctx context.Context, n Number) (string, error) {
	q, err := b.known.numberedEither(ctx, n)
	if err != nil {
		return "", err
	}
	return q.name, nil
}
