package cli

import (
	"context"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

type subscriptionsRotateCommand struct {
	subscriptionName
	SecretFile string         `placeholder:"FILE" help:"File with the new secret, whsec_… or whsk_… ; - is standard input. Without it the server makes one."`
	Overlap    *time.Duration `placeholder:"DURATION" help:"How long the one before signs as well, up to 168h; 0s is not at all. Default 24h."`
	Revision   string         `placeholder:"TEXT" help:"Refuse it unless this is still the subscription's revision."`
	connection
}

// run implements Command.
func (f *subscriptionsRotateCommand) run(ctx context.Context, c *console) error {
	if f.Overlap != nil && *f.Overlap < 0 {
		return usagef("--overlap %s: want 0s to 168h", *f.Overlap)
	}
	secret, err := c.secret(ctx, "--secret-file", f.SecretFile)
	if err != nil {
		return err
	}
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		s, err := cl.RotateSecret(ctx, f.Subscription, client.RotateParams{Secret: secret, Overlap: f.Overlap, Revision: f.Revision})
		if err != nil {
			return err
		}
		if f.JSON {
			return c.object(subscriptionViewOf(s))
		}
		r := new(record)
		r.paint("subscription", s.Name, bold)
		r.paint("secret", s.Secret, bold)
		for _, until := range s.OldSecretsUntil {
			r.set("old secret until", when(until, time.Now()))
		}
		return r.print(c)
	})
}
