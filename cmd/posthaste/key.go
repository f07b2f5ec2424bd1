package main

import (
	"context"
	"fmt"

	"github.com/posthaste-io/posthaste/apikeys"
)

// keyCommand is about the keys of callers.
type keyCommand struct {
	New keyNewCommand `cmd:"" help:"Print a new key, for $POSTHASTE_ROOT_KEY or a file of --root-key-file."`
}

// keyNewCommand makes a key. No server hears of it: it is good where it is configured.
type keyNewCommand struct {
	For string `default:"live" env:"POSTHASTE_KEY_FOR" placeholder:"WORD" help:"What the key is for, such as live or test; it is a part of the key, for people to see, and no server judges it."`
}

// Run implements command.
func (c *keyNewCommand) Run(_ context.Context, s streams) error {
	key, err := apikeys.New(c.For)
	if err != nil {
		return usagef("--for: %w", err)
	}
	if _, err := fmt.Fprintln(s.stdout, key.Reveal()); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}
