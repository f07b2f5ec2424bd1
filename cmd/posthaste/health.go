package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// healthCommand asks a server whether it takes work, for what starts servers and has no
// curl: an image from scratch has nothing but this program.
type healthCommand struct {
	URL     string        `name:"url" default:"http://127.0.0.1:2319" env:"POSTHASTE_URL" help:"The server. Its admin listener answers as well, in plain HTTP also where the API speaks TLS: http://127.0.0.1:2320."`
	Timeout time.Duration `default:"5s" env:"POSTHASTE_HEALTH_TIMEOUT" help:"How long to wait for the answer."`
}

// Run implements command.
func (c *healthCommand) Run(ctx context.Context, s streams) error {
	if c.Timeout <= 0 {
		return usagef("--timeout %s: want a duration above 0", c.Timeout)
	}
	server, err := client.New(client.Options{URL: c.URL})
	if err != nil {
		return usagef("%s", strings.TrimPrefix(err.Error(), "posthaste: "))
	}
	defer server.Close()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if err := server.Ping(ctx); err != nil {
		return fmt.Errorf("%s: %w", c.URL, err)
	}
	if _, err := fmt.Fprintln(s.stdout, "ready"); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}
