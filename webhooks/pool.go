package webhooks

import (
	"sync"
	"time"
)

// pool keeps idle connections of HTTP/1, each for one key. It is safe for concurrent use.
type pool struct {
	perHost int

	mu     sync.Mutex
	idle   map[poolKey][]*conn // by when they became idle
	tidy   *time.Timer         // nil while there are none
	closed bool
}

func newPool(perHost int) *pool { return &pool{perHost: perHost, idle: map[poolKey][]*conn{}} }

// get takes the connection out that was used last, nil if there is none. With few
// requests the others grow old, and are closed.
func (p *pool) get(key poolKey) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	conns := p.idle[key]
	if len(conns) == 0 {
		return nil
	}
	last := len(conns) - 1
	c := conns[last]
	conns[last] = nil
	p.idle[key] = conns[:last]
	return c
}

// put keeps a connection, or closes it if there are enough.
func (p *pool) put(key poolKey, c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle[key]) >= p.perHost {
		c.Close()
		return
	}
	c.idle = time.Now()
	p.idle[key] = append(p.idle[key], c)
	if p.tidy == nil {
		p.tidy = time.AfterFunc(idleTime, p.sweep)
	}
}

// sweep closes what has been idle for too long.
func (p *pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tidy = nil
	now := time.Now()
	var oldest time.Time
	for key, conns := range p.idle {
		for len(conns) > 0 && now.Sub(conns[0].idle) >= idleTime {
			conns[0].Close()
			conns[0] = nil
			conns = conns[1:]
		}
		p.idle[key] = conns
		if len(conns) == 0 {
			delete(p.idle, key)
		} else if oldest.IsZero() || conns[0].idle.Before(oldest) {
			oldest = conns[0].idle
		}
	}
	if !oldest.IsZero() && !p.closed {
		p.tidy = time.AfterFunc(oldest.Add(idleTime).Sub(now), p.sweep)
	}
}

// close closes what is idle, now and from now on.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.tidy != nil {
		p.tidy.Stop()
		p.tidy = nil
	}
	for _, conns := range p.idle {
		for _, c := range conns {
			c.Close()
		}
	}
	clear(p.idle)
}
