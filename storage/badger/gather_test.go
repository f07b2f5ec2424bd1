package badger

import (
	"log/slog"
	"testing"

	"github.com/posthaste-io/posthaste/storage/resident"
)

// The figure that decides the rate on a disk: whatever waits shares a commit. The
// committer is not running while it gathers, so no scheduler has a say in it.
func TestDisk_WhatWaitsSharesACommit(t *testing.T) {
	t.Parallel()
	d, err := openDisk(Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler), tableSize: defaultTableSize})
	if err != nil {
		t.Fatal(err)
	}
	before := d.durable.Load()
	const callers = 64
	var last *resident.Commit
	for i := range callers {
		key := []byte{'x', byte(i)}
		last = d.Append([]resident.Write{{Key: key, Value: key}}, resident.Mark{Seq: uint64(i)})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.run(func(err error) { t.Error(err) })
	}()
	if err := last.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.durable.Load() - before; got != 1 {
		t.Errorf("got %d commits for %d callers that waited, want one", got, callers)
	}
	d.finish()
	<-ended
	if err := d.close(true); err != nil {
		t.Error(err)
	}
}
