package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// checkWays judges where the items of a call bring something themselves: to a target of
// their own, and to the queue that is told of their end. content returns that of the i-th
// of n items.
func (b *Broker) checkWays(ctx context.Context, ns Namespace, name string, n int, content func(i int) *Content) error {
	w := ways{b: b, ns: ns, queue: name}
	for i := range n {
		c := content(i)
		if c.Target == nil && c.OnDone == "" {
			continue
		}
		if err := w.check(ctx, c); err != nil {
			return atEntry("items", i, err)
		}
	}
	return nil
}

// ways are what a call has found out about its queue.
type ways struct {
	b     *Broker
	ns    Namespace
	queue string
	// there says that the queue exists; asked that its subscription was asked, and targets
	// what that allows.
	there, asked, targets bool
	// topic says that it is none, but a topic.
	topic bool
	// told is the on_done that was looked for last; most calls have one.
	told string
}

func (w *ways) check(ctx context.Context, c *Content) error {
	if !w.there {
		q, err := w.b.known.either(ctx, w.ns, w.queue)
		if err != nil {
			return err
		}
		w.there, w.topic = true, q.settings().Topic != nil
	}
	if c.Target != nil {
		if err := w.checkTarget(ctx, c.Target); err != nil {
			return err
		}
	}
	return w.checkOnDone(ctx, c.OnDone)
}

func (w *ways) checkTarget(ctx context.Context, t *Target) error {
	const field = "target"
	if w.topic {
		return Invalid(field, "goes only to a queue, and %s is a topic, whose subscriptions have endpoints of their own", w.queue)
	}
	if !w.asked && w.b.opts.AllowsTarget != nil && w.b.opts.CheckTarget != nil {
		var err error
		if w.targets, err = w.b.opts.AllowsTarget(ctx, w.ns, w.queue); err != nil {
			return fmt.Errorf("subscription of %s: %w", w.queue, err)
		}
		w.asked = true
	}
	if !w.targets {
		return Invalid(field, "goes only to a queue whose subscription takes targets, and that of %s does not, if it has one; set allow_target on it", w.queue)
	}
	if !isStorable(t.URL) || !isStorable(t.Method) {
		return Invalid(field, "has text that is not UTF-8 without NUL")
	}
	err := w.b.opts.CheckTarget(t)
	if invalid, ok := errors.AsType[*InvalidError](err); ok {
		place := field
		if invalid.Field != "" {
			place += "." + invalid.Field
		}
		return &InvalidError{Field: place, Reason: invalid.Reason}
	}
	return err
}

func (w *ways) checkOnDone(ctx context.Context, name string) error {
	const field = "on_done"
	if name == "" || name == w.told {
		return nil
	}
	if err := CheckReference(field, name); err != nil {
		return err
	}
	if name == w.queue {
		return Invalid(field, "is the queue or topic itself")
	}
	if strings.HasPrefix(name, w.queue+"~") && w.topic {
		return Invalid(field, "is %s, which the topic's items are copied to; name another queue", name)
	}
	if _, err := w.b.known.either(ctx, w.ns, name); errors.Is(err, ErrNotFound) {
		return Invalid(field, "is %s, which does not exist; create it first", name)
	} else if err != nil {
		return err
	}
	w.told = name
	return nil
}
