package api

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const (
	// guessBurst wrong ones of an address are answered at once, and then one each
	// guessInterval.
	guessBurst    = 20
	guessInterval = 100 * time.Millisecond
	// guessSlots bounds memory at 100 kB. Addresses that fall on one slot share their
	// allowance, which costs those alone who send wrong ones.
	guessSlots = 4096
)

// guesses counts wrong keys, or receipts, by address.
type guesses struct {
	// seed differs with each process, so that nobody can aim at the slot of another.
	seed maphash.Seed

	mu sync.Mutex
	// used says until when a slot's allowance is spent.
	used []time.Time
}

func newGuesses() guesses {
	return guesses{seed: maphash.MakeSeed(), used: make([]time.Time, guessSlots)}
}

// take counts n wrong ones of a call; more than guessBurst count as so many. If that is
// too many, they count for nothing, and the answer is how long the address has to wait.
func (g *guesses) take(addr netip.Addr, n int) (wait time.Duration) {
	now := time.Now()
	if addr.Is6() {
		// Whoever has one address has a whole network of them.
		if network, err := addr.WithZone("").Prefix(64); err == nil {
			addr = network.Addr()
		}
	}
	slot := maphash.Comparable(g.seed, addr) % guessSlots
	g.mu.Lock()
	defer g.mu.Unlock()
	used := g.used[slot]
	if used.Before(now) {
		used = now
	}
	used = used.Add(time.Duration(min(n, guessBurst)) * guessInterval)
	if over := used.Sub(now) - guessBurst*guessInterval; over > 0 {
		return over
	}
	g.used[slot] = used
	return 0
}
