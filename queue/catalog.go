package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// QueueDocs keeps queues' settings by name; storage.Collection[Settings] does. Its
// errors are [ErrNotFound], [ErrExists], [ErrRevision] and those of [Store].
type QueueDocs interface {
	// Kind is what the store knows the documents by.
	Kind() string
	Get(ctx context.Context, ns Namespace, name string) (Settings, uint64, error)
	Put(ctx context.Context, ns Namespace, name string, s Settings, revision uint64, wakeAt time.Time, items ...NewItem) (uint64, error)
	Delete(ctx context.Context, ns Namespace, name string, revision uint64) error
	// PutChange is Put as a change among others; see [Options.Change].
	PutChange(ns Namespace, name string, s Settings, revision uint64, wakeAt time.Time) (DocumentChange, error)
	List(ctx context.Context, ns Namespace, after string, limit int) ([]Versioned[Settings], error)
}

// catalog remembers queues, so that hot verbs read no document. What this process
// changes shows at once; what others change, after maxAge.
type catalog struct {
	docs    QueueDocs
	numbers NumberDocs
	maxAge  time.Duration

	mu       sync.RWMutex
	byName   map[queueName]*knownQueue
	byNumber map[Number]*knownQueue
	// changes counts what we wrote, so that a document which was read before does
	// not overwrite what is newer.
	changes uint64
	// pauseChanged is told of queues whose lease was paused or resumed, renewed of those
	// that another node deleted and whose name is used anew, moved of those that have
	// another name. They are called under mu, so they may not come back here.
	pauseChanged, renewed, moved func(*knownQueue)
}

type queueName struct {
	ns   Namespace
	name string
}

// knownQueue is one queue for as long as it lives under its name; its settings are
// replaced.
type knownQueue struct {
	ns     Namespace
	name   string
	number Number
	latest atomic.Pointer[readSettings]
	// deadNumber is 0, or the number that a dead-letter queue was given which could not
	// be made: the next try takes it.
	deadNumber atomic.Uint64
	pins
	// moved says that the queue has another name, or may have; see [Broker.TurnIntoTopic].
	moved atomic.Bool
	// flow is the leaser's, and guarded by its lock.
	flow flow
	// spread is how its items lie in its partitions. seen is above the highest one that was
	// found to hold items, or 0.
	spread spread
	seen   atomic.Int32
}

type readSettings struct {
	Settings
	revision uint64
	// at is when they were certain: before they were read.
	at time.Time
	// outlets are those of a topic.
	outlets *outlets
}

func newCatalog(docs QueueDocs, numbers NumberDocs, maxAge time.Duration) *catalog {
	return &catalog{
		docs: docs, numbers: numbers, maxAge: maxAge,
		byName: map[queueName]*knownQueue{}, byNumber: map[Number]*knownQueue{},
		pauseChanged: func(*knownQueue) {}, renewed: func(*knownQueue) {}, moved: func(*knownQueue) {},
	}
}

// settings returns what the queue was last known to be like. It is shared: not to
// be changed.
func (q *knownQueue) settings() *Settings { return &q.latest.Load().Settings }

// named returns a queue, or [ErrNotFound], or [TopicError].
func (c *catalog) named(ctx context.Context, ns Namespace, name string) (*knownQueue, error) {
	return asQueue(c.either(ctx, ns, name))
}

// reread is named from the document, however fresh what is known is.
func (c *catalog) reread(ctx context.Context, ns Namespace, name string) (*knownQueue, error) {
	return asQueue(c.rereadEither(ctx, ns, name))
}

// either returns a queue or a topic.
func (c *catalog) either(ctx context.Context, ns Namespace, name string) (*knownQueue, error) {
	if q := c.peek(ns, name); q != nil {
		return q, nil
	}
	return c.rereadEither(ctx, ns, name)
}

func (c *catalog) rereadEither(ctx context.Context, ns Namespace, name string) (*knownQueue, error) {
	for {
		before := c.mark()
		s, revision, err := c.docs.Get(ctx, ns, name)
		if errors.Is(err, ErrNotFound) {
			c.forget(ns, name, before)
		}
		if err != nil {
			return nil, err
		}
		if q := c.keep(s, revision, before); q != nil {
			return q, nil
		}
	}
}

// numbered returns a queue by its number, or [ErrNotFound], or [TopicError].
func (c *catalog) numbered(ctx context.Context, n Number) (*knownQueue, error) {
	return asQueue(c.numberedEither(ctx, n))
}

