package queue_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func TestTurn_Refuses(t *testing.T) {
	t.Parallel()
	turning(t, func(t *testing.T, f *fixture, p *pushes) {
		f.topic(t, "events", "a")
		f.create(t, queue.Settings{Name: "lonely"})
		f.create(t, queue.Settings{Name: "graveyard"})
		f.create(t, queue.Settings{Name: "quick", DeadQueue: "graveyard"})
		p.subscribe(t, "graveyard", "digger")
		f.create(t, queue.Settings{Name: "paused"})
		p.subscribe(t, "paused", "s")
		if _, err := f.Pause(t.Context(), ns, "paused", queue.PausedProduce); err != nil {
			t.Fatal(err)
		}
		before := f.store.Calls(storagetest.ChangeDocuments)
		for name, want := range map[string]string{
			"":               "is missing",
			"not there":      "only A-Z",
			"nothing":        "does not exist",
			"events":         "a topic already",
			"events~a":       "the system made for events",
			"lonely":         "no subscription",
			"graveyard":      "dead-letter queue",
			"paused":         "paused for producers",
			"orders~billing": "the system made for orders",
			"orders~dead":    "the system made for orders",
		} {
			_, err := f.TurnIntoTopic(t.Context(), ns, name, "")
			wantInvalid(t, err, "from_queue")
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v, want %q in it", name, err, want)
			}
		}
		_, err := f.TurnIntoTopic(t.Context(), ns, "orders", strings.Repeat("x", queue.MaxQueueReference+1))
		wantInvalid(t, err, "reference")
		p.refuse = queue.Invalid("from_queue", "no")
		_, err = f.TurnIntoTopic(t.Context(), ns, "orders", "")
		wantInvalid(t, err, "from_queue")
		p.refuse = nil
		if got := f.store.Calls(storagetest.ChangeDocuments); got != before {
			t.Errorf("%d changes were tried", got-before)
		}
		f.turn(t)
		if _, err := f.TurnIntoTopic(t.Context(), ns, "orders", ""); !errors.Is(err, queue.ErrExists) {
			t.Errorf("once more: got %v, want ErrExists", err)
		}
		// A queue that stands where it would be.
		f.create(t, queue.Settings{Name: "next"})
		p.subscribe(t, "next", "dead")
		if _, err := f.EnsureQueue(t.Context(), ns, "next~dead"); err != nil {
			t.Fatal(err)
		}
		_, err = f.TurnIntoTopic(t.Context(), ns, "next", "")
		wantInvalid(t, err, "from_queue")
		f.produce(t, "next", items(1)...) // it goes on as before

		alone := newBroker(f.store, queue.Options{})
		if _, err := alone.TurnIntoTopic(t.Context(), ns, "next", ""); !errors.Is(err, queue.ErrNotSupported) {
			t.Errorf("without subscriptions: got %v, want ErrNotSupported", err)
		}
	})
}

// Who changes one of the documents first is not overwritten.
func TestTurn_GoesByWhatIsThere(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		meanwhile func(t *testing.T, f *fixture, p *pushes)
		want      string // of the refusal
		exists    bool   // it is refused since it is done
	}{
		"settings are changed": {meanwhile: func(t *testing.T, f *fixture, _ *pushes) {
			other := newBroker(f.store, queue.Options{})
			if _, err := other.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", MaxAttempts: ptr[int32](7)}); err != nil {
				t.Error(err)
			}
		}},
		"subscription is deleted": {want: "no subscription", meanwhile: func(t *testing.T, _ *fixture, p *pushes) {
			if err := p.Unsubscribe(t.Context(), ns, "orders"); err != nil {
				t.Error(err)
			}
		}},
		"queue is deleted": {want: "does not exist", meanwhile: func(t *testing.T, f *fixture, p *pushes) {
			other := newBroker(f.store, queue.Options{Subscribers: p})
			if err := other.DeleteQueue(t.Context(), ns, "orders", true); err != nil {
				t.Error(err)
			}
		}},
		"another node is quicker": {exists: true, meanwhile: func(t *testing.T, f *fixture, p *pushes) {
			other := newBroker(f.store, queue.Options{Subscribers: p, Alone: true})
			if _, err := other.TurnIntoTopic(t.Context(), ns, "orders", ""); err != nil {
				t.Error(err)
			}
		}},
	} {
		turning(t, func(t *testing.T, f *fixture, p *pushes) {
			f.produce(t, "orders", items(1)...)
			p.meanwhile = func() { test.meanwhile(t, f, p) }
			_, err := f.TurnIntoTopic(t.Context(), ns, "orders", "")
			if test.exists {
				if !errors.Is(err, queue.ErrExists) {
					t.Errorf("%s: got %v, want ErrExists", what, err)
				}
				return
			}
			if test.want != "" {
				wantInvalid(t, err, "from_queue")
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: got %v, want %q in it", what, err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if got := f.settings(t, "orders~billing"); got.MaxAttempts != 7 || f.total(t, "orders~billing") != 1 {
				t.Errorf("%s: got %+v, want what the other node wrote", what, got)
			}
		})
	}
}

func TestTurn_WhatTheStoreSays(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		fail   func(*storagetest.Faulty)
		want   error
		turned bool
	}{
		"nothing was done": {func(s *storagetest.Faulty) {
			s.FailBefore(storagetest.ChangeDocuments, 1, queue.ErrUnavailable)
		}, queue.ErrUnavailable, false},
		"not known, and not done": {func(s *storagetest.Faulty) {
			s.FailBefore(storagetest.ChangeDocuments, 1, queue.ErrUnknownOutcome)
		}, queue.ErrUnknownOutcome, false},
		"not known, and done": {func(s *storagetest.Faulty) {
			s.FailAfter(storagetest.ChangeDocuments, 1, queue.ErrUnknownOutcome)
		}, queue.ErrUnknownOutcome, true},
	} {
		turning(t, func(t *testing.T, f *fixture, p *pushes) {
			f.produce(t, "orders", items(1)...)
			leased := f.leaseOne(t, "orders")
			test.fail(f.store)
			if _, err := f.TurnIntoTopic(t.Context(), ns, "orders", ""); !errors.Is(err, test.want) {
				t.Errorf("%s: got %v, want %v", what, err, test.want)
			}
			if unknown := errors.Is(test.want, queue.ErrUnknownOutcome); (len(p.told) == 1) != unknown {
				t.Errorf("%s: the subscription was told %v", what, p.told)
			}
			// Whatever became of it, everything goes on, and a repeat ends it.
			f.produce(t, "orders", items(1)...)
			f.settle(t, entry(leased, queue.Release))
			_, err := f.TurnIntoTopic(t.Context(), ns, "orders", "")
			switch {
			case test.turned && !errors.Is(err, queue.ErrExists):
				t.Errorf("%s: repeat: got %v, want ErrExists", what, err)
			case test.turned:
			case err != nil:
				t.Errorf("%s: repeat: %v", what, err)
			}
			f.produce(t, "orders", items(1)...)
			if got := len(f.lease(t, "orders~billing", 10)); got != 3 {
				t.Errorf("%s: leased %d items, want 3", what, got)
			}
		})
	}
}
