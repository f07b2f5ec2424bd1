package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-io/posthaste/queue"
)

const (
	// hintEvery is how often a node sends a hint at most: NOTIFY takes a lock of the
	// whole cluster when it commits.
	hintEvery = 50 * time.Millisecond
	// hintQueues bounds the queues of one hint, whose text PostgreSQL bounds at 8,000
	// bytes.
	hintQueues = 200
	// A listening connection that has been quiet is asked whether it lives.
	pingEvery, pingTimeout = 10 * time.Second, 5 * time.Second

	listenRetryMin, listenRetryMax = 100 * time.Millisecond, 3 * time.Second
)

// hints tell other nodes on which queues something became available. They are hints:
// one that is lost costs the time until the next poll, which each node makes by
// itself. They are sent by statements of their own, never within a transaction that
// changes items.
type hints struct {
	node string
	wake chan struct{} // holds one: there is something to send

	// off says that nobody sends.
	off bool

	mu      sync.Mutex
	pending map[place]time.Time // the lowest position that something was put at
	heard   func(queues ...queue.Number)
}

func newHints() *hints {
	var id [8]byte
	rand.Read(id[:]) // never returns an error
	return &hints{node: hex.EncodeToString(id[:]), wake: make(chan struct{}, 1), pending: map[place]time.Time{}}
}

// OnHint registers who is told of queues on which another node made something
// available, or a change of this one that did not name the item: an ordering key's next.
// It is called from any goroutine and must be quick.
func (s *Store) OnHint(f func(queues ...queue.Number)) {
	s.hints.mu.Lock()
	defer s.hints.mu.Unlock()
	s.hints.heard = f
}

// add has it told soon that something was put at a position.
func (h *hints) add(p place, at time.Time) {
	if h.off {
		return
	}
	h.mu.Lock()
	if lowest, ok := h.pending[p]; !ok || at.Before(lowest) {
		h.pending[p] = at
	}
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// take returns the text of the next hint, empty if there is nothing to say.
func (h *hints) take() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b strings.Builder
	n := 0
	for p, at := range h.pending {
		if n == hintQueues {
			break
		}
		if n++; n == 1 {
			b.WriteString(h.node)
		}
		fmt.Fprintf(&b, " %s.%d.%s", strconv.FormatUint(uint64(p.queue), 36), p.partition, strconv.FormatInt(at.UnixMicro(), 36))
		delete(h.pending, p)
	}
	return b.String()
}

// hear tells of a hint that another node sent. What was put below the head that this
// node remembers has to be looked for there.
func (h *hints) hear(text string, heads *heads) {
	words := strings.Fields(text)
	if len(words) < 2 || words[0] == h.node {
		return
	}
	queues := make([]queue.Number, 0, len(words)-1)
	for _, word := range words[1:] {
		if p, at, ok := parseHint(word); ok {
			heads.lower(p.queue, p.partition, at)
			queues = append(queues, p.queue)
		}
	}
	h.tell(queues)
}

// tell calls whoever is registered.
func (h *hints) tell(queues []queue.Number) {
	h.mu.Lock()
	heard := h.heard
	h.mu.Unlock()
	if heard != nil && len(queues) > 0 {
		heard(queues...)
	}
}

// parseHint reads queue.partition.position; what is not one is of another version.
func parseHint(word string) (p place, at time.Time, ok bool) {
	fields := strings.Split(word, ".")
	if len(fields) != 3 {
		return place{}, time.Time{}, false
	}
	number, err1 := strconv.ParseUint(fields[0], 36, 64)
	partition, err2 := strconv.ParseInt(fields[1], 10, 32)
	micros, err3 := strconv.ParseInt(fields[2], 36, 64)
	return place{queue.Number(number), int32(partition)}, time.UnixMicro(micros).UTC(), err1 == nil && err2 == nil && err3 == nil
}

// sendHints sends what is pending, not too often. An error changes nothing: the other
// nodes poll.
func (s *Store) sendHints(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.hints.wake:
		}
		for text := s.hints.take(); text != ""; text = s.hints.take() {
			sending, cancel := context.WithTimeout(ctx, pingTimeout)
			_, err := s.pool.Exec(sending, `select pg_notify($1, $2)`, s.channel, text)
			cancel()
			if err != nil && ctx.Err() == nil {
				s.log.Debug("hint not sent", "error", err)
			}
			if sleep(ctx, hintEvery) != nil {
				return
			}
		}
	}
}

// hearHints listens, on a connection of its own that is made anew after any doubt.
func (s *Store) hearHints(ctx context.Context) {
	wait := listenRetryMin
	for ctx.Err() == nil {
		began := time.Now()
		err := s.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		s.log.Debug("listening for hints ended; beginning anew", "error", err)
		if time.Since(began) > listenRetryMax {
			wait = listenRetryMin
		}
		if sleep(ctx, wait) != nil {
			return
		}
		wait = min(2*wait, listenRetryMax)
	}
}

func (s *Store) listen(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig.Copy())
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // it may be broken
	}()
	if _, err := conn.Exec(ctx, `listen `+pgx.Identifier{s.channel}.Sanitize()); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	for {
		waiting, cancel := context.WithTimeout(ctx, pingEvery)
		note, err := conn.WaitForNotification(waiting)
		cancel()
		switch {
		case err == nil:
			s.hints.hear(note.Payload, &s.heads)
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, context.DeadlineExceeded) || conn.IsClosed():
			return err
		}
		// Half of a connection that was cut is quiet, too.
		pinging, cancel := context.WithTimeout(ctx, pingTimeout)
		err = conn.Ping(pinging)
		cancel()
		if err != nil {
			return fmt.Errorf("ping: %w", err)
		}
	}
}

// sleep waits, and returns the context's error if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
