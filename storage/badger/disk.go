package badger

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
	"github.com/tidwall/btree"

	"github.com/posthaste-io/posthaste/storage/resident"
)

// disk is a [resident.Disk] on Badger.
type disk struct {
	db      *badger.DB
	flusher *flusher // nil: the kernel writes when it likes
	high    *highWater
	wake    chan struct{} // holds one: there is something to commit
	// maxBytes and maxWrites bound what gathers in a commit; a group that is larger has
	// one to itself.
	maxBytes, maxWrites int

	// durable is the number of the newest commit on the medium; reads are at it.
	durable atomic.Uint64
	// discard is what durable was a second ago: no read is that old.
	discard uint64
	mark    resident.Mark // as it was found

	trouble <-chan error // what Badger met in the background; holds one
	// look judges the free space; it is called every second, and by the committer after
	// so many bytes, since a fast writer fills a small disk in less.
	look      func()
	lookAfter int
	unlooked  int

	rot   rot
	found evidence // of before Badger opened the directory
	whole bool     // all tables were read then
	lost  bool     // commits are missing, and that was accepted

	mu       sync.Mutex
	queue    []*gathering // in order; the last one still gathers
	next     uint64       // number of the next gathering
	finished bool
	err      error // of the commit that ended it
	// ahead has what must be seen before it is durable.
	ahead btree.Map[string, aheadWrite]
}

var _ resident.Disk = (*disk)(nil)

// gathering is a commit before and while it is written.
type gathering struct {
	number uint64
	writes []resident.Write
	bytes  int
	mark   resident.Mark
	commit *resident.Commit
}

type aheadWrite struct {
	value   []byte
	deleted bool
	number  uint64 // of the commit that has it
}

// markKey is where each commit leaves its number and mark: format, level.
var markKey = []byte("h")

const markFormat = 1

func openDisk(o Options) (*disk, error) {
	high, err := openHighWater(o.Dir)
	if err != nil && (!o.AcceptDataLoss || !errors.Is(err, errHighWater)) {
		return nil, errors.Join(err, high.close())
	}
	found, whole, err := prepare(o, high.level)
	if err != nil {
		return nil, errors.Join(err, high.close())
	}
	trouble := make(chan error, 1)
	db, err := badger.OpenManaged(badgerOptions(o, trouble))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open badger: %w", err), high.close())
	}
	d := &disk{db: db, high: high, found: found, whole: whole, trouble: trouble, wake: make(chan struct{}, 1)}
	d.rot.dir, d.rot.log = o.Dir, o.Log
	if !o.UnsafeNoSync {
		if d.flusher, err = openFlusher(o.Dir); err != nil {
			return nil, errors.Join(err, d.abort())
		}
	}
	// Badger bounds a transaction's writes too, at one for 96 bytes.
	d.maxBytes = o.transactionBytes() * 2 / 3
	d.maxWrites = o.transactionBytes() / 200
	if err := d.recover(o); err != nil {
		return nil, errors.Join(err, d.abort())
	}
	return d, nil
}

// prepare looks at all files before Badger does, and keeps a copy of what Badger may
// cut off or remove.
func prepare(o Options, high level) (found evidence, whole bool, err error) {
	if err := tidyLogs(o.Dir); err != nil {
		return found, false, err
	}
	logs, err := sortedLogs(o.Dir)
	if err != nil {
		return found, false, err
	}
	newest, whole, err := checkTables(o, high, logs)
	if err != nil {
		return found, false, err
	}
	found = keepEvidence(o.Dir, logs, o.Log)
	if err := checkLogs(o, logs, newest); err != nil {
		return found, false, err
	}
	return found, whole, checkEmpty(o)
}

// recover compares what the database holds with what was promised.
func (d *disk) recover(o Options) error {
	d.durable.Store(d.db.MaxVersion())
	value, err := d.Get(markKey)
	if err != nil {
		return fmt.Errorf("read mark: %w", err)
	}
	var have level
	if len(value) > 0 && value[0] == markFormat {
		have = parseLevel(value[1:])
	}
	want := d.high.level
	// Numbers, tokens and times go on above whatever was given out before.
	// The counts are those of the commit that was found.
	d.mark = have.mark
	d.mark.Seq = max(have.mark.Seq, want.mark.Seq)
	d.mark.Stamp = max(have.mark.Stamp, want.mark.Stamp)
	d.next = max(have.number, want.number, d.db.MaxVersion()) + 1
	if want.number > have.number {
		return d.acceptLoss(o, &DamagedError{Missing: want.number - have.number, Have: have.number, Want: want.number})
	}
	return nil
}

// accepted is called when all was read and found whole, or good enough. Only a loss
// that was accepted has written anything by then; the copies are kept after one.
func (d *disk) accepted() error {
	d.mu.Lock()
	lost := d.lost || len(d.queue) > 0
	d.mu.Unlock()
	if lost {
		return nil
	}
	return d.found.discard()
}

// acceptLoss goes on without what is missing, if that was allowed, and makes it a
// fact by a commit above it.
func (d *disk) acceptLoss(o Options, damaged *DamagedError) error {
	if !o.AcceptDataLoss {
		return damaged
	}
	d.lost = true
	kept, err := d.high.preserve(damaged.Have, damaged.Want)
	if err != nil {
		return err
	}
	if err := d.commit(&gathering{number: d.next, mark: d.mark}); err != nil {
		return err
	}
	d.durable.Store(d.next)
	d.next++
	o.Log.Error("opened with loss of data", "missing_commits", damaged.Missing, "after_commit", damaged.Have, "record_kept_as", kept)
	return nil
}

