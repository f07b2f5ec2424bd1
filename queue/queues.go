package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// MaxQueueReference bounds [Settings.Reference], in bytes.
const MaxQueueReference = 2000

// CreateQueue makes a queue. Zero fields take their defaults; Number, DeadLetter,
// Paused, Extent and the times are the broker's to set. A queue that it names as its dead-letter
// queue buries nothing any more.
//
// Errors: [InvalidError]; [ErrExists]; [ErrNotSupported]; those of [Store].
func (b *Broker) CreateQueue(ctx context.Context, s Settings) (Settings, error) {
	if err := CheckName("queue_name", s.Name); err != nil {
		return Settings{}, err
	}
	s.Number, s.DeadLetter, s.Paused, s.Topic, s.SubscribesTo, s.Extent = 0, false, 0, nil, "", 0
	s.setDefaults()
	if err := s.check(); err != nil {
		return Settings{}, err
	}
	if err := b.checkKeepEnded(s.KeepEnded); err != nil {
		return Settings{}, err
	}
	leave, err := b.enterAdmin(ctx)
	if err != nil {
		return Settings{}, err
	}
	defer leave()
	if err := b.takeDead(ctx, &s); err != nil {
		return Settings{}, err
	}
	if err := b.insert(ctx, &s); err != nil {
		// The queue that was to be its dead-letter queue goes on as before.
		return Settings{}, errors.Join(err, b.leaveDead(ctx, s.Namespace, s.DeadQueue))
	}
	b.log.Info("queue created", "queue", s.Name, "number", s.Number.Own())
	return s, nil
}

// EnsureQueue returns a queue, which it makes with defaults if it is not there. A
// dead-letter queue is made for a queue that is there.
func (b *Broker) EnsureQueue(ctx context.Context, ns Namespace, name string) (Settings, error) {
	// Read again: another node may have made a topic of it.
	q, err := b.known.reread(ctx, ns, name)
	if err == nil {
		return *q.settings(), nil
	}
	if !errors.Is(err, ErrNotFound) {
		return Settings{}, err
	}
	if base, isDead := strings.CutSuffix(name, DeadSuffix); isDead {
		return b.ensureDead(ctx, ns, base)
	}
	s, err := b.CreateQueue(ctx, Settings{Namespace: ns, Name: name})
	if errors.Is(err, ErrExists) {
		s, _, err = b.Queue(ctx, ns, name)
	}
	return s, err
}

func (b *Broker) ensureDead(ctx context.Context, ns Namespace, base string) (Settings, error) {
	q, err := b.known.named(ctx, ns, base)
	if err != nil {
		return Settings{}, err
	}
	dead, err := b.ownDead(ctx, q)
	if err != nil {
		return Settings{}, err
	}
	return *dead.settings(), nil
}

// UpdateQueue changes what is set and nothing else; a zero of a field that has a
// default keeps its value. New limits act on items that are there already.
//
// Errors: [InvalidError]; [ErrNotFound]; [ErrRevision], if the update names one;
// those of [Store].
func (b *Broker) UpdateQueue(ctx context.Context, u SettingsUpdate) (Settings, error) {
	leave, err := b.enterAdmin(ctx)
	if err != nil {
		return Settings{}, err
	}
	defer leave()
	for {
		old, revision, err := b.Queue(ctx, u.Namespace, u.Name)
		if err != nil {
			return Settings{}, err
		}
		if u.Revision != 0 && u.Revision != revision {
			return Settings{}, fmt.Errorf("queue %s: %w", u.Name, ErrRevision)
		}
		s := u.apply(old)
		if err := s.check(); err != nil {
			return Settings{}, err
		}
		if err := s.checkLimits(&old); err != nil {
			return Settings{}, err
		}
		// What was within the bound of an earlier start of the server stays.
		if s.KeepEnded != old.KeepEnded {
			if err := b.checkKeepEnded(s.KeepEnded); err != nil {
				return Settings{}, err
			}
		}
		if s.DeadQueue != old.DeadQueue {
			if err := b.takeDead(ctx, &s); err != nil {
				return Settings{}, err
			}
		}
		if err := b.drain(ctx, &s, &old); err != nil {
			return Settings{}, err
		}
		err = b.replace(ctx, s, revision)
		if errors.Is(err, ErrRevision) && u.Revision == 0 {
			continue // another node was quicker; what we want changed is still wanted
		}
		if err != nil {
			return Settings{}, err
		}
		b.log.Info("queue updated", "queue", s.Name)
		if s.DeadQueue != old.DeadQueue {
			err = b.leaveDead(ctx, s.Namespace, old.DeadQueue)
		}
		return s, err
	}
}

func (u *SettingsUpdate) apply(s Settings) Settings {
	setTo(&s.Reference, u.Reference)
	setTo(&s.ExpireTTL, u.ExpireTTL)
	setTo(&s.DeadQueue, u.DeadQueue)
	setTo(&s.KeepEnded, u.KeepEnded)
	setTo(&s.ParkAfter, u.ParkAfter)
	setTo(&s.LeaseTTL, orKeep(u.LeaseTTL))
	setTo(&s.MaxAttempts, orKeep(u.MaxAttempts))
	setTo(&s.MaxRecoveries, orKeep(u.MaxRecoveries))
	setTo(&s.Partitions, orKeep(u.Partitions))
	s.UpdatedAt = stamp()
	return s
}

