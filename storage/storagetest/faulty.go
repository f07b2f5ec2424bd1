package storagetest

import (
	"context"
	"slices"
	"sync"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// Verb names a method of [storage.Backend] for a [Faulty] store.
type Verb string

// The verbs that a [Faulty] store counts, fails and blocks.
const (
	Produce        Verb = "produce"
	Lease          Verb = "lease"
	Settle         Verb = "settle"
	Extend         Verb = "extend"
	NextDue        Verb = "next due"
	Sweep          Verb = "sweep"
	Tidy           Verb = "tidy"
	Find           Verb = "find"
	ListItems      Verb = "list items"
	Move           Verb = "move"
	Purge          Verb = "purge"
	ListKeys       Verb = "list keys"
	Stats          Verb = "stats"
	GetDocument    Verb = "get document"
	PutDocument    Verb = "put document"
	DeleteDocument Verb = "delete document"
	ListDocuments  Verb = "list documents"
	DueDocuments   Verb = "due documents"
	ReadJournal    Verb = "read journal"

	ChangeDocuments Verb = "change documents"
)

// Faulty is a store that fails on command, before or after a call takes effect:
// for the tests of everything that stands on a store. All else goes to the store
// below. Its methods may be called concurrently.
type Faulty struct {
	storage.Backend

	mu     sync.Mutex
	calls  map[Verb]int
	faults []fault
	down   error
	gates  map[Verb]chan struct{}
	// begun is closed, and made anew, whenever a call begins.
	begun chan struct{}
}

// fault is one call that is to fail, by its number.
type fault struct {
	verb  Verb
	call  int
	after bool
	err   error
}

var _ storage.Backend = (*Faulty)(nil)

// NewFaulty returns a store that works as b does until it is told otherwise.
func NewFaulty(b storage.Backend) *Faulty {
	return &Faulty{
		Backend: b,
		calls:   map[Verb]int{},
		gates:   map[Verb]chan struct{}{},
		begun:   make(chan struct{}),
	}
}

// FailBefore makes the n-th call from now of a verb (1 is the next) answer err
// and do nothing, as with [queue.ErrUnavailable].
func (f *Faulty) FailBefore(verb Verb, n int, err error) { f.plan(verb, n, false, err) }

// FailAfter makes the n-th call from now of a verb (1 is the next) take effect
// and still answer err, as with [queue.ErrUnknownOutcome].
func (f *Faulty) FailAfter(verb Verb, n int, err error) { f.plan(verb, n, true, err) }

func (f *Faulty) plan(verb Verb, n int, after bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, fault{verb: verb, call: f.calls[verb] + n, after: after, err: err})
}

// Down makes every call answer [queue.ErrUnavailable] and do nothing, until Up.
func (f *Faulty) Down() { f.setDown(queue.ErrUnavailable) }

// Up ends [Faulty.Down].
func (f *Faulty) Up() { f.setDown(nil) }

func (f *Faulty) setDown(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = err
}

// Block makes the calls of a verb wait, before they take effect, until open is
// called. A waiting call whose context ends answers the context's error and does
// nothing. Block and open go in pairs; open may be called more than once.
func (f *Faulty) Block(verb Verb) (open func()) {
	gate := make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gates[verb] = gate
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.gates[verb] == gate {
			delete(f.gates, verb)
		}
		close(gate)
	})
}

// Calls returns how many calls of a verb have begun, blocked and failed ones too.
func (f *Faulty) Calls(verb Verb) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[verb]
}

// AwaitCalls waits until n calls of a verb have begun, or ctx ends.
func (f *Faulty) AwaitCalls(ctx context.Context, verb Verb, n int) error {
	for {
		f.mu.Lock()
		calls, begun := f.calls[verb], f.begun
		f.mu.Unlock()
		if calls >= n {
			return nil
		}
		select {
		case <-begun:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// begin counts a call, waits at the verb's gate, and says how the call is to fail:
// at once with err, or by the fault after it has taken effect.
func (f *Faulty) begin(ctx context.Context, verb Verb) (after *fault, err error) {
	f.mu.Lock()
	f.calls[verb]++
	number, gate := f.calls[verb], f.gates[verb]
	close(f.begun)
	f.begun = make(chan struct{})
	f.mu.Unlock()

	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down != nil {
		return nil, f.down
	}
	i := slices.IndexFunc(f.faults, func(p fault) bool { return p.verb == verb && p.call == number })
	if i < 0 {
		return nil, nil
	}
	found := f.faults[i]
	f.faults = slices.Delete(f.faults, i, i+1)
	if !found.after {
		return nil, found.err
	}
	return &found, nil
}

// through runs one call of a verb, with the faults that were ordered for it.
func through[A any](ctx context.Context, f *Faulty, verb Verb, call func() (A, error)) (A, error) {
	var none A
	after, err := f.begin(ctx, verb)
	if err != nil {
		return none, err
	}
	answer, err := call()
	if after != nil {
		return none, after.err
	}
	return answer, err
}
