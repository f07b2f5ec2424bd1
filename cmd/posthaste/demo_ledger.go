package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// fate is how an item of the demonstration ended.
type fate int

const (
	// fateOpen: not yet.
	fateOpen fate = iota
	fateDelivered
	fatePulled
	fateBuried
)

// account is what is known about one item.
type account struct {
	// since is when it could have been delivered at the earliest: when it was produced,
	// or due.
	since    time.Time
	attempts int
	fate     fate
	// took is how long after since it was delivered.
	took time.Duration
}

// ledger has an account of every item by its name, kept outside the store, so that it
// can tell whether the store lost one. Safe for concurrent use.
type ledger struct {
	mu       sync.Mutex
	accounts map[string]*account
	// wrong is what must not happen.
	wrong []string
}

func newLedger() *ledger { return &ledger{accounts: map[string]*account{}} }

// open begins an account; call it before the item is produced, since a push may be
// quicker than the answer to produce.
func (l *ledger) open(name string, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accounts[name] = &account{since: since}
}

// attempt notes that a request came for an item, and whether it was accepted. It
// returns how long the item took, if it was.
func (l *ledger) attempt(name string, at time.Time, accepted bool) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[name]
	if a == nil {
		l.wrong = append(l.wrong, fmt.Sprintf("a push for %q, which nobody produced", name))
		return 0
	}
	a.attempts++
	if !accepted {
		return 0
	}
	l.end(name, a, fateDelivered)
	a.took = at.Sub(a.since)
	return a.took
}

// close notes that an item was pulled or buried.
func (l *ledger) close(name string, f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[name]; a != nil {
		l.end(name, a, f)
		return
	}
	l.wrong = append(l.wrong, fmt.Sprintf("an item %q, which nobody produced", name))
}

func (l *ledger) end(name string, a *account, f fate) {
	if a.fate != fateOpen {
		l.wrong = append(l.wrong, name+" ended twice")
	}
	a.fate = f
}

// open items, by name.
func (l *ledger) unfinished() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for name, a := range l.accounts {
		if a.fate == fateOpen {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// summary is the sum of all accounts.
type summary struct {
	produced, delivered, retried, pulled, buried int
	// first are the durations of what was delivered at the first attempt, all those of
	// everything delivered; both sorted.
	first, all []time.Duration
	// lost is what has no end; wrong is what must not happen.
	lost, wrong []string
}

func (l *ledger) sum() summary {
	lost := l.unfinished()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := summary{produced: len(l.accounts), lost: lost, wrong: slices.Clone(l.wrong)}
	for _, a := range l.accounts {
		switch a.fate {
		case fateDelivered:
			s.delivered++
			s.all = append(s.all, a.took)
			if a.attempts > 1 {
				s.retried++
			} else {
				s.first = append(s.first, a.took)
			}
		case fatePulled:
			s.pulled++
		case fateBuried:
			s.buried++
		case fateOpen:
		}
	}
	slices.Sort(s.first)
	slices.Sort(s.all)
	return s
}

// err is nil only if every item is accounted for.
func (s *summary) err() error {
	switch {
	case len(s.lost) > 0:
		return fmt.Errorf("%d of %d items are not accounted for: %s", len(s.lost), s.produced, strings.Join(s.lost, ", "))
	case len(s.wrong) > 0:
		return fmt.Errorf("the books do not balance: %s", strings.Join(s.wrong, "; "))
	}
	return nil
}

// percentile returns the nearest rank of sorted durations; 0 for none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}
