package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// records returns an item's records, oldest first.
func (f *fixture) records(id queue.ID) []queue.Record {
	f.Helper()
	return f.read(storage.RecordQuery{Namespace: 1, Item: id, Limit: 100})
}

func (f *fixture) read(q storage.RecordQuery) []queue.Record {
	f.Helper()
	records, err := readAll(f.Context(), f.store, q)
	if err != nil {
		f.Fatal(err)
	}
	return records
}

// attempt is a record as the dispatcher fills it in.
func attempt(subscription, verdict string) *queue.Record {
	return &queue.Record{
		Type: queue.AttemptRecord, Subscription: subscription, Verdict: verdict,
		StartedAt: Start.Add(-time.Second), Duration: 123 * time.Millisecond, Status: 503,
		Error: "unavailable", Response: []byte("\x00busy\xff"), Node: "node-1",
	}
}

// verdictsOf names records by their verdicts.
func verdictsOf(records []queue.Record) []string {
	verdicts := make([]string, len(records))
	for i, r := range records {
		verdicts[i] = r.Verdict
	}
	return verdicts
}

func (f *fixture) wantVerdicts(what string, got []queue.Record, want ...string) {
	f.Helper()
	if !slices.Equal(verdictsOf(got), want) {
		f.Errorf("%s: got %v, want %v", what, verdictsOf(got), want)
	}
}

// attempts makes n items, settles each with a record a second apart, and returns
// the items.
func (f *fixture) attempts(q queue.Number, subscription string, n int) []queue.Item {
	f.Helper()
	var items []queue.Item
	for i := range n {
		leased := f.produceAndLease(q, push(1))
		s := complete(leased)
		s.Record = attempt(subscription, fmt.Sprintf("%s%d", subscription, i))
		f.apply(s)
		items = append(items, leased)
		f.clock.Advance(time.Second)
	}
	return items
}