func (c *catalog) numberedEither(ctx context.Context, n Number) (*knownQueue, error) {
	c.mu.RLock()
	q := c.byNumber[n]
	c.mu.RUnlock()
	if q != nil && c.isFresh(q) {
		return q, nil
	}
	for tried := ""; ; {
		name := ""
		if q != nil {
			name, q = q.name, nil
		} else {
			entry, _, err := c.numbers.Get(ctx, n.Namespace(), numberName(n))
			if err != nil {
				return nil, err
			}
			name = entry.Queue
		}
		found, err := c.either(ctx, n.Namespace(), name)
		switch {
		case err != nil:
			return nil, err
		case found.number == n:
			return found, nil
		case name == tried || found.settings().Topic == nil:
			return nil, fmt.Errorf("queue number %d: %w", n.Own(), ErrNotFound)
		}
		tried = name // it was a queue, which has another name now
	}
}

// rereadNumbered is numberedEither from the document, however fresh what is known is.
func (c *catalog) rereadNumbered(ctx context.Context, n Number) (*knownQueue, error) {
	q, err := c.numbered(ctx, n)
	if err != nil {
		return nil, err
	}
	reread, err := c.rereadEither(ctx, q.ns, q.name)
	switch {
	case err != nil:
		return nil, err
	case reread.number == n:
		return reread, nil
	}
	return c.numbered(ctx, n)
}

// peek returns a queue that is known, without reading anything, or nil.
func (c *catalog) peek(ns Namespace, name string) *knownQueue {
	c.mu.RLock()
	q := c.byName[queueName{ns, name}]
	c.mu.RUnlock()
	if q != nil && c.isFresh(q) {
		return q
	}
	return nil
}

func (c *catalog) isFresh(q *knownQueue) bool {
	return time.Since(q.latest.Load().at) < c.maxAge
}

// mark is taken before something is read.
type mark struct {
	changes uint64
	at      time.Time
}

func (c *catalog) mark() mark {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return mark{c.changes, time.Now()}
}

// keep remembers what was read, unless something was changed since then: nil says
// read again.
func (c *catalog) keep(s Settings, revision uint64, before mark) *knownQueue {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes != before.changes {
		return nil
	}
	return c.set(s, revision, before.at)
}

// changed remembers what was written, at a time after at.
func (c *catalog) changed(s Settings, revision uint64, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.set(s, revision, at)
}

// removed forgets a queue, or makes the next look-up read it again.
func (c *catalog) removed(q *knownQueue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.drop(q)
}

func (c *catalog) forget(ns Namespace, name string, before mark) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.byName[queueName{ns, name}]; q != nil && c.changes == before.changes {
		c.drop(q)
	}
}

// set makes settings the latest of their queue; nil says that they are older than what is
// known of the number or the name. c.mu is held.
func (c *catalog) set(s Settings, revision uint64, at time.Time) *knownQueue {
	read := &readSettings{Settings: s, revision: revision, at: at}
	if s.Topic != nil {
		read.outlets = new(outlets)
	}
	q := c.byNumber[s.Number]
	if q != nil && q.name != s.Name {
		if q.latest.Load().revision > revision {
			return nil
		}
		c.move(q) // another node made a topic of it
		q = nil
	}
	if q == nil {
		if old := c.byName[queueName{s.Namespace, s.Name}]; old != nil {
			if old.latest.Load().revision > revision {
				return nil
			}
			if s.Topic != nil && s.Topic.KeyScope == old.number {
				c.move(old)
			} else {
				c.drop(old) // another node deleted it, and the name is used anew
				c.renewed(old)
			}
		}
		q = &knownQueue{ns: s.Namespace, name: s.Name, number: s.Number}
		q.latest.Store(read)
		c.byName[queueName{s.Namespace, s.Name}] = q
		c.byNumber[s.Number] = q
		return q
	}
	before := q.latest.Load()
	if before.revision > revision {
		return q // read before what is known, and answered after it
	}
	if before.revision == revision && before.outlets != nil {
		read.outlets = before.outlets // the same subscribers, whose filters are compiled
	}
	q.latest.Store(read)
	if before.Paused.Has(PausedLease) != s.Paused.Has(PausedLease) {
		c.pauseChanged(q)
	}
	return q
}

// move forgets a queue that has another name now. c.mu is held.
func (c *catalog) move(q *knownQueue) {
	q.moved.Store(true)
	c.drop(q)
	c.moved(q)
}

// drop is forgetting. c.mu is held.
func (c *catalog) drop(q *knownQueue) {
	if c.byNumber[q.number] == q {
		delete(c.byNumber, q.number)
	}
	if key := (queueName{q.ns, q.name}); c.byName[key] == q {
		delete(c.byName, key)
	}
}

func numberName(n Number) string { return strconv.FormatUint(uint64(n.Own()), 10) }
