package badger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/resident"
)

// Options say where and how; Dir is required.
type Options struct {
	Dir string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Log is told what an operator should know; nil is silent.
	Log *slog.Logger
	// Window is how many items are kept in memory, at about 90 bytes each; what is
	// beyond it lies on the disk until it is wanted. 0 is [DefaultWindow].
	Window int
	// UnsafeNoSync leaves it to the kernel when to write: the store survives a crash
	// of the process and loses acknowledged work in one of the machine. Durable is
	// false then.
	UnsafeNoSync bool
	// AcceptDataLoss opens a directory although commits are missing.
	AcceptDataLoss bool
	// MinFree is how many bytes have to be free on the disk for new items to come in;
	// 0 is [DefaultMinFree] or a twentieth of the disk, whichever is more. Below a
	// quarter of it nothing is written any more. It is raised to what Badger may write by
	// itself, which is 240 MB.
	MinFree uint64
	// FreeSpace tells the bytes that are free and that there are in all; nil asks the
	// file system.
	FreeSpace func(dir string) (free, total uint64, err error)

	tableSize   int64         // of Badger's tables in memory; 0 is defaultTableSize
	wholeAtOpen int64         // bytes of tables that are read before the store opens
	walkRest    time.Duration // between walks over the tables
}

// Defaults of [Options].
const (
	DefaultWindow  = 1_000_000
	DefaultMinFree = 512 << 20
)

// MaxContent bounds one item: its payload may have a million bytes, its attributes
// the rest of what Badger keeps out of the value log.
const MaxContent = 1<<20 - 1024

// defaultTableSize bounds a table in memory and its log. Beyond 32 MB of log the
// kernel (Linux 6.18, ext4) maps it in pages so large that each sync writes several
// times as much: commits took 0.15 ms below and 0.8 ms above. A table of small items
// is full at some 70 % of its size in log, so this stays below.
const defaultTableSize = 40 << 20

// transactionBytes is a little less than what Badger takes in one transaction, 15 % of
// a table. It bounds what one caller's call writes. Of the default table that is
// 6.2 MB: a legal call has 5 MB in a thousand items, with their keys.
func (o *Options) transactionBytes() int { return int(o.tableSize)*15/100 - 64<<10 }

// Store is a [storage.Backend] on Badger. Its methods may be called concurrently.
type Store struct {
	*resident.Store
	disk  *disk
	lock  *lock
	stop  context.CancelFunc
	tasks sync.WaitGroup
}

var _ storage.Backend = (*Store)(nil)

// Open opens a directory, or makes it. It returns a [*InUseError] if another
// process has it, a [*DamagedError] if commits are missing, a [*FilesError] if files
// are damaged, and a [*resident.LossError] if items or documents are missing.
func Open(o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Window == 0 {
		o.Window = DefaultWindow
	}
	if o.tableSize == 0 {
		o.tableSize = defaultTableSize
	}
	if o.wholeAtOpen == 0 {
		o.wholeAtOpen = wholeAtOpen
	}
	if o.walkRest == 0 {
		o.walkRest = walkRest
	}
	if o.FreeSpace == nil {
		o.FreeSpace = freeSpace
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	l, err := acquire(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s, err := open(o, l)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store in %s: %w", o.Dir, err), l.release())
	}
	return s, nil
}

func open(o Options, l *lock) (*Store, error) {
	watch, err := newSpaceWatch(o)
	if err != nil {
		return nil, err
	}
	d, err := openDisk(o)
	if err != nil {
		return nil, err
	}
	core, err := resident.Open(resident.Options{
		Now:        o.Now,
		Disk:       d,
		Log:        o.Log,
		Durable:    !o.UnsafeNoSync,
		AcceptLoss: o.AcceptDataLoss,
		Window:     o.Window,
		MaxContent: MaxContent,
		MaxGroup:   o.transactionBytes(),
	})
	if err != nil {
		return nil, errors.Join(err, d.abort())
	}
	if err := d.accepted(); err != nil {
		return nil, errors.Join(err, d.abort())
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{Store: core, disk: d, lock: l, stop: stop}
	d.look = func() { core.SetRoom(watch.room()) }
	d.lookAfter = int(min(watch.min/8, 8<<20))
	d.look()
	s.tasks.Go(func() { d.run(core.Fail) })
	s.tasks.Go(func() { s.everySecond(ctx) })
	s.tasks.Go(func() { d.walk(ctx, !d.whole, walkRate, o.walkRest) })
	return s, nil
}

// Damage returns a [*FilesError] if files were found damaged while the store was open,
// and nil otherwise. The store goes on: what lies elsewhere is well. It will not open
// again as it is, so the directory has to be restored, or the loss accepted.
func (s *Store) Damage() error { return s.disk.rot.err(s.disk.mark) }

// everySecond looks at the disk's free space, makes the number of the newest
// commit durable by itself, and lets Badger drop what nobody reads any more.
func (s *Store) everySecond(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-s.disk.trouble:
			s.Fail(err)
			return
		case <-tick.C:
		}
		s.disk.look()
		if err := s.disk.maintain(); err != nil {
			s.Fail(err)
			return
		}
	}
}

// Close implements [storage.Backend].
func (s *Store) Close() error {
	s.Shut()
	s.stop()
	s.disk.finish()
	s.tasks.Wait()
	return errors.Join(s.disk.close(s.Err() == nil), s.lock.release())
}

// valueThreshold is from where on Badger puts a value into its value log; more than
// this it does not allow.
const valueThreshold = 1 << 20

func badgerOptions(o Options, trouble chan<- error) badger.Options {
	return badger.DefaultOptions(filepath.Clean(o.Dir)).
		WithLogger(bridge{o.Log, trouble}).
		// Badger would flush two logs for each commit, and one of them is always empty.
		// We flush the other one ourselves.
		WithSyncWrites(false).
		// One goroutine writes, so there is nothing to conflict with.
		WithDetectConflicts(false).
		WithNumVersionsToKeep(1).
		// Every value stays out of the value log, which nobody flushes.
		WithValueThreshold(valueThreshold).
		WithValueLogFileSize(1 << 20).
		// Whole tables are read by us, before.
		WithChecksumVerificationMode(options.OnBlockRead).
		// Each table that waits to be written costs as much again.
		WithMemTableSize(o.tableSize).
		WithNumMemtables(1).
		WithNumLevelZeroTables(4).
		WithNumLevelZeroTablesStall(12).
		WithNumCompactors(2).
		WithBlockCacheSize(32 << 20).
		WithIndexCacheSize(16 << 20).
		WithMetricsEnabled(false)
}
