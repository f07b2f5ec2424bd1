package webhooks

import (
	"context"
	"crypto/tls"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of HTTP/2 towards an endpoint, beside those that all answers have.
const (
	// A link that has been silent for pingAfter is asked whether it is still there, and
	// closed if it has not said so within pingTime.
	pingAfter = 15 * time.Second
	pingTime  = 5 * time.Second
	// blockedTime is how long nothing may be taken from us before a link is closed.
	blockedTime = 10 * time.Second
	// linkWindow is how much of its answers' bodies may be under way on one link.
	linkWindow = 1 << 20
)

// link is a connection of HTTP/2, which carries several requests at a time.
type link struct {
	*http.ClientConn
	wire *wire
	key  poolKey
	// used says that an answer came over it. Until then it is for one request: before the
	// endpoint's settings have come, nobody knows how many it takes.
	used atomic.Bool

	// By the lock of links: how many requests are on it, and whether it takes no more, and is
	// closed after the last. What ClientConn counts has those as well that the endpoint was
	// told the end of and has not confirmed, which it may never do.
	running int
	retired bool
}

// links keeps the connections of HTTP/2 that are used: of each key one, and more only while
// that has all the requests that the endpoint lets it have. They close by themselves when
// they are idle. Safe for concurrent use.
type links struct {
	perKey int

	mu sync.Mutex
	// byKey has slices that are never changed in place, so that they can be read on without
	// the lock.
	byKey  map[poolKey][]*link
	closed bool
}

func newLinks(perKey int) *links { return &links{perKey: perKey, byKey: map[poolKey][]*link{}} }

// reserve returns a link with a place for one more request, nil if there is none. A round
// trip uses the place up, and done must follow.
func (p *links) reserve(key poolKey) *link {
	p.mu.Lock()
	ready := p.byKey[key]
	p.mu.Unlock()
	for _, l := range ready {
		// Not under the lock: it may find the connection closed, and call gone.
		if l.Reserve() != nil {
			continue
		}
		if p.begin(l) {
			return l
		}
		l.Release()
	}
	return nil
}

func (p *links) begin(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.retired {
		return false
	}
	l.running++
	l.wire.allow(l.running)
	return true
}

// open makes a link of a connection on which HTTP/2 was agreed, with a place reserved.
func (p *links) open(ctx context.Context, key poolKey, address string, over *tls.Conn, deadline time.Time) (*link, error) {
	w := newWire(over)
	w.allow(1)
	w.SetWriteDeadline(deadline) // of the preface
	cc, err := w.speak(ctx, address)
	if err != nil {
		w.Close()
		return nil, err
	}
	w.SetWriteDeadline(time.Time{})
	l := &link{ClientConn: cc, wire: w, key: key, running: 1}
	// If it was closed already, the round trip says so, and knows more of why.
	_ = l.Reserve()
	cc.SetStateHook(func(*http.ClientConn) {
		if l.Err() != nil {
			p.gone(l)
		}
	})
	return l, nil
}

// answered is told of each answer, and after the first lets others use the link, unless
// there is one that has places left.
func (p *links) answered(l *link) {
	if l.used.Swap(true) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ready := p.byKey[l.key]
	free := func(other *link) bool { return other.Available() > 0 }
	if p.closed || len(ready) >= p.perKey || slices.ContainsFunc(ready, free) {
		l.retired = true
		return
	}
	p.byKey[l.key] = append(slices.Clip(ready), l)
}

// done is told of each request's end. A link that is not to be kept is left to those that
// are still on it.
func (p *links) done(l *link, keep bool) {
	p.mu.Lock()
	l.running--
	if !keep {
		p.retire(l)
	}
	last := l.retired && l.running == 0
	p.mu.Unlock()
	if last {
		l.Close()
	}
}

// gone is told of a link that was closed, also of one that nobody uses.
func (p *links) gone(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retire(l)
}

// retire has a link take no more requests. It is called with the lock.
func (p *links) retire(l *link) {
	l.retired = true
	rest := slices.DeleteFunc(slices.Clone(p.byKey[l.key]), func(other *link) bool { return other == l })
	if len(rest) == 0 {
		delete(p.byKey, l.key)
	} else {
		p.byKey[l.key] = rest
	}
}

// close closes what is idle, and the rest when it is.
func (p *links) close() {
	p.mu.Lock()
	p.closed = true
	var idle []*link
	for _, ready := range p.byKey {
		for _, l := range ready {
			if l.retired = true; l.running == 0 {
				idle = append(idle, l)
			}
		}
	}
	clear(p.byKey)
	p.mu.Unlock()
	for _, l := range idle {
		l.Close()
	}
}
