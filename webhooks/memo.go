package webhooks

import "sync"

// maxMemo bounds what a memo keeps, in entries. It is for the endpoints that are in use;
// a process with more of them has only the work again that it would have without.
const maxMemo = 4096

// memo remembers what a pure function made of a text, so that what is the same in
// all requests to an endpoint is read and judged once. Errors are not remembered.
// Safe for concurrent use; what it returns is shared and must not be changed.
type memo[T any] struct {
	read func(text string) (T, error)

	mu   sync.RWMutex
	kept map[string]T
}

func newMemo[T any](read func(string) (T, error)) *memo[T] {
	return &memo[T]{read: read, kept: map[string]T{}}
}

func (m *memo[T]) of(text string) (T, error) {
	m.mu.RLock()
	v, ok := m.kept[text]
	m.mu.RUnlock()
	if ok {
		return v, nil
	}
	v, err := m.read(text)
	if err != nil {
		return v, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.kept) >= maxMemo {
		clear(m.kept) // cheaper than knowing which are the oldest
	}
	m.kept[text] = v
	return v, nil
}
