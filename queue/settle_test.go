package queue_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/posthaste-io/posthaste/queue"
)

func wantRefused(t *testing.T, err error, want map[int]error) {
	t.Helper()
	stale, ok := errors.AsType[*queue.StaleError](err)
	if !ok || !maps.Equal(stale.Entries, want) {
		t.Errorf("got %v, want a StaleError with %v", err, want)
	}
}

func TestSettle_EveryOutcome(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(5)...)
		leased := f.lease(t, "orders", 5)
		retry, release := entry(leased[1], queue.Retry), entry(leased[2], queue.Release)
		retry.Delay, release.DueAt = time.Minute, time.Now().Add(2*time.Minute)
		bury := entry(leased[4], queue.Bury)
		bury.Reason = "no such customer"
		settled := f.settle(t, entry(leased[0], queue.Complete), retry, release, entry(leased[3], queue.Release), bury)
		for i, s := range settled {
			if s.Status != queue.Applied || s.Buried {
				t.Errorf("entry %d: got %+v, want applied", i, s)
			}
		}
		if got := f.total(t, "orders"); got != 3 {
			t.Errorf("got %d items, want 3", got)
		}
		if it := f.find(t, leased[1].ID); it.Attempts != 1 || !it.AvailableAt.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("retry: got %d attempts at %v, want 1 in a minute", it.Attempts, it.AvailableAt)
		}
		if it := f.find(t, leased[2].ID); it.Attempts != 0 || !it.AvailableAt.Equal(release.DueAt) {
			t.Errorf("release: got %d attempts at %v, want none in two minutes", it.Attempts, it.AvailableAt)
		}
		if it := f.leaseOne(t, "orders"); it.ID != leased[3].ID {
			t.Errorf("got %v, want the item that was released to its place", it.ID)
		}
		dead := f.leaseOne(t, "orders~dead")
		if dead.ID != leased[4].ID || dead.Dead == nil || dead.Dead.Reason != bury.Reason {
			t.Errorf("got %+v, want the item that was buried, with the reason", dead)
		}
	})
}

func TestSettle_ReleaseAndRetryWakeWhoWaits(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(1)...)
		for _, outcome := range []queue.Outcome{queue.Release, queue.Retry} {
			it := f.leaseOne(t, "orders")
			waiting := f.startLease(t.Context(), waitFor(1, time.Minute))
			f.settle(t, entry(it, outcome))
			a := <-waiting
			if len(a.value.Items) != 1 {
				t.Fatalf("%s: got %+v, want the item", outcome, a)
			}
			f.settle(t, entry(a.value.Items[0], queue.Release))
		}
		f.EnsureQueue(t.Context(), ns, "orders~dead")
		p := waitFor(1, time.Minute)
		p.Queue = "orders~dead"
		waiting := f.startLease(t.Context(), p)
		f.settle(t, entry(f.leaseOne(t, "orders"), queue.Bury))
		if a := <-waiting; len(a.value.Items) != 1 {
			t.Errorf("bury: got %+v, want the item", a)
		}
	})
}

func TestD02_StaleReceiptIsRefusedAndTheCallUndone(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(3)...)
		leased := f.lease(t, "orders", 3)
		f.settle(t, entry(leased[0], queue.Complete), entry(leased[1], queue.Release))
		again := f.leaseOne(t, "orders")
		_, err := f.Settle(t.Context(), settleCall(entry(leased[0], queue.Complete), entry(leased[1], queue.Complete), entry(leased[2], queue.Complete)))
		wantRefused(t, err, map[int]error{0: queue.ErrNotFound, 1: queue.ErrStale})
		// Nothing of the call was done, and the newest lease is good.
		f.settle(t, entry(leased[2], queue.Complete), entry(again, queue.Complete))
	})
}

func TestD02_LateReceiptThatNobodySupersededIsGood(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(1)...)
		it := f.leaseOne(t, "orders")
		<-time.After(2 * queue.DefaultLeaseTTL)
		f.settle(t, entry(it, queue.Complete))
	})
}

func TestD17_ReceiptGivenTwiceIsRefused(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(2)...)
		leased := f.lease(t, "orders", 2)
		_, err := f.Settle(t.Context(), settleCall(entry(leased[0], queue.Complete), entry(leased[1], queue.Complete), entry(leased[0], queue.Release)))
		wantInvalid(t, err, "receipts[2]")
		f.settle(t, entry(leased[0], queue.Complete), entry(leased[1], queue.Complete))
	})
}

