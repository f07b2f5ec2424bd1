package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/seal"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/subscriptions"
)

const (
	// encryptionKeyVariable holds the keys that encrypt the secrets of subscriptions. There
	// is no flag for it: what is on a command line is shown to every user of the machine.
	encryptionKeyVariable = "POSTHASTE_ENCRYPTION_KEY"
	// encryptionKeyName is the file with the key in the directory of an embedded store.
	encryptionKeyName = "encryption.key"
	// subscriptionKind is the kind of their documents.
	subscriptionKind = "subscription"
	// sealTime bounds how long the secrets of all subscriptions may take to be looked at
	// and, where the key is another one, written again.
	sealTime = 10 * time.Minute
)

// encryptionFlags say with what the secrets of subscriptions are encrypted.
type encryptionFlags struct {
	EncryptionKeyFile string `env:"POSTHASTE_ENCRYPTION_KEY_FILE" placeholder:"FILE" help:"File with the key that encrypts the secrets of subscriptions in the store (posthaste key encryption prints one), or with several, one a line: the first encrypts, the others open what they did encrypt, which is brought under the first at the start. $POSTHASTE_ENCRYPTION_KEY may hold the same. Without either an embedded store has a key file in its directory, and PostgreSQL takes no subscriptions."`
}

// encryption is with what secrets are encrypted, judged.
type encryption struct {
	// keys are those that are configured; nil is none.
	keys *seal.Keyring
	// passing says that a key that ends with the process will do, as the store does.
	passing bool
}

// keys reads the keys. Its errors are [usageError], and hold nothing of a key.
func (f *encryptionFlags) keys(text string) (encryption, error) {
	source := "$" + encryptionKeyVariable
	if f.EncryptionKeyFile != "" {
		if text != "" {
			return encryption{}, usagef("--encryption-key-file and $%s: want one of them", encryptionKeyVariable)
		}
		content, err := os.ReadFile(f.EncryptionKeyFile)
		if err != nil {
			return encryption{}, usagef("--encryption-key-file: %w", err)
		}
		text, source = string(content), "--encryption-key-file"
	}
	if text == "" && f.EncryptionKeyFile == "" {
		return encryption{}, nil
	}
	keys, err := seal.Parse(text)
	if err != nil {
		return encryption{}, usagef("%s: %w; posthaste key encryption makes one", source, err)
	}
	if keys.Current() == "" {
		return encryption{}, usagef("%s: holds no key; posthaste key encryption makes one", source)
	}
	return encryption{keys: keys}, nil
}

// sealer is a keyring whose lack of a key is told as subscriptions tell it.
type sealer struct{ *seal.Keyring }

var _ subscriptions.Sealer = sealer{}

// Seal implements subscriptions.Sealer.
func (s sealer) Seal(plain []byte, context ...string) ([]byte, error) {
	sealed, err := s.Keyring.Seal(plain, context...)
	if errors.Is(err, seal.ErrNoKey) {
		return nil, subscriptions.ErrNoKey
	}
	return sealed, err
}

// sealerOf returns the keys of a server, the configured before all others. An embedded
// store without any gets a file with one, in its directory, which must be ours by now.
func sealerOf(c *config, store storage.Documents, log *slog.Logger) (subscriptions.Sealer, error) {
	ring := c.encryption.keys
	if ring == nil {
		ring = &seal.Keyring{}
	}
	switch {
	case ring.Current() == "" && (c.store.kind == storeMemory || c.encryption.passing):
		ring = seal.Random()
	case c.store.kind == storeBadger:
		// Read beside configured keys too, which so can take the place of it.
		kept, err := keptKey(c.store.dir, ring.Current() == "", store, log)
		if err != nil {
			return nil, err
		}
		ring = ring.With(kept)
	}
	return sealer{ring}, nil
}

