package main

import (
	"context"
	"log/slog"
	"net/url"
	"strings"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/badger"
	"github.com/posthaste-io/posthaste/storage/memory"
	"github.com/posthaste-io/posthaste/storage/postgres"
)

// storeOpener opens the store of an app, which closes it.
type storeOpener func(c config, log *slog.Logger) (storage.Backend, error)

// openStore opens the store that the configuration names.
func openStore(c config, log *slog.Logger) (storage.Backend, error) {
	switch c.store.kind {
	case storeMemory:
		return memory.New(memory.Options{}), nil
	case storePostgres:
		store, err := postgres.Open(context.Background(), c.postgres(log))
		if err != nil {
			return nil, err // and not a nil *postgres.Store in an interface
		}
		return store, nil
	default:
		store, err := badger.Open(badger.Options{
			Dir: c.store.dir, Window: c.window, MinFree: c.minFreeDisk, AcceptDataLoss: c.acceptDataLoss, Log: log,
		})
		if err != nil {
			return nil, err
		}
		return store, nil
	}
}

func (c *config) postgres(log *slog.Logger) postgres.Options {
	return postgres.Options{
		URL: c.store.database, Schema: c.schema, Migrate: c.migrate, NoListen: !c.hints, Log: log,
	}
}

// shared is a store that other nodes write to as well, and that may be away.
type shared interface {
	// OnHint registers who is told what another node made available.
	OnHint(func(queues ...queue.Number))
	// Reachable is nil while the store answers.
	Reachable() error
}

// storeURL says where items are kept.
type storeURL struct {
	kind storeKind
	// dir is Badger's directory.
	dir string
	// database is PostgreSQL's, with its password.
	database string
}

// storeKind is a backend.
type storeKind int

const (
	storeMemory storeKind = iota + 1
	storeBadger
	storePostgres
)

// String returns the URL, without a password.
func (u storeURL) String() string {
	switch {
	case u.kind == storeMemory:
		return "memory:"
	case u.kind == storePostgres:
		return redact(u.database)
	case strings.HasPrefix(u.dir, "/"):
		return "badger://" + u.dir
	default:
		return "badger:" + u.dir
	}
}

// redact takes the password out of a URL, and all parameters, which may have one, too.
func redact(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "postgres://…"
	}
	u.RawQuery = ""
	return u.Redacted()
}

// parseStoreURL reads memory:, badger:///absolute/directory, badger:directory or
// postgres://….
func parseStoreURL(text string) (storeURL, error) {
	scheme, rest, _ := strings.Cut(text, ":")
	switch scheme {
	case "memory":
		if rest != "" && rest != "//" {
			return storeURL{}, usagef("--store %q: memory: takes nothing behind the colon", text)
		}
		return storeURL{kind: storeMemory}, nil
	case "badger":
		dir, absolute := strings.CutPrefix(rest, "//")
		switch {
		case absolute && !strings.HasPrefix(dir, "/"):
			return storeURL{}, usagef("--store %q: names the host %q; want badger:///%s, or badger:%s for a relative directory",
				text, strings.SplitN(dir, "/", 2)[0], dir, dir)
		case dir == "" || dir == "/":
			return storeURL{}, usagef("--store %q: names no directory; want badger:///var/lib/posthaste or badger:posthaste-data", text)
		case strings.ContainsAny(dir, "?#\x00"):
			return storeURL{}, usagef("--store %q: takes a directory and no options", text)
		}
		return storeURL{kind: storeBadger, dir: dir}, nil
	case "postgres", "postgresql":
		if u, err := url.Parse(text); err != nil || u.Host == "" && u.Query().Get("host") == "" {
			return storeURL{}, usagef("--store: want postgres://user:password@host:port/database") // its text may have a password
		}
		return storeURL{kind: storePostgres, database: text}, nil
	default:
		return storeURL{}, usagef("--store %q: want badger:///absolute/directory, badger:relative/directory, postgres://… or memory:", scheme+":")
	}
}
