package resident

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Tidy implements [queue.Store].
func (s *Store) Tidy(ctx context.Context, keep time.Duration) (more bool, err error) {
	keys, err := s.forget(ctx)
	if err != nil {
		return false, err
	}
	records, err := s.trim(ctx, keep)
	if err != nil {
		return false, err
	}
	contents, err := s.reap(ctx)
	if err != nil {
		return false, err
	}
	if _, err := s.begin(ctx, writes); err != nil {
		return false, err
	}
	s.dropEmpty()
	s.mu.Unlock()
	return keys || records || contents, nil
}

// forget drops a page of dedupe keys that are past their time.
func (s *Store) forget(ctx context.Context) (more bool, err error) {
	now, err := s.begin(ctx, writes)
	if err != nil {
		return false, err
	}
	from := be.AppendUint64([]byte{spaceForget}, uint64(s.forgotten))
	to := be.AppendUint64([]byte{spaceForget}, uint64(now)+1)
	var marks [][]byte
	err = s.disk.Scan(Range{From: from, To: to, Reread: true, KeysOnly: true}, func(key, _ []byte) bool {
		if len(marks) == chunk {
			more = true
			return false
		}
		marks = append(marks, bytes.Clone(key))
		return true
	})
	if err != nil {
		return false, s.abandon(fmt.Errorf("scan idempotency keys: %w", err))
	}
	for _, mark := range marks {
		s.forgotten = int64(be.Uint64(mark[1:]))
		key := append([]byte{spaceDedupe}, mark[1+8:]...)
		value, err := s.disk.Get(key)
		if err != nil {
			return false, s.abandon(fmt.Errorf("look up idempotency key: %w", err))
		}
		if k, err := decodeKnown(value); err != nil || k.until <= now {
			s.del(key, true)
		}
		s.del(mark, true)
	}
	s.seal()
	return more, s.leave(ctx)
}

// trim drops a page of journal records that are older than keep.
func (s *Store) trim(ctx context.Context, keep time.Duration) (more bool, err error) {
	now, err := s.begin(ctx, writes)
	if err != nil {
		return false, err
	}
	s.mu.Unlock()
	old, more, err := s.oldRecords(now - keep.Microseconds())
	if err != nil || len(old) == 0 {
		return false, err
	}
	if _, err := s.begin(ctx, writes); err != nil {
		return false, err
	}
	for _, o := range old {
		s.dropRecord(o.line, o.id, o.subscription)
	}
	s.seal()
	return more, s.leave(ctx)
}

// oldRecords returns a page of records from before a time, namespace by namespace.
func (s *Store) oldRecords(before int64) (old []oldRecord, more bool, err error) {
	key := []byte{spaceRecord}
	for key != nil && !more {
		next := []byte(nil)
		err := s.disk.Scan(Range{From: key, To: []byte{spaceRecord + 1}}, func(k, value []byte) bool {
			l := parseLineTail(queue.Namespace(be.Uint32(k[1:])), k)
			if l.at >= before {
				next = after(k[:1+4]) // the next namespace, if any
				return false
			}
			if more = len(old) == chunk; more {
				return false
			}
			r, err := decodeRecord(value)
			if err != nil {
				s.log.Error("journal record dropped", "key", fmt.Sprintf("%x", k), "err", err)
			}
			old = append(old, oldRecord{l, r.Key.ID, r.Subscription})
			return true
		})
		if err != nil {
			return nil, false, fmt.Errorf("scan journal: %w", err)
		}
		if next != nil && (next[0] != spaceRecord || bytes.Equal(next, key)) {
			next = nil
		}
		key = next
	}
	return old, more, nil
}