var journalCases = []testCase{
	{"D13_RecordIsWrittenWithItsTransition", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		retryAtLimit := func(it queue.Item, dead queue.Number) queue.Settlement {
			s := retry(it, 0)
			s.MaxAttempts, s.DeadQueue = 1, dead
			return s
		}
		for _, test := range []struct {
			name   string
			settle func(queue.Item) queue.Settlement
			next   queue.Step
			in     time.Duration // From now to NextAt; -1 if that is zero.
		}{
			{"complete", complete, queue.StepComplete, -1},
			{"retry", func(it queue.Item) queue.Settlement { return retry(it, time.Minute) }, queue.StepRetry, time.Minute},
			{"release", release, queue.StepRelease, -5 * time.Second},
			{"bury", func(it queue.Item) queue.Settlement { return bury(it, dead) }, queue.StepBury, -1},
			{"limit", func(it queue.Item) queue.Settlement { return retryAtLimit(it, dead) }, queue.StepBury, -1},
		} {
			q := queue.NewNumber(1, q.Own()*100+uint32(test.next)*10+uint32(len(test.name)))
			f.fill(q, 1)
			f.clock.Advance(5 * time.Second)
			f.apply(release(f.leaseOne(q, push(1))))
			leased := f.leaseOne(q, push(1))
			s := test.settle(leased)
			s.Record = attempt("s", "retryable")
			// What the store knows better is not taken from the caller.
			s.Record.At, s.Record.Delivery, s.Record.Key.Queue = Start.Add(time.Hour), 99, dead
			f.apply(s)
			want := *attempt("s", "retryable")
			want.At, want.Key, want.Delivery, want.Next = f.clock.Now(), leased.Key, 2, test.next
			if test.in != -1 {
				want.NextAt = f.clock.Now().Add(test.in)
			}
			records := f.records(leased.ID)
			if len(records) != 1 {
				f.Fatalf("%s: got %d records, want 1", test.name, len(records))
			}
			if got, want := describeRecord(records[0]), describeRecord(want); got != want {
				f.Errorf("%s:\n got %s\nwant %s", test.name, got, want)
			}
		}
	}},
	{"Journal_TellsOfLapses", func(f *fixture) {
		q := f.queue()
		leased := f.produceAndLease(q, push(1))
		f.clock.Advance(2 * leaseTTL)
		f.leaseOne(q, push(1))
		records := f.records(leased.ID)
		if len(records) != 1 {
			f.Fatalf("got %d records, want 1", len(records))
		}
		r := records[0]
		if r.Type != queue.LapseRecord || r.Key != leased.Key || r.Delivery != 1 {
			f.Errorf("got %+v, want the lapse of the first delivery", r)
		}
		f.wantTime("at", r.At, f.clock.Now())
	}},
	{"Journal_IsReadByItemSubscriptionAndTime", func(f *fixture) {
		q := f.queue()
		as := f.attempts(q, "a", 5)
		f.attempts(q, "b", 3)
		f.attempts(queue.NewNumber(2, 1), "a", 1)
		ns := storage.RecordQuery{Namespace: 1, Limit: 100}

		byItem := ns
		byItem.Item = as[2].ID
		f.wantVerdicts("item", f.read(byItem), "a2")
		bySubscription := ns
		bySubscription.Subscription = "b"
		f.wantVerdicts("subscription", f.read(bySubscription), "b0", "b1", "b2")
		f.wantVerdicts("all", f.read(ns), "a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2")
		span := ns
		span.From, span.To = Start.Add(time.Second), Start.Add(4*time.Second)
		f.wantVerdicts("time, the end apart", f.read(span), "a1", "a2", "a3")
		span.Subscription = "b"
		f.wantVerdicts("subscription at another time", f.read(span))
		span.To = time.Time{}
		f.wantVerdicts("open end", f.read(span), "b0", "b1", "b2")
		other := storage.RecordQuery{Namespace: 2, Limit: 100}
		f.wantVerdicts("other namespace", f.read(other), "a0")
		both := ns
		both.Item, both.Subscription = as[2].ID, "b"
		f.wantVerdicts("item of another subscription", f.read(both))
	}},
	{"Journal_PagesBothWays", func(f *fixture) {
		q := f.queue()
		f.attempts(q, "a", 4)
		// Several at one time.
		f.fill(q, 4)
		var entries []queue.Settlement
		for i, it := range f.lease(q, 4) {
			s := complete(it)
			s.Record = attempt("b", fmt.Sprintf("b%d", i))
			entries = append(entries, s)
		}
		f.apply(entries...)
		for _, base := range []storage.RecordQuery{{Namespace: 1}, {Namespace: 1, Subscription: "a"}, {Namespace: 1, Subscription: "b"}, {Namespace: 1, From: Start.Add(time.Second)}} {
			base.Limit = 100
			whole := f.read(base)
			for _, limit := range []int{1, 2, 3, 8} {
				base.Limit = limit
				f.wantVerdicts("forward", f.read(base), verdictsOf(whole)...)
			}
			base.Backward, base.Limit = true, 100
			backward := f.read(base)
			for i := 1; i < len(backward); i++ {
				if backward[i].At.After(backward[i-1].At) {
					f.Errorf("backward: %v comes after %v", backward[i].At, backward[i-1].At)
				}
			}
			if len(backward) != len(whole) {
				f.Errorf("backward: got %d records, want %d", len(backward), len(whole))
			}
			for _, limit := range []int{1, 2, 3, 8} {
				base.Limit = limit
				f.wantVerdicts("backward", f.read(base), verdictsOf(backward)...)
			}
		}
	}},
	{"Journal_RefusesACursorThatItDidNotGiveOut", func(f *fixture) {
		f.attempts(f.queue(), "a", 3)
		for _, text := range []string{"what", "!", strings.Repeat("A", 100)} {
			for _, backward := range []bool{false, true} {
				_, err := f.store.Records(f.Context(), storage.RecordQuery{Namespace: 1, Limit: 1, Cursor: text, Backward: backward})
				if invalid, ok := errors.AsType[*queue.InvalidError](err); !ok || invalid.Field != "cursor" {
					f.Errorf("%q: got %v, want an InvalidError for cursor", text, err)
				}
			}
		}
	}},
	{"Journal_AWalkIsExactWhileOthersWrite", func(f *fixture) {
		for _, backward := range []bool{false, true} {
			q := f.queue()
			name := fmt.Sprintf("s%v", backward)
			var want []string
			for _, it := range f.attempts(q, name, 9) {
				want = append(want, f.records(it.ID)[0].Verdict)
			}
			query := storage.RecordQuery{Namespace: 1, Subscription: name, Limit: 2, Backward: backward}
			var got []queue.Record
			for n := 0; ; n++ {
				page, err := f.store.Records(f.Context(), query)
				if err != nil {
					f.Fatal(err)
				}
				if got = append(got, page.Records...); page.Next == "" {
					break
				}
				if n < 2 { // one more with each of the first pages
					s := complete(f.produceAndLease(q, push(1)))
					s.Record = attempt(name, fmt.Sprintf("new%d", n))
					f.apply(s)
					if !backward {
						want = append(want, s.Record.Verdict)
					}
				}
				query.Cursor = page.Next
			}
			if backward {
				slices.Reverse(want)
			}
			f.wantVerdicts(name, got, want...)
		}
	}},
	{"Journal_TidyDropsByAge", func(f *fixture) {
		q := f.queue()
		items := f.attempts(q, "a", 6)
		// Now is 6 s after the first one's time.
		f.tidy(3 * time.Second)
		f.wantVerdicts("by time", f.read(storage.RecordQuery{Namespace: 1, Limit: 10}), "a3", "a4", "a5")
		f.wantVerdicts("by subscription", f.read(storage.RecordQuery{Namespace: 1, Subscription: "a", Limit: 10}), "a3", "a4", "a5")
		f.wantVerdicts("by item", f.records(items[1].ID))
		f.wantVerdicts("by item", f.records(items[4].ID), "a4")
	}},
	{"Journal_KeepsTheResultOfAnEnding", func(f *fixture) {
		q := f.queue()
		results := [][]byte{nil, []byte("\x00fine\xff"), bytes.Repeat([]byte{0xfe}, queue.MaxResponse)}
		f.fill(q, len(results))
		var entries []queue.Settlement
		for i, it := range f.lease(q, len(results)) {
			s := complete(it)
			s.Record = &queue.Record{Type: queue.EndingRecord, Verdict: "completed", Response: results[i]}
			entries = append(entries, s)
		}
		f.apply(entries...)
		for i, e := range entries {
			records := f.records(e.Key.ID)
			if len(records) != 1 {
				f.Fatalf("result %d: got %d records, want 1", i, len(records))
			}
			r := records[0]
			if r.Type != queue.EndingRecord || r.Next != queue.StepComplete || r.Verdict != "completed" || !bytes.Equal(r.Response, results[i]) {
				f.Errorf("result %d: got %s, want it with its ending", i, describeRecord(r))
			}
		}
	}},
	{"Journal_OutlivesTheItem", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		f.fill(q, 1)
		leased := f.leaseOne(q, push(1))
		s := bury(leased, dead)
		s.Record = attempt("a", "rejected")
		f.apply(s)
		done := complete(f.leaseOne(dead, pull(1)))
		done.Record = &queue.Record{Type: queue.EndingRecord, Verdict: "completed"}
		f.apply(done)
		records := f.records(leased.ID)
		f.wantVerdicts("records", records, "rejected", "completed")
		if len(records) == 2 && (records[0].Key.Queue != q || records[1].Key.Queue != dead) {
			f.Errorf("queues: got %d and %d, want those where it happened", records[0].Key.Queue, records[1].Key.Queue)
		}
	}},
}