func TestSettle_ChecksTheCall(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "other"})
		f.produce(t, "orders", items(1)...)
		it := f.leaseOne(t, "orders")
		_, err := f.Settle(t.Context(), settleCall())
		wantInvalid(t, err, "receipts")
		_, err = f.Settle(t.Context(), settleCall(slices.Repeat([]queue.SettleEntry{entry(it, queue.Complete)}, queue.DefaultMaxItems+1)...))
		if _, ok := errors.AsType[*queue.TooLargeError](err); !ok {
			t.Errorf("too many: got %v, want a TooLargeError", err)
		}
		for field, change := range map[string]func(e *queue.SettleEntry){
			"receipts[0]":              func(e *queue.SettleEntry) { e.Outcome = 0 },
			"receipts[0].delay":        func(e *queue.SettleEntry) { e.Delay = -1 },
			"receipts[0].retry_at":     func(e *queue.SettleEntry) { e.DueAt = time.Now().AddDate(11, 0, 0) },
			"receipts[0].reason":       func(e *queue.SettleEntry) { e.Reason = "a\x00" },
			"receipts[0].max_attempts": func(e *queue.SettleEntry) { e.MaxAttempts = -2 },
		} {
			e := entry(it, queue.Retry)
			change(&e)
			_, err := f.Settle(t.Context(), settleCall(e))
			wantInvalid(t, err, field)
		}
		call := settleCall(entry(it, queue.Complete))
		call.Queue = "other"
		_, err = f.Settle(t.Context(), call)
		wantInvalid(t, err, "queue_name")
		call.Queue = "nowhere"
		if _, err = f.Settle(t.Context(), call); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("unknown queue: got %v, want ErrNotFound", err)
		}
		partition := int32(1)
		call.Queue, call.Partition = "orders", &partition
		_, err = f.Settle(t.Context(), call)
		wantInvalid(t, err, "partition")
		partition = 0
		if _, err = f.Settle(t.Context(), call); err != nil {
			t.Errorf("queue and partition that fit: %v", err)
		}
	})
}

func TestA05_ReceiptOfAnotherNamespaceLooksLikeNone(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(1)...)
		it := f.leaseOne(t, "orders")
		none := it
		none.ID = queue.NewID()
		for _, outcome := range []queue.Outcome{queue.Complete, queue.Retry, queue.Release, queue.Bury} {
			foreign := settleCall(entry(it, outcome))
			foreign.Namespace = ns + 1
			_, foreignErr := f.Settle(t.Context(), foreign)
			_, noneErr := f.Settle(t.Context(), settleCall(entry(none, outcome)))
			wantRefused(t, foreignErr, map[int]error{0: queue.ErrNotFound})
			wantRefused(t, noneErr, map[int]error{0: queue.ErrNotFound})
		}
		extended, err := f.Extend(t.Context(), ns+1, "", []queue.ExtendEntry{{Receipt: it.Receipt()}})
		if err != nil || extended[0].Status != queue.Gone {
			t.Errorf("extend: got %+v, %v, want Gone", extended, err)
		}
		f.settle(t, entry(it, queue.Complete))
	})
}

func TestSettle_RetryAtTheLimitBuries(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		queue, item, entry int32
		want               int // attempts until it is buried, or 0
	}{
		"the queue's":               {queue: 2, want: 2},
		"the item's over it":        {queue: 9, item: 1, want: 1},
		"the entry's over it":       {queue: 9, entry: 3, want: 3},
		"the item's over both":      {queue: 9, item: 2, entry: 5, want: 2},
		"none":                      {queue: -1},
		"none of the item's":        {queue: 1, item: -1},
		"none of the entry's":       {queue: 1, entry: -1},
		"the default, long not met": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(queue.Options{})
			f.create(t, queue.Settings{Name: "orders", MaxAttempts: test.queue})
			id := f.produce(t, "orders", queue.ProduceItem{MaxAttempts: test.item})[0].ID
			for attempt := 1; attempt <= 5; attempt++ {
				p := params(1)
				p.MaxAttempts = test.entry
				reply, err := f.Lease(t.Context(), p)
				if err != nil || len(reply.Items) != 1 {
					t.Fatalf("attempt %d: got %d items, %v, want 1", attempt, len(reply.Items), err)
				}
				e := entry(reply.Items[0], queue.Retry)
				e.MaxAttempts = test.entry
				e.Last = queue.Last{Status: 500}
				settled := f.settle(t, e)
				if want := attempt == test.want; settled[0].Buried != want {
					t.Fatalf("attempt %d: buried is %v, want %v", attempt, settled[0].Buried, want)
				}
				if settled[0].Buried {
					it := f.find(t, id)
					if it.Queue != f.settings(t, "orders~dead").Number || it.Dead.Reason != queue.ReasonMaxAttempts || it.Dead.Status != 500 {
						t.Errorf("got %+v, want it in orders~dead with its reason and status", it.Dead)
					}
					return
				}
			}
		})
	}
}

