package main

import (
	"errors"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/webhooks"
)

// Bounds of a target's timeout, which are a subscription's.
const (
	minTargetTimeout = time.Second
	maxTargetTimeout = 30 * time.Minute
)

// checkTarget judges the endpoint that an item brings along. Paths of errors are those of
// the target's own fields.
func checkTarget(guard *webhooks.Guard) func(*queue.Target) error {
	return func(t *queue.Target) error {
		if t.URL == "" {
			return queue.Invalid("url", "is missing; want the endpoint, such as https://example.com/hook")
		}
		if err := guard.CheckURL(t.URL); err != nil {
			return asTargetError("url", err)
		}
		if err := webhooks.CheckMethod(t.Method); err != nil {
			return asTargetError("method", err)
		}
		if t.Timeout != 0 && (t.Timeout < minTargetTimeout || t.Timeout > maxTargetTimeout) {
			return queue.Invalid("timeout", "is %s; want %s to %s", t.Timeout, minTargetTimeout, maxTargetTimeout)
		}
		return nil
	}
}

func asTargetError(field string, err error) error {
	if _, ok := errors.AsType[*queue.InvalidError](err); ok {
		return err
	}
	return queue.Invalid(field, "%v", err)
}
