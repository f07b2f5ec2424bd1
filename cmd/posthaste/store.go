package main

import (
	"log/slog"

	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/badger"
	"github.com/posthaste-io/posthaste/storage/memory"
)

// storeOpener opens the store of an app, which closes it.
type storeOpener func(c config, log *slog.Logger) (storage.Backend, error)

// openStore opens the store that the configuration names.
func openStore(c config, log *slog.Logger) (storage.Backend, error) {
	if c.store.kind == storeMemory {
		return memory.New(memory.Options{}), nil
	}
	store, err := badger.Open(badger.Options{
		Dir: c.store.dir, Window: c.window, MinFree: c.minFreeDisk, AcceptDataLoss: c.acceptDataLoss, Log: log,
	})
	if err != nil {
		return nil, err // and not a nil *badger.Store in an interface
	}
	return store, nil
}
