package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// cleanup undoes one step of starting.
type cleanup struct {
	name string
	do   func(ctx context.Context) error
}

// cleanups is a stack of them. What was started last is stopped first, so nothing is
// taken away from under what still uses it.
type cleanups struct {
	steps []cleanup
}

func (c *cleanups) push(name string, do func(ctx context.Context) error) {
	c.steps = append(c.steps, cleanup{name, do})
}

// run takes every step, also after one that failed, and returns all errors. A second
// call finds nothing to do.
func (c *cleanups) run(ctx context.Context, log *slog.Logger) error {
	steps := c.steps
	c.steps = nil
	var errs []error
	for _, step := range slices.Backward(steps) {
		started := time.Now()
		err := step.do(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", step.name, err))
		}
		log.Info("stopping", "step", step.name, "duration", time.Since(started).Round(time.Microsecond), "ok", err == nil)
	}
	return errors.Join(errs...)
}
