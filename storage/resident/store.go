package resident

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// Options say what kind of store it is.
type Options struct {
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Disk is required.
	Disk Disk
	// Log is told what an operator should know; nil is silent.
	Log *slog.Logger
	// Durable is what Store.Durable answers.
	Durable bool
	// Volatile says that nothing is read back at the next start: contents stay in
	// memory, and states and documents are not written at all.
	Volatile bool
	// AcceptLoss opens a disk that does not hold what its mark says.
	AcceptLoss bool
	// Window is how many items are kept in memory; what is beyond it lies on the disk
	// until it is wanted. 0 is no bound.
	Window int
	// MaxRecords bounds the journal by count: the newest are kept. 0 is no bound.
	MaxRecords int
	// MaxContent bounds one item's content as it is stored, and MaxGroup what one
	// group may write, in bytes. 0 is no bound.
	MaxContent int
	MaxGroup   int
}

// Store is the order of a one-process store in memory, over a [Disk]. It
// implements all of [storage.Backend] but Close. Its methods may be called
// concurrently.
type Store struct {
	options Options
	disk    Disk
	log     *slog.Logger
	room    atomic.Int32

	failed chan struct{}

	mu sync.Mutex
	// Under mu, all of it.
	closed   bool
	err      error
	clock    clock
	dice     dice
	seq      uint64
	entries  slab[entry]
	exts     slab[ext]
	contents slab[[]byte] // by slot; of a volatile store only
	index    index
	origins  origins
	// parts is by index, byKey and sorted have the same without the gaps.
	parts     []*partition
	freeParts []uint32
	byKey     map[partitionKey]*partition
	sorted    []*partition
	expiring  *btree.BTreeG[ref] // what expires and is in memory, by expiry
	chains    chains
	live      int // items in memory
	away      int // items on the disk only
	documents documents
	journal   journal
	forgotten int64               // dedupe keys are tidied up to here
	reaping   reaping             // of shared contents
	batch     []Write             // of the group at work
	fresh     map[string]knownKey // dedupe keys among them
	replaced  map[queue.Key]bool  // items that they put into the cold space, or take out
	arena     arena
	last      *Commit // what was appended last
	// visited counts the entries that leases looked at, for tests: what a lease costs
	// is told better by it than by a clock.
	visited int
}

// Errors that a closed or broken store gives.
var errClosed = fmt.Errorf("%w: it was closed", queue.ErrUnavailable)

// Open reads what the disk holds and returns a store that is ready.
func Open(o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	mark := o.Disk.Mark()
	s := &Store{
		options:  o,
		disk:     o.Disk,
		log:      o.Log,
		failed:   make(chan struct{}),
		clock:    newClock(o.Now, mark.Stamp),
		seq:      mark.Seq,
		entries:  newSlab[entry](),
		exts:     newSlab[ext](),
		contents: newSlab[[]byte](),
		byKey:    map[partitionKey]*partition{},
		fresh:    map[string]knownKey{},
		replaced: map[queue.Key]bool{},
	}
	s.expiring = s.newTree()
	s.documents = newDocuments()
	s.chains = newChains()
	s.reaping.from = []byte{spaceSuspect}
	if ahead := time.Duration(mark.Stamp-o.Now().UnixMicro()) * time.Microsecond; ahead > time.Minute {
		s.log.Warn("the store's time is ahead of this machine's; it goes on from there", "ahead", ahead)
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	if err := s.checkLoss(mark); err != nil {
		return nil, err
	}
	if err := s.mend(); err != nil {
		return nil, fmt.Errorf("look for what was lost: %w", err)
	}
	return s, nil
}

// LossError says that the disk holds less, or more, than when it was written last.
type LossError struct {
	Items, WantItems         uint64
	Documents, WantDocuments uint64
}

// Error implements error.
func (e *LossError) Error() string {
	return fmt.Sprintf("%d items and %d documents were found, and there should be %d and %d: files are damaged or missing; "+
		"restore the directory from a copy, or start with --accept-data-loss to go on with what there is",
		e.Items, e.Documents, e.WantItems, e.WantDocuments)
}

func (s *Store) checkLoss(want Mark) error {
	found := s.markNow()
	if s.options.Volatile || found.Items == want.Items && found.Documents == want.Documents {
		return nil
	}
	err := &LossError{Items: found.Items, WantItems: want.Items, Documents: found.Documents, WantDocuments: want.Documents}
	if !s.options.AcceptLoss {
		return err
	}
	s.log.Error("opened with loss of data", "err", err)
	// What is left is what there should be from now on.
	s.last = s.disk.Append(nil, found)
	return nil
}

// Durable implements [queue.Store].
func (s *Store) Durable() bool { return s.options.Durable }

// Failed implements [storage.Backend].
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err implements [storage.Backend].
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Fail ends the store: what is in memory may be more than what is on the disk, so
// nothing that it would say can be trusted. Only the first reason counts. It must
// not be called by a Disk from within Append, Get or Scan.
func (s *Store) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail(err)
}

