package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/apikeys"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// rootKeyVariable holds the key that callers must send. There is no flag for it: what
// is on a command line is shown to every user of the machine.
const rootKeyVariable = "POSTHASTE_ROOT_KEY"

// firstKeyTime bounds how long the store may take to say which key it has.
const firstKeyTime = 15 * time.Second

// accessFlags say who may call, and over what.
//
// Nobody is let in without a key unless --dev asks for it, and then from this machine
// alone: a server that somebody starts and forgets is closed. A key that is configured
// takes the place of the one in the store, so that losing that one locks nobody out.
type accessFlags struct {
	RootKeyFile    string `env:"POSTHASTE_ROOT_KEY_FILE" placeholder:"FILE" help:"File with the key that callers must send (posthaste key new prints one), or with several, one a line, while it is being changed. $POSTHASTE_ROOT_KEY may hold the same. Without either a key is made at the first start, printed once on standard output, and its hash kept in the store; with --dev none is needed."`
	TLSCert        string `name:"tls-cert" env:"POSTHASTE_TLS_CERT" placeholder:"FILE" help:"Certificate of the API in PEM, with those between it and its root; it is read again when it changes. Without it the API speaks plain HTTP."`
	TLSKey         string `name:"tls-key" env:"POSTHASTE_TLS_KEY" placeholder:"FILE" help:"Private key of --tls-cert in PEM."`
	AllowPlaintext bool   `env:"POSTHASTE_ALLOW_PLAINTEXT" help:"Let others than this machine reach the API without TLS, where something in front of it encrypts, or the network is your own."`
}

// access is who may call, and over what, judged.
type access struct {
	// open says that nobody needs a key.
	open bool
	// keys are those that are configured; without them, and unless open, the store has one.
	keys []apikeys.Record
	// remote says that others than this machine may reach the API.
	remote            bool
	certFile, keyFile string
}

// judge reads the keys. Its errors are [usageError], and hold nothing of a key.
func (f *accessFlags) judge(rootKey string, dev bool) (access, error) {
	source := "$" + rootKeyVariable
	if f.RootKeyFile != "" {
		if rootKey != "" {
			return access{}, usagef("--root-key-file and $%s: want one of them", rootKeyVariable)
		}
		text, err := os.ReadFile(f.RootKeyFile)
		if err != nil {
			return access{}, usagef("--root-key-file: %w", err)
		}
		rootKey, source = string(text), "--root-key-file"
	}
	keys, err := parseKeys(rootKey)
	if err != nil {
		return access{}, usagef("%s: %w", source, err)
	}
	if rootKey != "" && len(keys) == 0 || f.RootKeyFile != "" && rootKey == "" {
		return access{}, usagef("%s: holds no key", source)
	}
	if (f.TLSCert == "") != (f.TLSKey == "") {
		return access{}, usagef("--tls-cert and --tls-key: want both or neither")
	}
	a := access{open: dev && len(keys) == 0, keys: keys, certFile: f.TLSCert, keyFile: f.TLSKey}
	a.remote = !a.open && (f.AllowPlaintext || f.TLSCert != "")
	return a, nil
}

// parseKeys reads keys with space between them.
func parseKeys(text string) ([]apikeys.Record, error) {
	var records []apikeys.Record
	for i, word := range strings.Fields(text) {
		key, err := apikeys.Parse(word)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w; posthaste key new makes one", i+1, err)
		}
		records = append(records, key.Record())
	}
	return records, nil
}

// why says what keeps others than this machine from reaching the API.
func (a *access) why() string {
	if a.open {
		return "with --dev and without a key whoever reaches it may read and delete every item. Set $" +
			rootKeyVariable + " (posthaste key new makes a key), or leave --dev out"
	}
	return "keys and items would cross the network for everybody to read. Give --tls-cert and --tls-key, or " +
		"--allow-plaintext where something in front of it encrypts"
}

// String says in a word who may call, for the log.
func (a *access) String() string {
	if a.open {
		return "open"
	}
	return "keys"
}

// rules returns what the API asks of callers; nil is open access.
func (a *access) rules(docs storage.Documents, out io.Writer) (api.Access, error) {
	switch {
	case a.open:
		return nil, nil
	case len(a.keys) > 0:
		return api.NewKeyAccess(a.keys...), nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstKeyTime)
	defer cancel()
	record, err := storedKey(ctx, storage.NewCollection[apikeys.Record](docs, "rootkey"), out)
	if err != nil {
		return nil, fmt.Errorf("root key: %w", err)
	}
	return api.NewKeyAccess(record), nil
}

// rootKeys is where the hash of a key that was made is kept.
type rootKeys interface {
	Get(ctx context.Context, ns queue.Namespace, name string) (apikeys.Record, uint64, error)
	Put(ctx context.Context, ns queue.Namespace, name string, r apikeys.Record, revision uint64, wakeAt time.Time, items ...queue.NewItem) (uint64, error)
	Delete(ctx context.Context, ns queue.Namespace, name string, revision uint64) error
}

// storedName is the document of the key that was made.
const storedName = "root"

// storedKey returns the key that the store has, or makes one, which it prints. Of
// several nodes that start on one database the first to insert it wins, and only that
// one prints: to standard output, for logs go to standard error and are kept.
func storedKey(ctx context.Context, docs rootKeys, out io.Writer) (apikeys.Record, error) {
	const ns, name = queue.DefaultNamespace, storedName
	record, _, err := docs.Get(ctx, ns, name)
	if !errors.Is(err, queue.ErrNotFound) {
		return record, err
	}
	key, err := apikeys.New("live")
	if err != nil {
		return record, err
	}
	revision, err := docs.Put(ctx, ns, name, key.Record(), 0, time.Time{})
	if errors.Is(err, queue.ErrExists) || errors.Is(err, queue.ErrUnknownOutcome) {
		record, revision, err = docs.Get(ctx, ns, name)
		if err == nil && record != key.Record() {
			return record, nil // another node was first
		}
	}
	if err != nil {
		return record, err
	}
	_, err = fmt.Fprintf(out, "This store has a root key from now on, which is not shown again. "+
		"Callers send it as Authorization: Bearer <key>:\n\n%s\n\n", key.Reveal())
	if err != nil {
		// A key that nobody has seen would lock everybody out.
		return record, errors.Join(fmt.Errorf("print it: %w", err), docs.Delete(ctx, ns, name, revision))
	}
	return key.Record(), nil
}
