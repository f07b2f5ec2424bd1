package subscriptions

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

const (
	// answerAge is how old an answer may be: so late a change of another node shows.
	answerAge = time.Second
	// renewAge is when the first who asks reads anew, while others take the old answer, so
	// that a busy queue does not send all of its producers to the store at one time.
	renewAge = answerAge / 2
	// maxAnswers bounds the memory; beyond it all are forgotten, which costs reads alone.
	maxAnswers = 10_000
)

// AllowsTarget says whether items of a queue may name their own endpoint: whether it is
// pushed, by a subscription that allows it. The answer is a second old at most, and knows
// all that this process has changed.
func (s *Service) AllowsTarget(ctx context.Context, ns queue.Namespace, name string) (bool, error) {
	a, err := s.answer(ctx, ns, name)
	return a.allowsTarget, err
}

// OnDone returns the queue that is told how the items of a queue end, or nothing. The
// answer is as old as that of [Service.AllowsTarget].
func (s *Service) OnDone(ctx context.Context, ns queue.Namespace, name string) (string, error) {
	a, err := s.answer(ctx, ns, name)
	return a.onDone, err
}

// PushedBy names the subscription of a queue, or nothing if there is none, and says whether
// its log has all. The answer is as old as that of [Service.AllowsTarget].
func (s *Service) PushedBy(ctx context.Context, ns queue.Namespace, name string) (subscription string, logs bool, err error) {
	a, err := s.answer(ctx, ns, name)
	return a.subscription, a.logs, err
}

func (s *Service) answer(ctx context.Context, ns queue.Namespace, name string) (answer, error) {
	key := queueKey{ns, name}
	a, since, ok := s.answers.find(key, time.Now())
	if ok {
		return a, nil
	}
	doc, _, err := s.lateDocumentOf(ctx, ns, name)
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		s.answers.failed(key)
		return answer{}, err
	}
	a = answer{allowsTarget: doc.AllowTarget, onDone: doc.OnDone, subscription: doc.Name, logs: doc.Name != "" && doc.Log == LogAll}
	s.answers.keep(key, a, since)
	return a, nil
}

type queueKey struct {
	namespace queue.Namespace
	name      string
}

// answer is what producers ask of a queue's subscription.
type answer struct {
	allowsTarget bool
	onDone       string
	subscription string
	logs         bool
}

// answers remembers answers for a short while; its zero value is ready.
type answers struct {
	mu    sync.Mutex
	known map[queueKey]*knownAnswer
	// changes counts what was forgotten: what was read before that may not be kept.
	changes uint64
}

type knownAnswer struct {
	answer
	readAt   time.Time
	renewing bool
}

// look is when somebody went to read.
type look struct {
	at      time.Time
	changes uint64
}

// find returns an answer that is young enough. Otherwise, and to one caller a little
// before that, it says to read, and what to give to keep then.
func (as *answers) find(key queueKey, now time.Time) (answer, look, bool) {
	as.mu.Lock()
	defer as.mu.Unlock()
	since := look{now, as.changes}
	k := as.known[key]
	if k == nil {
		return answer{}, since, false
	}
	age := now.Sub(k.readAt)
	if age >= answerAge || age >= renewAge && !k.renewing {
		k.renewing = true
		return answer{}, since, false
	}
	return k.answer, since, true
}

// keep remembers what was read since, unless it may have changed in between.
func (as *answers) keep(key queueKey, a answer, since look) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.changes != since.changes {
		return
	}
	if k := as.known[key]; k != nil && k.readAt.After(since.at) {
		return
	}
	if as.known == nil || len(as.known) >= maxAnswers {
		as.known = map[queueKey]*knownAnswer{}
	}
	as.known[key] = &knownAnswer{answer: a, readAt: since.at}
}

// failed lets somebody else try to read.
func (as *answers) failed(key queueKey) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if k := as.known[key]; k != nil {
		k.renewing = false
	}
}

// forget drops the answer of a queue.
func (as *answers) forget(ns queue.Namespace, name string) {
	as.mu.Lock()
	defer as.mu.Unlock()
	as.changes++
	delete(as.known, queueKey{ns, name})
}