func (s *Store) fail(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	s.log.Error("store ends, since it can promise nothing any more", "err", err)
	close(s.failed)
}

// Shut makes every later verb answer [queue.ErrUnavailable]. What was appended
// before is the disk's to finish.
func (s *Store) Shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// Room is how much space the disk has.
type Room int32

// The rooms; [Roomy] is the zero value.
const (
	Roomy Room = iota
	// Tight: nothing new comes in; what is there can be worked off.
	Tight
	// Full: nothing is written.
	Full
)

// SetRoom says how much there is from now on.
func (s *Store) SetRoom(r Room) { s.room.Store(int32(r)) }

// Space is nil while the disk has room for new items, and says so otherwise.
func (s *Store) Space() error {
	switch Room(s.room.Load()) {
	case Tight:
		return fmt.Errorf("%w: no new items are taken", queue.ErrDiskFull)
	case Full:
		return fmt.Errorf("%w: nothing is written", queue.ErrDiskFull)
	default:
		return nil
	}
}

// intent is what a verb is about to do.
type intent int

const (
	reads  intent = iota + 1
	writes        // and may make room
	grows         // and only adds
)

// begin opens a verb's transaction: the lock is held until s.mu.Unlock, and now
// is its time.
func (s *Store) begin(ctx context.Context, in intent) (now int64, err error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	switch room := Room(s.room.Load()); {
	case in == grows && room != Roomy:
		return 0, queue.ErrDiskFull
	case in == writes && room == Full:
		return 0, fmt.Errorf("%w: %w", queue.ErrUnavailable, queue.ErrDiskFull)
	}
	s.mu.Lock()
	switch {
	case s.err != nil:
		err = fmt.Errorf("%w: %w", queue.ErrUnavailable, s.err)
	case s.closed:
		err = errClosed
	default:
		now = s.clock.stamp()
		if step := s.clock.takeStep(); step > 0 {
			s.carryLeases(now, step)
		}
		return now, nil
	}
	s.mu.Unlock()
	return 0, err
}

// seal hands one group's writes to the disk, to be durable together.
func (s *Store) seal() {
	if len(s.batch) == 0 {
		return
	}
	s.last = s.disk.Append(s.batch, s.markNow())
	clear(s.batch)
	s.batch = s.batch[:0]
	clear(s.fresh)
	clear(s.replaced)
}

func (s *Store) markNow() Mark {
	return Mark{
		Seq: s.seq, Stamp: s.clock.last,
		Items: uint64(s.live + s.away), Documents: uint64(s.documents.byName.Len()),
	}
}

// leave closes a verb's transaction and waits until all that it did, and all that
// it may have seen of others, is durable.
func (s *Store) leave(ctx context.Context) error {
	last := s.last
	s.mu.Unlock()
	return last.Wait(ctx)
}

// look is leave for a verb that changed nothing.
func (s *Store) look(ctx context.Context) error {
	last := s.last
	s.mu.Unlock()
	return waitToRead(ctx, last)
}

// waitToRead waits until what was read is durable. Nothing is unknown if it does
// not get there: the reader changed nothing.
func waitToRead(ctx context.Context, commit *Commit) error {
	switch err := commit.Wait(ctx); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("%w: the store ends", queue.ErrUnavailable)
	}
}

// next is a number that was never given out: the order of arrival, revisions,
// names of contents and lines of the journal all come from one count.
func (s *Store) next() uint64 {
	s.seq++
	return s.seq
}

func (s *Store) put(key, value []byte, reread bool) {
	s.batch = append(s.batch, Write{Key: key, Value: value, Reread: reread})
}

func (s *Store) del(key []byte, reread bool) {
	s.batch = append(s.batch, Write{Key: key, Delete: true, Reread: reread})
}

// conforms is what a backend has when it adds Close to a Store.
type conforms struct{ *Store }

// Close implements [storage.Backend].
func (c conforms) Close() error { return nil }

var _ storage.Backend = conforms{}