// The group is applied whole once the dead-letter queue is there.
func TestSettle_MakesDeadLetterQueuesForACall(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "first", MaxAttempts: 1})
		f.create(t, queue.Settings{Name: "second", MaxAttempts: 1})
		f.produce(t, "first", items(1)...)
		f.produce(t, "second", items(1)...)
		f.produce(t, "orders", items(2)...)
		leased := f.lease(t, "orders", 2)
		settled := f.settle(t,
			entry(leased[0], queue.Complete), entry(f.leaseOne(t, "first"), queue.Retry),
			entry(f.leaseOne(t, "second"), queue.Retry), entry(leased[1], queue.Retry))
		if settled[0].Buried || !settled[1].Buried || !settled[2].Buried || settled[3].Buried {
			t.Errorf("got %+v, want the second and third buried", settled)
		}
		for name, want := range map[string]int{"orders": 1, "first": 0, "second": 0, "first~dead": 1, "second~dead": 1} {
			if got := f.total(t, name); got != want {
				t.Errorf("%s: got %d items, want %d", name, got, want)
			}
		}
		made := f.settings(t, "first~dead")
		if !made.DeadLetter || made.MaxAttempts != -1 {
			t.Errorf("got %+v, want a dead-letter queue without a limit", made)
		}
		if _, _, err := f.Queue(t.Context(), ns, "orders~dead"); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("orders~dead, which nothing needed: got %v, want ErrNotFound", err)
		}
	})
}

func TestSettle_NothingIsBuriedInADeadLetterQueue(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", queue.ProduceItem{MaxAttempts: 1})
		f.settle(t, entry(f.leaseOne(t, "orders"), queue.Bury))
		it := f.leaseOne(t, "orders~dead")
		_, err := f.Settle(t.Context(), settleCall(entry(it, queue.Bury)))
		wantRefused(t, err, map[int]error{0: queue.ErrAlreadyDead})
		for range 3 {
			retry := entry(it, queue.Retry)
			retry.MaxAttempts = 1
			if settled := f.settle(t, retry); settled[0].Buried {
				t.Fatal("a retry buried in a dead-letter queue")
			}
			it = f.leaseOne(t, "orders~dead")
		}
		f.settle(t, entry(it, queue.Complete))
	})
}

func TestP11_WhatStrangersSaidIsMadeStorable(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		id := f.produce(t, "orders", items(1)...)[0].ID
		retry := entry(f.leaseOne(t, "orders"), queue.Retry)
		retry.Last.Error = "a\x00b\xff" + strings.Repeat("é", queue.MaxLastError)
		retry.Record = &queue.Record{Type: queue.AttemptRecord, Error: retry.Last.Error, Response: make([]byte, queue.MaxResponse+1)}
		f.settle(t, retry)
		kept := f.find(t, id).Last.Error
		if !utf8.ValidString(kept) || strings.Contains(kept, "\x00") || len(kept) > queue.MaxLastError || !strings.HasPrefix(kept, "a\ufffdb\ufffdé") {
			t.Errorf("got %q, want valid UTF-8 without NUL of at most %d bytes", kept, queue.MaxLastError)
		}
		if len(retry.Record.Response) != queue.MaxResponse+1 {
			t.Error("the caller's record was changed")
		}
	})
}

func TestExtend_IsPerEntry(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(3)...)
		leased := f.lease(t, "orders", 3)
		f.settle(t, entry(leased[1], queue.Complete), entry(leased[2], queue.Release))
		<-time.After(time.Second)
		extended, err := f.Extend(t.Context(), ns, "orders", []queue.ExtendEntry{
			{Receipt: leased[0].Receipt()}, {Receipt: leased[1].Receipt()}, {Receipt: leased[2].Receipt()},
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := time.Now().Add(queue.DefaultLeaseTTL); extended[0].Status != queue.Applied || !extended[0].Deadline.Equal(want) {
			t.Errorf("got %+v, want a deadline at %v", extended[0], want)
		}
		if extended[1].Status != queue.Gone || extended[2].Status != queue.Stale {
			t.Errorf("got %+v and %+v, want gone and stale", extended[1], extended[2])
		}
		extended, err = f.Extend(t.Context(), ns, "", []queue.ExtendEntry{{
			Receipt: leased[0].Receipt(), TTL: time.Hour, Handover: &queue.Handover{Owner: "endpoint", LapseCounts: true},
		}})
		if it := f.find(t, leased[0].ID); err != nil || it.Owner != "endpoint" || !it.AvailableAt.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("handover: got %+v, %v, owner %s until %v", extended, err, it.Owner, it.AvailableAt)
		}
	})
}

func TestExtend_ChecksTheCall(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "other"})
		f.produce(t, "orders", items(1)...)
		it := f.leaseOne(t, "orders")
		receipt := it.Receipt()
		for field, call := range map[string]struct {
			queue   string
			entries []queue.ExtendEntry
		}{
			"receipts":                  {"", nil},
			"queue_name":                {"other", []queue.ExtendEntry{{Receipt: receipt}}},
			"receipts[0].lease_timeout": {"", []queue.ExtendEntry{{Receipt: receipt, TTL: -1}}},
			"receipts[0].owner":         {"", []queue.ExtendEntry{{Receipt: receipt, Handover: &queue.Handover{Owner: "a\n"}}}},
		} {
			_, err := f.Extend(t.Context(), ns, call.queue, call.entries)
			wantInvalid(t, err, field)
		}
		_, err := f.Extend(t.Context(), ns, "", make([]queue.ExtendEntry, queue.DefaultMaxItems+1))
		if _, ok := errors.AsType[*queue.TooLargeError](err); !ok {
			t.Errorf("too many: got %v, want a TooLargeError", err)
		}
	})
}