// Mark implements [resident.Disk].
func (d *disk) Mark() resident.Mark { return d.mark }

// writeOverhead is what Badger adds to a write, generously, in bytes.
const writeOverhead = 32

// Append implements [resident.Disk].
func (d *disk) Append(writes []resident.Write, mark resident.Mark) *resident.Commit {
	size := 0
	for i := range writes {
		size += len(writes[i].Key) + len(writes[i].Value) + writeOverhead
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil || d.finished {
		commit := resident.NewCommit()
		commit.Resolve(errors.Join(d.err, errors.New("the store is closed")))
		return commit
	}
	g := d.gather(len(writes), size)
	g.writes = append(g.writes, writes...)
	g.bytes += size
	g.mark = mark
	for i := range writes {
		if w := &writes[i]; w.Reread {
			d.ahead.Set(string(w.Key), aheadWrite{value: w.Value, deleted: w.Delete, number: g.number})
		}
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
	return g.commit
}

// gather returns the commit that takes so much more.
func (d *disk) gather(writes, size int) *gathering {
	if n := len(d.queue); n > 0 {
		if g := d.queue[n-1]; len(g.writes)+writes <= d.maxWrites && g.bytes+size <= d.maxBytes {
			return g
		}
	}
	g := &gathering{number: d.next, commit: resident.NewCommit()}
	d.next++
	d.queue = append(d.queue, g)
	return g
}

// run commits until finish was called and nothing is left, or until a commit
// fails, which it reports once.
func (d *disk) run(failed func(error)) {
	for range d.wake {
		for g := d.take(); g != nil; g = d.take() {
			err := d.commit(g)
			if d.unlooked += g.bytes; d.look != nil && d.unlooked > d.lookAfter {
				d.unlooked = 0
				d.look()
			}
			d.done(g, err)
			// Who waited for it often has more to write, which then shares the next commit.
			runtime.Gosched()
			if err != nil {
				failed(err)
				d.refuse(err)
				return
			}
		}
	}
}

func (d *disk) take() *gathering {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 {
		return nil
	}
	g := d.queue[0]
	d.queue[0] = nil
	d.queue = d.queue[1:]
	return g
}

func (d *disk) commit(g *gathering) error {
	txn := d.db.NewTransactionAt(d.durable.Load(), true)
	defer txn.Discard()
	for i := range g.writes {
		w := &g.writes[i]
		var err error
		switch {
		case w.Delete:
			err = txn.Delete(w.Key)
		case len(w.Value) >= valueThreshold:
			err = errors.New("a value is so large that it would not be in the log that is flushed")
		default:
			err = txn.SetEntry(badger.NewEntry(w.Key, w.Value))
		}
		if err != nil {
			return fmt.Errorf("write commit %d: %w", g.number, err)
		}
	}
	l := level{number: g.number, mark: g.mark}
	if err := txn.Set(markKey, l.append([]byte{markFormat})); err != nil {
		return fmt.Errorf("write commit %d: %w", g.number, err)
	}
	if err := txn.CommitAt(g.number, nil); err != nil {
		return fmt.Errorf("write commit %d: %w", g.number, err)
	}
	if err := d.flusher.flush(); err != nil {
		return fmt.Errorf("write commit %d: %w", g.number, err)
	}
	if err := d.high.set(l); err != nil {
		return fmt.Errorf("write commit %d: %w", g.number, err)
	}
	return nil
}

// done wakes who waits. What was ahead of the disk is behind it now.
func (d *disk) done(g *gathering, err error) {
	if err == nil {
		d.durable.Store(g.number)
		d.mu.Lock()
		for i := range g.writes {
			if w := &g.writes[i]; w.Reread {
				if a, ok := d.ahead.Get(string(w.Key)); ok && a.number == g.number {
					d.ahead.Delete(string(w.Key))
				}
			}
		}
		d.mu.Unlock()
	}
	g.commit.Resolve(err)
}

// refuse tells all others that wait, and those who come later.
func (d *disk) refuse(err error) {
	d.mu.Lock()
	d.err = err
	rest := d.queue
	d.queue = nil
	d.mu.Unlock()
	for _, g := range rest {
		g.commit.Resolve(err)
	}
}

// finish lets run end when all is written. Nothing may be appended any more.
func (d *disk) finish() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.finished = true
	close(d.wake)
}

// maintain is called every second.
func (d *disk) maintain() error {
	d.db.SetDiscardTs(d.discard)
	d.discard = d.durable.Load()
	d.rot.follow(d.db.Tables)
	return d.high.sync()
}

// close ends the disk in order: the number on our own file is made durable last,
// and only by a store that is well.
func (d *disk) close(well bool) error {
	var err error
	if well {
		err = d.high.sync()
	}
	return errors.Join(err, d.abort())
}

func (d *disk) abort() error {
	err := d.db.Close()
	if err != nil {
		err = fmt.Errorf("close badger: %w", err)
	}
	return errors.Join(err, d.flusher.close(), d.high.close())
}
