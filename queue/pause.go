package queue

import (
	"context"
	"errors"
	"time"
)

// Has says whether a side is paused.
func (p Paused) Has(side Paused) bool { return p&side != 0 }

// String returns the word that the wire uses, empty if nothing is paused.
func (p Paused) String() string {
	switch p {
	case 0:
		return ""
	case PausedLease:
		return "lease"
	case PausedProduce:
		return "produce"
	case PausedBoth:
		return "both"
	default:
		return "invalid"
	}
}

// Pause stops sides of a queue, whatever else is stopped already, and returns its
// settings. On this node it holds when Pause returns, on others when they read the
// settings again.
//
// A queue whose produce is paused refuses [Broker.Produce] with [ErrPaused]; what is
// buried, redriven or produced by a settlement goes in. On one whose lease is paused
// no lease is given out: those that wait are answered with no items, and later ones
// when their time is up, for lanes and consumers alike. Settling and extending go on.
//
// Errors: [InvalidError]; [ErrNotFound]; those of [Store].
func (b *Broker) Pause(ctx context.Context, ns Namespace, name string, what Paused) (Settings, error) {
	return b.changePaused(ctx, ns, name, what, func(now Paused) Paused { return now | what })
}

// Resume starts sides of a queue again, whether they were stopped or not. Leases that
// wait look at once. Errors are those of [Broker.Pause].
func (b *Broker) Resume(ctx context.Context, ns Namespace, name string, what Paused) (Settings, error) {
	return b.changePaused(ctx, ns, name, what, func(now Paused) Paused { return now &^ what })
}

func (b *Broker) changePaused(ctx context.Context, ns Namespace, name string, what Paused, change func(Paused) Paused) (Settings, error) {
	if what == 0 || what > PausedBoth {
		return Settings{}, Invalid("what", "is not a side of a queue; want lease, produce or both")
	}
	s, err := b.putPaused(ctx, ns, name, change)
	if err != nil {
		return Settings{}, err
	}
	return s, b.awaitPause(ctx, &s)
}

// putPaused writes what is paused.
func (b *Broker) putPaused(ctx context.Context, ns Namespace, name string, change func(Paused) Paused) (Settings, error) {
	leave, err := b.enterAdmin(ctx)
	if err != nil {
		return Settings{}, err
	}
	defer leave()
	for {
		at := time.Now()
		s, revision, err := b.Queue(ctx, ns, name)
		if err != nil {
			return Settings{}, err
		}
		paused := change(s.Paused)
		if paused == s.Paused {
			b.known.changed(s, revision, at) // another node may have done it
			return s, nil
		}
		s.Paused, s.UpdatedAt = paused, stamp()
		err = b.replace(ctx, s, revision)
		if errors.Is(err, ErrRevision) {
			continue // somebody changed something else
		}
		if err != nil {
			return Settings{}, err
		}
		b.log.Info("queue paused or resumed", "queue", name, "paused", paused.String())
		return s, nil
	}
}

// Reload reads a queue's settings again now, and has those that wait on it look.
// Without it this node takes over within [Options.SettingsAge] what others change.
//
// Errors: [ErrNotFound]; those of [Store].
func (b *Broker) Reload(ctx context.Context, ns Namespace, name string) error {
	q, err := b.known.reread(ctx, ns, name)
	if err != nil {
		return err
	}
	b.Wake(q.number)
	return nil
}

func (q *knownQueue) isPaused(side Paused) bool { return q.settings().Paused.Has(side) }

// pauseChanged is told that the lease of a queue was paused or resumed, by whoever
// found that in its settings.
func (l *leaser) pauseChanged(q *knownQueue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.lines[q.number]
	if ln == nil {
		return
	}
	if !q.isPaused(PausedLease) {
		ln.unseen = anywhere
		l.mark(ln)
		return
	}
	// What the store is giving out at this moment still arrives.
	for _, w := range ln.waiters {
		if !w.looking && !w.gone {
			l.answer(w, w.reply, nil)
		}
	}
	l.remove(ln)
}

// awaitPause returns when what began before the pause has ended: produces that were let
// in, and a look, which could find what is produced after our answer.
func (b *Broker) awaitPause(ctx context.Context, s *Settings) error {
	if s.Paused.Has(PausedProduce) {
		q, err := b.known.numbered(ctx, s.Number)
		if errors.Is(err, ErrNotFound) {
			return nil // deleted meanwhile, which waits for them as well
		}
		if err == nil {
			err = q.awaitCallers(ctx)
		}
		if err != nil {
			return err
		}
	}
	if s.Paused.Has(PausedLease) {
		return b.leases.lookEnded(ctx)
	}
	return nil
}

// lookEnded returns when the call of the store that is under way now, if there is one,
// has been dealt out, or with the error of ctx.
func (l *leaser) lookEnded(ctx context.Context) error {
	l.mu.Lock()
	if l.inFlight == 0 {
		l.mu.Unlock()
		return nil
	}
	ended := make(chan struct{})
	l.curious = append(l.curious, ended)
	l.mu.Unlock()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
