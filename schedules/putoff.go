package schedules

import (
	"sync"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

const (
	// later is for how long a node lets be what it cannot fire.
	later = time.Minute
	// maxPutOff bounds how many are remembered; more are tried each time.
	maxPutOff = 10_000
)

// putOff remembers what this node cannot fire, so that it does not stand before all others.
// Nothing is written: another node, of a newer release perhaps, can fire it, and until it
// does it is overdue. Safe for concurrent use.
type putOff struct {
	mu    sync.Mutex
	until map[version]time.Time
}

// version is a schedule as it was read.
type version struct {
	namespace queue.Namespace
	name      string
	revision  uint64
}

func versionOf(doc *queue.Versioned[Document]) version {
	return version{doc.Namespace, doc.Name, doc.Revision}
}

func (p *putOff) add(doc *queue.Versioned[Document]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == nil {
		p.until = make(map[version]time.Time)
	}
	if len(p.until) < maxPutOff {
		p.until[versionOf(doc)] = time.Now().Add(later)
	}
}

// size is how many are put off.
func (p *putOff) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for v, until := range p.until {
		if !until.After(now) {
			delete(p.until, v)
		}
	}
	return len(p.until)
}

// without leaves out those that are put off.
func (p *putOff) without(due []queue.Versioned[Document]) []queue.Versioned[Document] {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := due[:0]
	for i := range due {
		if _, off := p.until[versionOf(&due[i])]; !off {
			left = append(left, due[i])
		}
	}
	return left
}
