package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func TestService_RefusesASecondSubscriptionOfAQueue(t *testing.T) {
	t.Parallel()
	s, kit := setup(t)
	if _, err := s.Create(t.Context(), params("billing", "orders")); err != nil {
		t.Fatal(err)
	}
	_, err := s.Create(t.Context(), params("mail", "orders"))
	taken, ok := errors.AsType[*TakenError](err)
	if !ok || taken.By != "billing" || !errors.Is(err, queue.ErrExists) || strings.Contains(err.Error(), queue.ErrExists.Error()) {
		t.Errorf("got %v", err)
	}
	if len(kit.docs.all) != 1 {
		t.Errorf("the refused one left a document behind: %v", kit.docs.all)
	}
	_, err = s.Create(t.Context(), params("billing", "invoices"))
	if !errors.Is(err, queue.ErrExists) || errors.As(err, &taken) {
		t.Errorf("same name: got %v", err)
	}
}

func TestService_RefusedCreateMakesNoQueue(t *testing.T) {
	t.Parallel()
	s, kit := setup(t)
	if _, err := s.Create(t.Context(), params("billing", "orders")); err != nil {
		t.Fatal(err)
	}
	kit.made = nil
	for _, p := range []CreateParams{params("billing", "invoices"), params("mail", "orders")} {
		if _, err := s.Create(t.Context(), p); !errors.Is(err, queue.ErrExists) {
			t.Errorf("%s on %s: got %v, want already exists", p.Name, p.Queue, err)
		}
	}
	if len(kit.made) != 0 {
		t.Errorf("queues made: %v, want none", kit.made)
	}
}

func TestService_CreateWithoutAQueueLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s, kit := setup(t)
	kit.ensureErr = queue.ErrDiskFull
	if _, err := s.Create(t.Context(), params("billing", "orders")); !errors.Is(err, queue.ErrDiskFull) {
		t.Errorf("got %v, want why the queue was not made", err)
	}
	if len(kit.docs.all) != 0 || len(kit.claims.all) != 0 {
		t.Errorf("left behind: %v, %v", kit.docs.all, kit.claims.all)
	}
	kit.ensureErr = nil
	if _, err := s.Create(t.Context(), params("billing", "orders")); err != nil {
		t.Errorf("create afterwards: %v", err)
	}
}

// Every step of a creation may be the last one that a process makes.
func TestService_CreateTakesOverWhatACrashLeft(t *testing.T) {
	t.Parallel()
	for steps := range 4 {
		for _, next := range []string{"billing", "mail"} {
			t.Run(fmt.Sprintf("%s after %d writes", next, steps), func(t *testing.T) {
				t.Parallel()
				s, kit := setup(t)
				writes := 0
				crash := func(string) error {
					if writes++; writes > steps {
						return errCrashed
					}
					return nil
				}
				kit.docs.before, kit.claims.before = crash, crash
				_, err := s.Create(t.Context(), params("billing", "orders"))
				if finished := steps == 3; finished != (err == nil) {
					t.Fatalf("create in a crash: %v", err)
				}
				kit.docs.before, kit.claims.before = nil, nil

				_, err = s.Create(t.Context(), params(next, "orders"))
				if steps == 3 {
					if !errors.Is(err, queue.ErrExists) {
						t.Errorf("got %v, want already exists", err)
					}
					return
				}
				if err != nil {
					t.Errorf("create: %v", err)
				}
				if sub, err := s.ByQueue(t.Context(), queue.DefaultNamespace, "orders"); err != nil || sub.Name != next {
					t.Errorf("by queue: %v, %v", sub.Name, err)
				}
			})
		}
	}
}

