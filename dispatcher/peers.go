package dispatcher

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

const (
	// beatEvery is how often a node says that it is there, and looks who else is.
	beatEvery = time.Second
	// goneAfter is how long a node may be silent until others take its share: two beats
	// may be lost.
	goneAfter = 3*beatEvery + beatEvery/2
	// joinAfter is how long a node that finds others waits for them to see it.
	joinAfter = 2 * beatEvery
	// beatTimeout bounds one beat, so that a store that hangs is noticed.
	beatTimeout = beatEvery
	// leaveTimeout is short, since the stop waits for it.
	leaveTimeout = 500 * time.Millisecond
	maxPeers     = 1000
)

// Peer is the document by which a node says that it is there. What counts is that its
// revision rises.
type Peer struct {
	// Beat counts.
	Beat uint64 `json:"beat"`
}

// PeerDocs keeps the documents of the nodes that push from one store. The errors are
// [queue.ErrNotFound], [queue.ErrExists], [queue.ErrRevision], and those of the store.
type PeerDocs interface {
	Put(ctx context.Context, ns queue.Namespace, name string, value Peer, revision uint64,
		wakeAt time.Time, items ...queue.NewItem) (uint64, error)
	Delete(ctx context.Context, ns queue.Namespace, name string, revision uint64) error
	List(ctx context.Context, ns queue.Namespace, after string, limit int) ([]queue.Versioned[Peer], error)
}

// peers divides what a subscription may have at one time between the nodes that push.
//
// Each node has the same part, and what cannot be divided goes to those that come first by
// a hash of the node and the subscription, so that it is spread. A node that may have
// nothing pushes nothing. Nobody compares clocks: a node is there while others see its
// revision rise.
//
// A node that comes takes nothing before the others have seen it, and one that goes leaves
// its part to them when it says so, or when it was silent for goneAfter. So the limit holds
// but for the moments in which one that was thought to be gone comes back. nil is a node
// that has the store for itself.
type peers struct {
	docs PeerDocs
	self string
	log  *slog.Logger
	// changed is called when the parts are others.
	changed func()

	// Only run uses these.
	revision, beats uint64
	joined          time.Time
	failing         bool

	mu sync.Mutex
	// seen are the others.
	seen map[string]sighting
	// active says that this node may have its part; beatAt is when it last said that it
	// is there.
	active bool
	beatAt time.Time
	// told and toldNames are by what the lanes reckon.
	told      int
	toldNames map[string]bool
}

// sighting is what was seen of a node, and since when that is the same.
type sighting struct {
	revision uint64
	at       time.Time
}

func newPeers(docs PeerDocs, self string, log *slog.Logger, changed func()) *peers {
	return &peers{docs: docs, self: self, log: log, changed: changed, seen: map[string]sighting{}}
}

// run says that the node is there until ctx ends, and then that it is not.
func (p *peers) run(ctx context.Context) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		p.beat(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			p.leave(context.WithoutCancel(ctx))
			return
		}
	}
}

func (p *peers) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	asked := time.Now()
	found, err := p.say(ctx)
	switch {
	case err != nil && !p.failing:
		p.log.Warn("other nodes are not seen; limits of subscriptions are not shared anew", "error", err)
	case err == nil && p.failing:
		p.log.Info("other nodes are seen again")
	}
	p.failing = err != nil
	if err != nil {
		p.check(time.Now())
		return
	}
	p.look(ctx, found, asked)
}

// say writes that the node is there, and returns who is.
func (p *peers) say(ctx context.Context) ([]queue.Versioned[Peer], error) {
	err := p.put(ctx)
	found, listErr := p.docs.List(ctx, queue.DefaultNamespace, "", maxPeers)
	if listErr != nil {
		return nil, errors.Join(err, listErr)
	}
	if !errors.Is(err, queue.ErrRevision) && !errors.Is(err, queue.ErrExists) && !errors.Is(err, queue.ErrNotFound) {
		return found, err
	}
	// What is there is not what we know: an earlier beat was written although its answer
	// was an error, or others believed us gone and have cleared up.
	own := uint64(0)
	for _, doc := range found {
		if doc.Name == p.self {
			own = doc.Revision
		}
	}
	if p.revision = own; own == 0 {
		p.joined = time.Time{}
	}
	return found, p.put(ctx)
}

