package badger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
	"github.com/tidwall/btree"

	"github.com/posthaste-io/posthaste/storage/resident"
)

// Bounds of a commit: what would pass them starts the next one. Badger takes twice
// as many writes and a quarter more bytes, which leaves room for a group.
const (
	maxWrites = 50_000
	maxBytes  = 8 << 20
)

// disk is a [resident.Disk] on Badger.
type disk struct {
	db   *badger.DB
	log  *bridge
	high *highWater
	wake chan struct{} // holds one: there is something to commit

	// durable is the number of the newest commit on the medium; reads are at it.
	durable atomic.Uint64
	// discard is what durable was a second ago: no read is that old.
	discard uint64
	mark    resident.Mark // as it was found

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

// markKey is where each commit leaves its number and mark: format, number, seq, stamp.
var markKey = []byte("h")

const markFormat = 1

func openDisk(o Options) (*disk, error) {
	high, err := openHighWater(o.Dir)
	if err != nil && !o.AcceptDataLoss {
		return nil, err
	}
	logger := &bridge{log: o.Log}
	db, err := badger.OpenManaged(badgerOptions(o, logger))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open badger: %w", err), high.close())
	}
	d := &disk{db: db, log: logger, high: high, wake: make(chan struct{}, 1)}
	if err := d.recover(o); err != nil {
		return nil, errors.Join(err, d.abort())
	}
	return d, nil
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
	if want.number > have.number {
		damaged := &DamagedError{Missing: want.number - have.number, Have: have.number, Want: want.number}
		if !o.AcceptDataLoss {
			return damaged
		}
		kept, err := d.high.preserve(have.number, want.number)
		if err != nil {
			return err
		}
		o.Log.Error("opened with loss of data", "missing_commits", damaged.Missing, "after_commit", have.number, "record_kept_as", kept)
	}
	// Numbers, tokens and times go on above whatever was given out before.
	d.mark = resident.Mark{Seq: max(have.mark.Seq, want.mark.Seq), Stamp: max(have.mark.Stamp, want.mark.Stamp)}
	d.next = max(have.number, want.number, d.db.MaxVersion()) + 1
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
		if g := d.queue[n-1]; len(g.writes)+writes <= maxWrites && g.bytes+size <= maxBytes {
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
			d.done(g, err)
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
		if w.Delete {
			err = txn.Delete(w.Key)
		} else {
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
	if err := d.log.err(); err != nil {
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
	return errors.Join(err, d.high.close())
}

// Get implements [resident.Disk].
func (d *disk) Get(key []byte) ([]byte, error) {
	d.mu.Lock()
	a, ok := d.ahead.Get(string(key))
	d.mu.Unlock()
	if ok && a.deleted {
		return nil, nil
	}
	if ok {
		return bytes.Clone(a.value), nil
	}
	txn := d.db.NewTransactionAt(d.durable.Load(), false)
	defer txn.Discard()
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	value, err := item.ValueCopy(nil)
	if err == nil && value == nil {
		value = []byte{}
	}
	return value, err
}

// Scan implements [resident.Disk]. What is ahead is looked at before the database,
// so that a commit that ends in between is seen twice rather than not at all.
func (d *disk) Scan(r resident.Range, visit func(key, value []byte) bool) error {
	var ahead []aheadPair
	if r.Reread {
		ahead = d.aheadOf(r)
	}
	txn := d.db.NewTransactionAt(d.durable.Load(), false)
	defer txn.Discard()
	it := txn.NewIterator(iteratorOptions(r))
	defer it.Close()
	if r.Backward {
		it.Seek(r.To)
		if it.Valid() && bytes.Equal(it.Item().Key(), r.To) {
			it.Next()
		}
	} else {
		it.Seek(r.From)
	}
	for {
		key, value, err := d.pick(it, &ahead, r)
		if err != nil {
			return err
		}
		if key == nil || !visit(key, value) {
			return nil
		}
	}
}

type aheadPair struct {
	key string
	aheadWrite
}

func (d *disk) aheadOf(r resident.Range) []aheadPair {
	var pairs []aheadPair
	from, to := string(r.From), string(r.To)
	d.mu.Lock()
	defer d.mu.Unlock()
	take := func(key string, a aheadWrite) bool {
		if key < from || !r.Backward && key >= to {
			return false
		}
		if key < to {
			pairs = append(pairs, aheadPair{key, a})
		}
		return true
	}
	if r.Backward {
		d.ahead.Descend(to, take)
	} else {
		d.ahead.Ascend(from, take)
	}
	return pairs
}

// pick takes the next key from the database or from what is ahead of it, which
// wins where both have it; a nil key is the end.
func (d *disk) pick(it *badger.Iterator, ahead *[]aheadPair, r resident.Range) (key, value []byte, err error) {
	for {
		key = nil
		if it.Valid() {
			key = it.Item().Key()
			if r.Backward && bytes.Compare(key, r.From) < 0 || !r.Backward && bytes.Compare(key, r.To) >= 0 {
				key = nil
			}
		}
		if len(*ahead) > 0 {
			a := (*ahead)[0]
			order := -1
			if key != nil {
				order = bytes.Compare([]byte(a.key), key)
				if r.Backward {
					order = -order
				}
			}
			if order <= 0 {
				*ahead = (*ahead)[1:]
				if order == 0 {
					it.Next()
				}
				if a.deleted {
					continue
				}
				return []byte(a.key), a.value, nil
			}
		}
		if key == nil {
			return nil, nil, nil
		}
		key = bytes.Clone(key)
		if !r.KeysOnly {
			if value, err = it.Item().ValueCopy(nil); err != nil {
				return nil, nil, fmt.Errorf("read %x: %w", key, err)
			}
		}
		it.Next()
		return key, value, nil
	}
}

func iteratorOptions(r resident.Range) badger.IteratorOptions {
	o := badger.DefaultIteratorOptions
	// Values lie beside their keys, so there is nothing to fetch ahead.
	o.PrefetchValues = false
	o.Reverse = r.Backward
	if !r.Backward {
		o.Prefix = commonPrefix(r.From, r.To)
	}
	return o
}

// commonPrefix is what all keys of a range begin with, so that Badger opens only
// the tables that have such keys.
func commonPrefix(from, to []byte) []byte {
	n := 0
	for n < len(from) && n < len(to) && from[n] == to[n] {
		n++
	}
	if n < len(from) && len(to) == n+1 && to[n] == from[n]+1 {
		n++
	}
	return from[:n:n]
}

// level is how far the store got: the number of a commit, and its mark.
type level struct {
	number uint64
	mark   resident.Mark
}

const levelSize = 3 * 8

func (l level) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, l.number)
	b = binary.BigEndian.AppendUint64(b, l.mark.Seq)
	return binary.BigEndian.AppendUint64(b, uint64(l.mark.Stamp))
}

func parseLevel(b []byte) level {
	if len(b) < levelSize {
		return level{}
	}
	return level{
		number: binary.BigEndian.Uint64(b),
		mark: resident.Mark{
			Seq:   binary.BigEndian.Uint64(b[8:]),
			Stamp: int64(binary.BigEndian.Uint64(b[16:])),
		},
	}
}