// keptKey returns the key in the directory of a store. If there is none it makes one, if
// that is wanted and nothing was encrypted under a key that is gone.
func keptKey(dir string, wanted bool, store storage.Documents, log *slog.Logger) (*seal.Keyring, error) {
	name := filepath.Join(dir, encryptionKeyName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if !wanted {
			return &seal.Keyring{}, nil
		}
		text, err = makeKey(name, store, log)
	}
	if err != nil {
		return nil, fmt.Errorf("encryption key: %w", err)
	}
	ring, err := seal.Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("encryption key: %s: %w", name, err)
	}
	return ring, nil
}

// makeKey writes a new key into a file, unless the store has secrets under another one,
// and returns what it wrote: nothing in that case.
func makeKey(name string, store storage.Documents, log *slog.Logger) ([]byte, error) {
	lost, err := anySealed(store)
	if lost || err != nil {
		return nil, err // who opens them tells which key is missing
	}
	text := []byte("# Encrypts the secrets of the subscriptions in this directory. Keep a copy elsewhere:\n" +
		"# without it they are lost. Whoever has the directory can read them.\n" + seal.NewKey() + "\n")
	if err := writeDurably(name, text); err != nil {
		return nil, err
	}
	log.Info("made a key that encrypts the secrets of subscriptions; keep a copy of it apart from the directory, without it they are "+
		"lost; whoever has the directory can read them, unless --encryption-key-file names a key elsewhere", "file", name)
	return text, nil
}

// anySealed says whether any subscription has encrypted secrets.
func anySealed(store storage.Documents) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), sealTime)
	defer cancel()
	docs := storage.NewCollection[subscriptions.Document](store, subscriptionKind)
	for after := ""; ; {
		const limit = 500
		page, err := docs.List(ctx, queue.DefaultNamespace, after, limit)
		if err != nil {
			return false, err
		}
		for i := range page {
			if page[i].Value.Secrets.Text != nil {
				return true, nil
			}
		}
		if len(page) < limit {
			return false, nil
		}
		after = page[limit-1].Name
	}
}

// writeDurably writes a file that only its owner may read, so that after a crash there
// is all of it or nothing.
func writeDurably(name string, content []byte) (err error) {
	temporary := name + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if err := os.Rename(temporary, name); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// sealSecrets brings every secret in the store under the current key. It refuses to go on
// with secrets that no key opens: their subscriptions could not be pushed.
func sealSecrets(c *config, subs *subscriptions.Service, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), sealTime)
	defer cancel()
	done, err := subs.Seal(ctx)
	if done != (subscriptions.SealResult{}) {
		log.Info("secrets of subscriptions were brought under the current encryption key", "were_plain", done.Sealed, "had_another_key", done.Rewrapped)
	}
	how := "give it as a line of --encryption-key-file or of $" + encryptionKeyVariable
	if unknown, ok := errors.AsType[*seal.UnknownKeyError](err); ok {
		if c.store.kind == storeBadger {
			how += ", or put back " + filepath.Join(c.store.dir, encryptionKeyName)
		}
		return usagef("the store has secrets of subscriptions that only the encryption key %q opens, and it is missing; %s", unknown.ID, how)
	}
	if errors.Is(err, subscriptions.ErrNoKey) {
		return usagef("the store has secrets of subscriptions, and there is no key to encrypt them with; %s (posthaste key encryption makes one)", how)
	}
	return err
}

// encryptionKey tells which keys encrypt: their ids are no secret.
func (c *config) encryptionKey(file string) setting {
	it := setting{Name: "encryption key", Source: "default", Variable: encryptionKeyVariable}
	switch {
	case c.encryption.keys != nil:
		it.Value, it.Source = c.encryption.keys.Current(), "$"+encryptionKeyVariable
		if file != "" {
			it.Source = "--encryption-key-file"
		}
	case c.store.kind == storeMemory:
		it.Value = "made at each start"
	case c.store.kind == storePostgres:
		it.Value = "none, so no subscriptions are taken"
	default:
		it.Value = "in " + filepath.Join(c.store.dir, encryptionKeyName)
	}
	return it
}