func setTo[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// orKeep takes a zero for a field that was left out.
func orKeep[T comparable](value *T) *T {
	var zero T
	if value != nil && *value == zero {
		return nil
	}
	return value
}

// checkLimits refuses limits that would act on nothing. What a dead-letter queue has
// of them already may be repeated.
func (s *Settings) checkLimits(old *Settings) error {
	const reason = "goes without: the queue is a dead-letter queue, and nothing in it is buried"
	switch {
	case !old.DeadLetter:
		return nil
	case s.MaxAttempts != old.MaxAttempts:
		return Invalid("max_attempts", reason)
	case s.MaxRecoveries != old.MaxRecoveries:
		return Invalid("max_recoveries", reason)
	default:
		return nil
	}
}

// replace writes changed settings.
func (b *Broker) replace(ctx context.Context, s Settings, revision uint64) error {
	at := time.Now()
	revision, err := b.opts.Queues.Put(ctx, s.Namespace, s.Name, s, revision, time.Time{})
	if err != nil {
		return err
	}
	b.known.changed(s, revision, at)
	return nil
}

// Queue returns a queue's settings as the store has them, and their revision. A topic is
// a [TopicError].
func (b *Broker) Queue(ctx context.Context, ns Namespace, name string) (Settings, uint64, error) {
	s, revision, err := b.opts.Queues.Get(ctx, ns, name)
	if err == nil && s.Topic != nil {
		return Settings{}, 0, topicError(&s)
	}
	return s, revision, err
}

// Queues lists queues by name, with their revisions, beginning with pivot, or after
// the place where it would be; an empty one begins with the first. Topics are left out.
func (b *Broker) Queues(ctx context.Context, ns Namespace, pivot string, limit int) ([]Versioned[Settings], error) {
	return b.list(ctx, ns, pivot, limit, func(s *Settings) bool { return s.Topic == nil })
}

// list returns those that are wanted, of queues and topics.
func (b *Broker) list(ctx context.Context, ns Namespace, pivot string, limit int, wanted func(*Settings) bool) ([]Versioned[Settings], error) {
	if limit < 1 {
		return nil, Invalid("limit", "is %d; want 1 or more", limit)
	}
	var found []Versioned[Settings]
	if pivot != "" {
		s, revision, err := b.opts.Queues.Get(ctx, ns, pivot)
		switch {
		case err == nil && wanted(&s):
			found = append(found, Versioned[Settings]{Namespace: ns, Name: pivot, Revision: revision, Value: s})
		case err != nil && !errors.Is(err, ErrNotFound):
			return nil, err
		}
	}
	for after := pivot; len(found) < limit; {
		want := max(limit-len(found), listPage)
		page, err := b.opts.Queues.List(ctx, ns, after, want)
		if err != nil {
			return nil, err
		}
		for i := range page {
			if after = page[i].Name; wanted(&page[i].Value) && len(found) < limit {
				found = append(found, page[i])
			}
		}
		if len(page) < want {
			break
		}
	}
	return found, nil
}

// listPage is how many documents are read at a time at least, where some are not wanted.
const listPage = 100

// enterAdmin waits until nobody else makes, changes or deletes a queue.
func (b *Broker) enterAdmin(ctx context.Context) (leave func(), err error) {
	select {
	case b.admin <- struct{}{}:
		return func() { <-b.admin }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Settings) setDefaults() {
	setDefault(&s.LeaseTTL, DefaultLeaseTTL)
	setDefault(&s.MaxAttempts, DefaultMaxAttempts)
	setDefault(&s.MaxRecoveries, DefaultMaxRecoveries)
	setDefault(&s.Partitions, 1)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// check judges settings by themselves, by the names that the wire has for them.
func (s *Settings) check() error {
	if err := checkLeaseTTL("lease_timeout", s.LeaseTTL); err != nil {
		return err
	}
	if err := checkReference(s.Reference); err != nil {
		return err
	}
	switch {
	case s.ExpireTTL < 0 || s.ExpireTTL > maxAhead:
		return Invalid("expire_timeout", "is %s; want 0 for never, or up to 10 years", s.ExpireTTL)
	case s.ExpireTTL > 0 && s.LeaseTTL > s.ExpireTTL:
		return Invalid("lease_timeout", "is %s, longer than expire_timeout, %s", s.LeaseTTL, s.ExpireTTL)
	case s.MaxAttempts < -1:
		return Invalid("max_attempts", "is %d; want -1 for no limit, or 1 or more", s.MaxAttempts)
	case s.ParkAfter < 0:
		return Invalid("park_after", "is %d; want 0 for never, or 1 or more", s.ParkAfter)
	case s.MaxAttempts > 0 && s.ParkAfter >= s.MaxAttempts:
		return Invalid("park_after", "is %d, and at max_attempts, %d, items are buried; want less than that", s.ParkAfter, s.MaxAttempts)
	case s.MaxRecoveries < 1:
		return Invalid("max_recoveries", "is %d; want 1 or more", s.MaxRecoveries)
	case s.Partitions < 1 || s.Partitions > MaxPartitions:
		return Invalid("requested_partitions", "is %d; want 1 to %d", s.Partitions, MaxPartitions)
	default:
		return nil
	}
}

func checkReference(reference string) error {
	switch {
	case len(reference) > MaxQueueReference:
		return Invalid("reference", "is longer than %d bytes", MaxQueueReference)
	case !isStorable(reference):
		return Invalid("reference", "is not UTF-8 without NUL")
	default:
		return nil
	}
}

// checkKeepEnded bounds what a queue keeps of ended items by what the journal keeps.
func (b *Broker) checkKeepEnded(keep time.Duration) error {
	if keep < 0 || keep > b.opts.KeepRecords {
		return Invalid("keep_ended", "is %s; want 0 for nothing, or up to %s", keep, b.opts.KeepRecords)
	}
	return nil
}
