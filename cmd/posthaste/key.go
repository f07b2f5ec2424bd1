package main

import (
	"context"
	"fmt"

	"github.com/posthaste-io/posthaste/apikeys"
	"github.com/posthaste-io/posthaste/seal"
	"github.com/posthaste-io/posthaste/webhooks"
)

// keyCommand is about the keys of callers, and of secrets.
type keyCommand struct {
	New        keyNewCommand        `cmd:"" help:"Print a new key, for $POSTHASTE_ROOT_KEY or a file of --root-key-file."`
	Encryption keyEncryptionCommand `cmd:"" help:"Print a new key that encrypts the secrets of subscriptions, for $POSTHASTE_ENCRYPTION_KEY or a file of --encryption-key-file."`
	Signing    keySigningCommand    `cmd:"" help:"Print a new pair to sign pushes with: the secret for subscriptions create --secret-file or rotate --secret-file, and the public key with which receivers verify and cannot sign."`
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

// keyEncryptionCommand makes an encryption key, as a line of such a file. To change keys
// every node gets it below the one in use, then above, and the older one is taken away when
// all have started so.
type keyEncryptionCommand struct{}

// Run implements command.
func (*keyEncryptionCommand) Run(_ context.Context, s streams) error {
	if _, err := fmt.Fprintln(s.stdout, seal.NewKey()); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

// keySigningCommand makes a pair of keys for signatures that others can verify and not make.
type keySigningCommand struct{}

// Run implements command.
func (*keySigningCommand) Run(_ context.Context, s streams) error {
	secret := webhooks.NewAsymmetricSecret()
	public, err := webhooks.PublicKey(secret)
	if err != nil {
		return fmt.Errorf("public key: %w", err)
	}
	if _, err := fmt.Fprintf(s.stdout, "%s\n%s\n", secret, public); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}
