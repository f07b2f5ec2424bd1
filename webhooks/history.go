package webhooks

import (
	"cmp"
	"container/list"
	"context"
	"sync"
	"time"
)

// History remembers what was handled. Implementations are called concurrently, never
// for one id by two requests to the same [Receiver] at a time.
//
// The best one writes the id in the transaction of the work itself: then Remember has
// nothing left to do, and a crash between the two cannot have the work done twice.
type History interface {
	// Seen says whether an id is remembered. An error has the request answered 503: the
	// item comes again.
	Seen(ctx context.Context, id string) (bool, error)
	// Remember keeps an id until a time at least. It is called once the work is done, not
	// before: an id that is known before its work has succeeded would turn the retry of
	// a failure away. After an error the item may be handled again.
	Remember(ctx context.Context, id string, until time.Time) error
}

// DefaultHistorySize is how many ids a [MemoryHistory] keeps that was not told otherwise.
const DefaultHistorySize = 100_000

// MemoryHistory is a [History] of this process: it knows nothing after a restart, and
// nothing of other processes. Beyond its size the oldest ids are forgotten. Safe for
// concurrent use.
type MemoryHistory struct {
	size int

	mu sync.Mutex
	// byID has the elements of order, whose values are memories, the oldest in front.
	byID  map[string]*list.Element
	order *list.List
}

type memory struct {
	id    string
	until time.Time
}

var _ History = (*MemoryHistory)(nil)

// NewMemoryHistory returns one of at most size ids, each about 250 bytes; 0 is
// [DefaultHistorySize].
func NewMemoryHistory(size int) *MemoryHistory {
	return &MemoryHistory{
		size: max(cmp.Or(size, DefaultHistorySize), 1),
		byID: map[string]*list.Element{}, order: list.New(),
	}
}

// Seen implements [History]. Its error is nil.
func (h *MemoryHistory) Seen(_ context.Context, id string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.byID[id]
	return e != nil && time.Now().Before(e.Value.(memory).until), nil
}

// Remember implements [History]. Its error is nil.
func (h *MemoryHistory) Remember(_ context.Context, id string, until time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.byID[id]; e != nil {
		h.order.Remove(e)
	}
	h.byID[id] = h.order.PushBack(memory{id, until})
	// Times come in order, or nearly: one that is late is forgotten a little later.
	for now := time.Now(); ; {
		oldest := h.order.Front().Value.(memory)
		if h.order.Len() <= h.size && now.Before(oldest.until) {
			return nil
		}
		h.order.Remove(h.order.Front())
		delete(h.byID, oldest.id)
		if h.order.Len() == 0 {
			return nil
		}
	}
}