func TestService_DeleteThatCrashedLeavesTheQueueFree(t *testing.T) {
	t.Parallel()
	s, kit := setup(t)
	if _, err := s.Create(t.Context(), params("billing", "orders")); err != nil {
		t.Fatal(err)
	}
	kit.claims.before = func(string) error { return errCrashed }
	if err := s.Delete(t.Context(), queue.DefaultNamespace, "billing"); err != nil {
		t.Errorf("delete without its last step: %v", err)
	}
	kit.claims.before = nil
	// The name is used anew for another queue: the old claim names it wrongly.
	if _, err := s.Create(t.Context(), params("billing", "invoices")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ByQueue(t.Context(), queue.DefaultNamespace, "orders"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("by queue: %v", err)
	}
	if _, err := s.Create(t.Context(), params("mail", "orders")); err != nil {
		t.Errorf("create on the freed queue: %v", err)
	}
}

// A deletion that is slow must not remove the claim of who came after it.
func TestService_SlowDeleteKeepsTheNextClaim(t *testing.T) {
	t.Parallel()
	s, kit := setup(t)
	if _, err := s.Create(t.Context(), params("billing", "orders")); err != nil {
		t.Fatal(err)
	}
	once := true
	kit.claims.before = func(op string) error {
		if op == "delete" && once {
			once = false
			if _, err := s.Create(t.Context(), params("billing", "orders")); err != nil {
				t.Errorf("create within delete: %v", err)
			}
		}
		return nil
	}
	if err := s.Delete(t.Context(), queue.DefaultNamespace, "billing"); err != nil {
		t.Fatal(err)
	}
	if sub, err := s.ByQueue(t.Context(), queue.DefaultNamespace, "orders"); err != nil || sub.Name != "billing" {
		t.Errorf("the claim is gone: %v", err)
	}
}

// Creations and deletions race over few names and queues; whatever they did, each
// queue has one subscription at most, and each subscription its claim.
func TestService_RacesLeaveOneSubscriptionPerQueue(t *testing.T) {
	t.Parallel()
	for range 200 {
		s, kit := setup(t)
		kit.docs.yield, kit.claims.yield = true, true
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := map[string]int{}
		for i := range 8 {
			wg.Go(func() {
				name, q := fmt.Sprint("s", i%4), fmt.Sprint("q", rand.IntN(2))
				_, err := s.Create(t.Context(), params(name, q))
				if err == nil {
					mu.Lock()
					won[q]++
					mu.Unlock()
				} else if !errors.Is(err, queue.ErrExists) {
					t.Errorf("create: %v", err)
				}
			})
		}
		wg.Wait()
		all, err := s.All(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		perQueue := map[string]int{}
		for _, sub := range all {
			perQueue[sub.Queue]++
			if by, err := s.ByQueue(t.Context(), queue.DefaultNamespace, sub.Queue); err != nil || by.Name != sub.Name {
				t.Errorf("%s has no claim on %s: %v", sub.Name, sub.Queue, err)
			}
		}
		for q, n := range perQueue {
			if n != 1 || won[q] != 1 {
				t.Errorf("queue %s: %d subscriptions, %d creations succeeded", q, n, won[q])
			}
		}
	}
}

var errCrashed = errors.New("crashed")

// mapCollection keeps documents in a map.
type mapCollection[T any] struct {
	// before is asked before a write: put or delete.
	before func(op string) error
	// beforeGet and afterGet run around a read, if they are not nil.
	beforeGet, afterGet func()
	// yield mixes up concurrent callers.
	yield bool

	mu   sync.Mutex
	last uint64
	all  map[string]versioned[T]
}

type versioned[T any] struct {
	value    T
	revision uint64
}

func newMapCollection[T any]() *mapCollection[T] {
	return &mapCollection[T]{all: map[string]versioned[T]{}}
}

func (c *mapCollection[T]) Get(_ context.Context, _ queue.Namespace, name string) (T, uint64, error) {
	if c.beforeGet != nil {
		c.beforeGet()
	}
	c.mu.Lock()
	v, ok := c.all[name]
	c.mu.Unlock()
	if c.afterGet != nil {
		c.afterGet()
	}
	if !ok {
		return v.value, 0, queue.ErrNotFound
	}
	return v.value, v.revision, nil
}

func (c *mapCollection[T]) Put(_ context.Context, _ queue.Namespace, name string, value T, revision uint64, _ time.Time, _ ...queue.NewItem) (uint64, error) {
	if err := c.ask("put"); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.check(name, revision); err != nil {
		return 0, err
	}
	c.last++
	c.all[name] = versioned[T]{value, c.last}
	return c.last, nil
}

func (c *mapCollection[T]) Delete(_ context.Context, _ queue.Namespace, name string, revision uint64) error {
	if err := c.ask("delete"); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.all[name]; !ok {
		return queue.ErrNotFound
	}
	if err := c.check(name, revision); err != nil {
		return err
	}
	delete(c.all, name)
	return nil
}

func (c *mapCollection[T]) List(_ context.Context, ns queue.Namespace, after string, limit int) ([]queue.Versioned[T], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var page []queue.Versioned[T]
	for _, name := range slices.Sorted(maps.Keys(c.all)) {
		if name > after && len(page) < limit {
			page = append(page, queue.Versioned[T]{Namespace: ns, Name: name, Revision: c.all[name].revision, Value: c.all[name].value})
		}
	}
	return page, nil
}

func (c *mapCollection[T]) ask(op string) error {
	if c.yield {
		runtime.Gosched()
	}
	if c.before == nil {
		return nil
	}
	return c.before(op)
}

func (c *mapCollection[T]) check(name string, revision uint64) error {
	stored, ok := c.all[name]
	switch {
	case revision == 0 && ok:
		return queue.ErrExists
	case revision != 0 && stored.revision != revision:
		return queue.ErrRevision
	}
	return nil
}

func (c *mapCollection[T]) put(t *testing.T, name string, value T) {
	t.Helper()
	if _, err := c.Put(t.Context(), queue.DefaultNamespace, name, value, 0, never); err != nil {
		t.Fatal(err)
	}
}

// PutChange is for tests with a store.
func (c *mapCollection[T]) PutChange(queue.Namespace, string, T, uint64, time.Time) (queue.DocumentChange, error) {
	panic("a map has no changes of several documents")
}