func (p *peers) put(ctx context.Context) error {
	revision, err := p.docs.Put(ctx, queue.DefaultNamespace, p.self, Peer{Beat: p.beats}, p.revision, time.Time{})
	if err == nil {
		p.revision = revision
		p.beats++
	}
	return err
}

// look takes note of who is there.
func (p *peers) look(ctx context.Context, found []queue.Versioned[Peer], now time.Time) {
	p.mu.Lock()
	there := map[string]bool{}
	var gone []queue.Versioned[Peer]
	for _, doc := range found {
		if doc.Name == p.self {
			continue
		}
		there[doc.Name] = true
		if s, known := p.seen[doc.Name]; !known || s.revision != doc.Revision {
			p.seen[doc.Name] = sighting{doc.Revision, now}
		} else if now.Sub(s.at) >= goneAfter {
			gone = append(gone, doc)
		}
	}
	for name := range p.seen {
		if !there[name] {
			delete(p.seen, name)
		}
	}
	if p.joined.IsZero() {
		p.joined = now
	}
	p.beatAt = now
	p.active = p.active || p.live(now) == 1 || now.Sub(p.joined) >= joinAfter
	changed := p.isNew(now)
	p.mu.Unlock()
	for _, doc := range gone {
		// Whoever is quicker clears up; one that comes back makes itself known again.
		_ = p.docs.Delete(ctx, queue.DefaultNamespace, doc.Name, doc.Revision)
	}
	if changed {
		p.changed()
	}
}

// isNew says whether the parts are others than when it was last asked. p.mu is held.
func (p *peers) isNew(now time.Time) bool {
	nodes := 0
	if p.active {
		nodes = p.live(now)
	}
	isNew := nodes != p.told || !maps.Equal(p.liveNames(now), p.toldNames)
	p.told, p.toldNames = nodes, p.liveNames(now)
	return isNew
}

// liveNames are the others that are there. p.mu is held.
func (p *peers) liveNames(now time.Time) map[string]bool {
	names := map[string]bool{}
	for name, s := range p.seen {
		if now.Sub(s.at) < goneAfter {
			names[name] = true
		}
	}
	return names
}

// check takes its part from a node that could not say for too long that it is there:
// others have it by now.
func (p *peers) check(now time.Time) {
	p.mu.Lock()
	lost := p.active && now.Sub(p.beatAt) >= goneAfter-beatEvery
	if lost {
		p.active = false
		p.isNew(now)
	}
	p.mu.Unlock()
	if lost {
		p.joined = time.Time{}
		p.changed()
	}
}

// live counts the nodes that are there, this one included. p.mu is held.
func (p *peers) live(now time.Time) int { return 1 + len(p.liveNames(now)) }

// leave says that the node is not there any more.
func (p *peers) leave(ctx context.Context) {
	if p.revision == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := p.docs.Delete(ctx, queue.DefaultNamespace, p.self, p.revision); err != nil {
		p.log.Debug("other nodes learn by our silence that we are gone", "error", err)
	}
}

// nodes is how many share a limit of so many, 0 if this one may have nothing now. Where
// there are more nodes than the limit has parts, the others have nothing.
func (p *peers) nodes(limit int) int {
	if p == nil {
		return 1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(p.told, limit)
}

// share is this node's part of a limit of whole things.
func (p *peers) share(limit int, of string) int {
	if p == nil {
		return limit
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told == 0 {
		return 0
	}
	before := 0
	own := weight(p.self, of)
	for name := range p.toldNames {
		if weight(name, of) > own {
			before++
		}
	}
	part := limit / p.told
	if before < limit%p.told {
		part++
	}
	return part
}

// weight says in which order nodes get what cannot be divided.
func weight(node, of string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(node))
	h.Write([]byte{0})
	h.Write([]byte(of))
	x := h.Sum64()
	// The last bytes of what is hashed move the upper bits little, by which we compare.
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}
