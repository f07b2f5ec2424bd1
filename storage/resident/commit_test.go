package resident

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

var errSync = errors.New("sync: input/output error")

func produceOne(ctx context.Context, s *Store) error {
	item := queue.NewItem{ID: queue.NewID(), Queue: testQueue}
	_, err := s.Produce(ctx, []queue.ProduceGroup{{Items: []queue.NewItem{item}}})
	return err
}

func TestStore_AnswersOnlyWhenDurable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, disk := setup(t, Options{})
		fill(t, s, 1, nil)
		disk.holds = true
		answered := make(chan []queue.Item, 1)
		go func() { answered <- lease(t, s, 1) }()
		synctest.Wait()
		select {
		case <-answered:
			t.Fatal("the lease was given away before its commit")
		default:
		}
		disk.held[0].Resolve(nil)
		if got := len(<-answered); got != 1 {
			t.Errorf("leased %d, want 1", got)
		}
	})
}

func TestStore_EndOfContextWhileACommitIsPendingIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, disk := setup(t, Options{})
		disk.holds = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := produceOne(ctx, s); !errors.Is(err, queue.ErrUnknownOutcome) {
			t.Errorf("got %v, want %v", err, queue.ErrUnknownOutcome)
		}
		// A reader that may have seen it has changed nothing: its own context's error.
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.ListItems(ctx, queue.ListRequest{Queue: testQueue, Limit: 1}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, queue.ErrUnknownOutcome) {
			t.Errorf("list: got %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

func TestB04_FailedCommitEndsTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, disk := setup(t, Options{})
		disk.holds = true
		answered := make(chan error, 1)
		go func() { answered <- produceOne(t.Context(), s) }()
		synctest.Wait()
		s.Fail(errSync)
		disk.held[0].Resolve(errSync)
		if err := <-answered; !errors.Is(err, queue.ErrUnknownOutcome) {
			t.Errorf("who waited: got %v, want %v", err, queue.ErrUnknownOutcome)
		}
		select {
		case <-s.Failed():
		default:
			t.Error("Failed is not closed")
		}
		if !errors.Is(s.Err(), errSync) {
			t.Errorf("Err: got %v, want %v", s.Err(), errSync)
		}
		if err := produceOne(t.Context(), s); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("later: got %v, want %v", err, queue.ErrUnavailable)
		}
		if _, err := s.Get(t.Context(), storage.DocumentKey{}); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("later read: got %v, want %v", err, queue.ErrUnavailable)
		}
	})
}

func TestB05_TightDiskRefusesNewAndLetsSettle(t *testing.T) {
	t.Parallel()
	s, _ := setup(t, Options{})
	fill(t, s, 2, nil)
	settle := func(it queue.Item) error {
		done := queue.Settlement{Key: it.Key, Token: it.Token, Outcome: queue.Complete}
		_, err := s.Settle(t.Context(), []queue.SettleGroup{{Entries: []queue.Settlement{done}}})
		return err
	}
	leased := lease(t, s, 2)
	doc := storage.Document{DocumentKey: storage.DocumentKey{Kind: "k", Namespace: 1, Name: "n"}}
	revision, err := s.Put(t.Context(), doc)
	if err != nil {
		t.Fatal(err)
	}

	s.SetRoom(Tight)
	if err := produceOne(t.Context(), s); !errors.Is(err, queue.ErrDiskFull) {
		t.Errorf("produce on a tight disk: got %v, want %v", err, queue.ErrDiskFull)
	}
	other := doc
	other.Name = "other"
	item := queue.NewItem{ID: queue.NewID(), Queue: testQueue}
	if _, err := s.Put(t.Context(), other, item); !errors.Is(err, queue.ErrDiskFull) {
		t.Errorf("new document with an item on a tight disk: got %v, want %v", err, queue.ErrDiskFull)
	}
	// Such as that of a dead-letter queue, without which nothing could be buried.
	if _, err := s.Put(t.Context(), other); err != nil {
		t.Errorf("new document on a tight disk: %v", err)
	}
	doc.Revision = revision
	if _, err := s.Put(t.Context(), doc); err != nil {
		t.Errorf("changed document on a tight disk: %v", err)
	}
	if err := settle(leased[0]); err != nil {
		t.Errorf("settle on a tight disk: %v", err)
	}

	s.SetRoom(Full)
	if err := settle(leased[1]); !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("settle on a full disk: got %v, want %v", err, queue.ErrUnavailable)
	}
	if _, err := s.Stats(t.Context(), nil); err != nil {
		t.Errorf("stats on a full disk: %v", err)
	}

	s.SetRoom(Roomy)
	if err := settle(leased[1]); err != nil {
		t.Errorf("settle when there is room again: %v", err)
	}
}
