package queue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// keep has a queue keep what has ended for so long.
func (f *fixture) keep(t *testing.T, name string, d time.Duration) {
	t.Helper()
	if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: name, KeepEnded: &d}); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) records(t *testing.T, id queue.ID) []queue.Record {
	t.Helper()
	page, err := f.model.Records(t.Context(), storage.RecordQuery{Namespace: ns, Item: id, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return page.Records
}

func done(it queue.Item, result string) queue.SettleEntry {
	e := entry(it, queue.Complete)
	e.Result = []byte(result)
	return e
}

func TestKeepEnded_IsBoundedByTheJournal(t *testing.T) {
	t.Parallel()
	bubbleWith(t, queue.Options{KeepRecords: time.Hour}, func(t *testing.T, f *fixture) {
		for _, bad := range []time.Duration{-1, time.Hour + 1} {
			_, err := f.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: "new", KeepEnded: bad})
			wantInvalid(t, err, "keep_ended")
			_, err = f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", KeepEnded: &bad})
			wantInvalid(t, err, "keep_ended")
		}
		f.create(t, queue.Settings{Name: "new", KeepEnded: time.Hour})
		// A server that keeps less lets it stand, as long as nobody asks for another.
		less := newBroker(f.store, queue.Options{KeepRecords: time.Minute})
		s, err := less.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "new", Reference: ptr("x")})
		if err != nil || s.KeepEnded != time.Hour {
			t.Errorf("got %v, %v, want it unchanged", s.KeepEnded, err)
		}
		f.keep(t, "new", 0)
		if got := f.settings(t, "new").KeepEnded; got != 0 {
			t.Errorf("got %v, want none", got)
		}
	})
}

func TestSettle_RecordsCompletionsWhereTheQueueKeepsThem(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "kept", KeepEnded: time.Hour})
		for _, name := range []string{"orders", "kept"} {
			f.produce(t, name, items(1)...)
		}
		plain, kept := f.leaseOne(t, "orders"), f.leaseOne(t, "kept")
		f.settle(t, entry(plain, queue.Complete), done(kept, "\x00done"))
		if records := f.records(t, plain.ID); len(records) != 0 {
			t.Errorf("got %+v, want no record of a queue that keeps nothing", records)
		}
		records := f.records(t, kept.ID)
		if len(records) != 1 {
			t.Fatalf("got %d records, want 1", len(records))
		}
		r := records[0]
		if r.Type != queue.EndingRecord || r.Next != queue.StepComplete || r.Verdict != queue.VerdictCompleted || string(r.Response) != "\x00done" {
			t.Errorf("got %+v, want the ending with its result", r)
		}
	})
}

func TestSettle_KeepsTheRecordThatAnEntryBrings(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.keep(t, "orders", time.Hour)
		f.produce(t, "orders", items(1)...)
		e := entry(f.leaseOne(t, "orders"), queue.Complete)
		e.Record = &queue.Record{Type: queue.AttemptRecord, Subscription: "s", Verdict: "delivered"}
		f.settle(t, e)
		if got := f.records(t, e.Receipt.Key.ID); len(got) != 1 || got[0].Type != queue.AttemptRecord {
			t.Errorf("got %+v, want the attempt alone", got)
		}
	})
}

// A node that has never heard of the queue keeps its endings all the same, and reads
// it once for all.
func TestSettle_CompletionOnAnotherNodeIsKept(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.keep(t, "orders", time.Hour)
		f.produce(t, "orders", items(3)...)
		leased := f.lease(t, "orders", 3)
		other := newBroker(f.store, queue.Options{})
		for i, it := range leased {
			before := f.store.Calls(storagetest.GetDocument)
			if _, err := other.Settle(t.Context(), settleCall(entry(it, queue.Complete))); err != nil {
				t.Fatal(err)
			}
			if got := f.store.Calls(storagetest.GetDocument) - before; i > 0 && got != 0 {
				t.Errorf("completion %d read %d documents", i, got)
			}
			if len(f.records(t, it.ID)) != 1 {
				t.Errorf("completion %d was not kept", i)
			}
		}
	})
}

func TestSettle_RefusesAResultThatWouldBeLost(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "kept", KeepEnded: time.Hour})
		f.produce(t, "orders", items(1)...)
		f.produce(t, "kept", items(2)...)
		plain, kept := f.leaseOne(t, "orders"), f.lease(t, "kept", 2)
		_, err := f.Settle(t.Context(), settleCall(done(kept[0], "x"), done(plain, "x")))
		wantInvalid(t, err, "receipts[1].result")
		retried := done(kept[0], "x")
		retried.Outcome = queue.Retry
		_, err = f.Settle(t.Context(), settleCall(retried))
		wantInvalid(t, err, "receipts[0].result")
		recorded := done(kept[0], "x")
		recorded.Record = &queue.Record{Type: queue.AttemptRecord}
		_, err = f.Settle(t.Context(), settleCall(recorded))
		wantInvalid(t, err, "receipts[0].result")
		_, err = f.Settle(t.Context(), settleCall(done(kept[0], string(make([]byte, queue.MaxResponse+1)))))
		if large, ok := errors.AsType[*queue.TooLargeError](err); !ok || large.Field != "receipts[0].result" {
			t.Errorf("too long: got %v, want a TooLargeError", err)
		}
		// Nothing of these was done.
		f.settle(t, entry(plain, queue.Complete), done(kept[0], string(make([]byte, queue.MaxResponse))))
		if err := f.DeleteQueue(t.Context(), ns, "kept", true); err != nil {
			t.Fatal(err)
		}
		_, err = f.Settle(t.Context(), settleCall(done(kept[1], "x")))
		wantRefused(t, err, map[int]error{0: queue.ErrNotFound})
	})
}
