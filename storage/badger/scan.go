package badger

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/posthaste-io/posthaste/storage/resident"
)

// Get implements [resident.Disk].
func (d *disk) Get(key []byte) (value []byte, err error) {
	d.mu.Lock()
	a, ok := d.ahead.Get(string(key))
	d.mu.Unlock()
	if ok && a.deleted {
		return nil, nil
	}
	if ok {
		return bytes.Clone(a.value), nil
	}
	if err := d.rot.check(key, key); err != nil {
		return nil, err
	}
	defer rescue(&err)
	txn := d.db.NewTransactionAt(d.durable.Load(), false)
	defer txn.Discard()
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	value, err = item.ValueCopy(nil)
	if err == nil && value == nil {
		value = []byte{}
	}
	return value, err
}

// Scan implements [resident.Disk]. What is ahead is looked at before the database,
// so that a commit that ends in between is seen twice rather than not at all.
func (d *disk) Scan(r resident.Range, visit func(key, value []byte) bool) error {
	if err := d.rot.checkRange(r); err != nil {
		return err
	}
	var ahead []aheadPair
	if r.Reread {
		ahead = d.aheadOf(r)
	}
	txn := d.db.NewTransactionAt(d.durable.Load(), false)
	defer txn.Discard()
	it := txn.NewIterator(iteratorOptions(r))
	defer it.Close()
	if err := seek(it, r); err != nil {
		return err
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

// seek goes to a range's first key.
func seek(it *badger.Iterator, r resident.Range) (err error) {
	defer rescue(&err)
	if !r.Backward {
		it.Seek(r.From)
		return nil
	}
	it.Seek(r.To)
	if it.Valid() && bytes.Equal(it.Item().Key(), r.To) {
		it.Next()
	}
	return nil
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
	defer rescue(&err)
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
