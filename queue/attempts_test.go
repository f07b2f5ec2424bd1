package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// attempt pushes an item of a queue once, which ends it.
func (f *fixture) attempt(t *testing.T, name, subscription, verdict string) queue.Item {
	t.Helper()
	f.produce(t, name, items(1)...)
	it := f.leaseOne(t, name)
	e := entry(it, queue.Complete)
	e.Record = &queue.Record{Type: queue.AttemptRecord, Subscription: subscription, Verdict: verdict}
	f.settle(t, e)
	<-time.After(time.Second)
	return it
}

func (f *fixture) attempts(t *testing.T, q queue.AttemptsQuery) queue.AttemptsPage {
	t.Helper()
	if q.Namespace == 0 {
		q.Namespace = ns
	}
	page, err := f.Attempts(t.Context(), q)
	if err != nil {
		t.Fatalf("attempts: %v", err)
	}
	if len(page.Records) > q.Limit {
		t.Fatalf("got %d records, want at most %d", len(page.Records), q.Limit)
	}
	return page
}

// allAttempts walks over pages, and returns their verdicts.
func (f *fixture) allAttempts(t *testing.T, q queue.AttemptsQuery) (verdicts []string) {
	t.Helper()
	for {
		page := f.attempts(t, q)
		for _, r := range page.Records {
			verdicts = append(verdicts, r.Verdict)
		}
		if page.Next == "" {
			return verdicts
		}
		q.Cursor = page.Next
	}
}

func TestAttempts_AreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "kept", KeepEnded: time.Hour})
		began := time.Now()
		var first queue.Item
		for i := range 6 {
			it := f.attempt(t, "orders", fmt.Sprintf("s%d", i%2), fmt.Sprintf("v%d", i))
			if i == 0 {
				first = it
			}
		}
		f.produce(t, "kept", items(1)...)
		f.settle(t, entry(f.leaseOne(t, "kept"), queue.Complete))
		for name, test := range map[string]struct {
			query queue.AttemptsQuery
			want  []string
		}{
			"all":          {queue.AttemptsQuery{}, []string{"completed", "v5", "v4", "v3", "v2", "v1", "v0"}},
			"oldest first": {queue.AttemptsQuery{OldestFirst: true}, []string{"v0", "v1", "v2", "v3", "v4", "v5", "completed"}},
			"item":         {queue.AttemptsQuery{Item: first.ID}, []string{"v0"}},
			"subscription": {queue.AttemptsQuery{Subscription: "s1"}, []string{"v5", "v3", "v1"}},
			"queue":        {queue.AttemptsQuery{Queue: "kept"}, []string{"completed"}},
			"verdict":      {queue.AttemptsQuery{Verdict: "v2"}, []string{"v2"}},
			"attempts":     {queue.AttemptsQuery{Type: queue.AttemptRecord}, []string{"v5", "v4", "v3", "v2", "v1", "v0"}},
			"type":         {queue.AttemptsQuery{Type: queue.EndingRecord}, []string{"completed"}},
			"time":         {queue.AttemptsQuery{From: began.Add(time.Second), To: began.Add(3 * time.Second)}, []string{"v2", "v1"}},
			"together":     {queue.AttemptsQuery{Queue: "orders", Subscription: "s0", Verdict: "v4", Type: queue.AttemptRecord}, []string{"v4"}},
			"at odds":      {queue.AttemptsQuery{Queue: "kept", Subscription: "s0"}, nil},
			"namespace":    {queue.AttemptsQuery{Namespace: ns + 1}, nil},
		} {
			for _, limit := range []int{1, 2, 3, 1000} {
				test.query.Limit = limit
				if got := f.allAttempts(t, test.query); !slices.Equal(got, test.want) {
					t.Errorf("%s in pages of %d: got %v, want %v", name, limit, got, test.want)
				}
			}
		}
	})
}

func TestAttempts_RefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		now := time.Now()
		for field, q := range map[string]queue.AttemptsQuery{
			"limit":  {},
			"type":   {Limit: 1, Type: queue.OutcomeRecord + 1},
			"to":     {Limit: 1, From: now, To: now.Add(-1)},
			"cursor": {Limit: 1, Cursor: "what"},
		} {
			q.Namespace = ns
			_, err := f.Attempts(t.Context(), q)
			wantInvalid(t, err, field)
		}
		if _, err := f.Attempts(t.Context(), queue.AttemptsQuery{Namespace: ns, Limit: 1001}); err == nil {
			t.Error("a limit of 1001 was taken")
		}
		if _, err := f.Attempts(t.Context(), queue.AttemptsQuery{Namespace: ns, Limit: 1, Queue: "nowhere"}); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("no such queue: got %v, want ErrNotFound", err)
		}
	})
}

func TestAttempts_OfADeletedQueueAreFoundByTheirItems(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		it := f.attempt(t, "orders", "s", "v")
		if err := f.DeleteQueue(t.Context(), ns, "orders", false); err != nil {
			t.Fatal(err)
		}
		if got := f.allAttempts(t, queue.AttemptsQuery{Item: it.ID, Limit: 10}); !slices.Equal(got, []string{"v"}) {
			t.Errorf("got %v, want what was done on it", got)
		}
		if _, err := f.Attempts(t.Context(), queue.AttemptsQuery{Namespace: ns, Limit: 1, Queue: "orders"}); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("by the queue: got %v, want ErrNotFound", err)
		}
	})
}

func TestAttempts_WalkIsExactWhileOthersWrite(t *testing.T) {
	t.Parallel()
	for _, oldest := range []bool{false, true} {
		t.Run(fmt.Sprintf("oldest first %v", oldest), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fixture) {
				var want []string
				for i := range 20 {
					verdict := fmt.Sprintf("v%d", i)
					f.attempt(t, "orders", "s", verdict)
					want = append(want, verdict)
				}
				q := queue.AttemptsQuery{Limit: 3, OldestFirst: oldest, Subscription: "s"}
				var got []string
				for n := 0; ; n++ {
					page := f.attempts(t, q)
					for _, r := range page.Records {
						got = append(got, r.Verdict)
					}
					if page.Next == "" {
						break
					}
					if n < 5 { // each page, something new
						verdict := fmt.Sprintf("new%d", n)
						f.attempt(t, "orders", "s", verdict)
						if oldest {
							want = append(want, verdict)
						}
					}
					q.Cursor = page.Next
				}
				if !oldest {
					slices.Reverse(want)
				}
				if !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		})
	}
}

// A filter to which next to nothing applies reads a bounded part of the journal.
func TestAttempts_OneCallReadsSoMuchAndNoMore(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		const n = 12_000
		sought := f.attempt(t, "orders", "s", "sought")
		record := &queue.Record{Type: queue.AttemptRecord, Subscription: "s", Verdict: "other"}
		for range n / 1000 {
			many := make([]queue.ProduceItem, 1000)
			f.produce(t, "orders", many...)
			var entries []queue.SettleEntry
			for _, it := range f.lease(t, "orders", 1000) {
				e := entry(it, queue.Complete)
				e.Record = record
				entries = append(entries, e)
			}
			f.settle(t, entries...)
		}
		reads := f.store.Calls(storagetest.ReadJournal)
		page := f.attempts(t, queue.AttemptsQuery{Limit: 1000, Verdict: "sought"})
		if len(page.Records) != 0 || page.Next == "" {
			t.Errorf("got %d records, next %q, want none yet", len(page.Records), page.Next)
		}
		if got := f.store.Calls(storagetest.ReadJournal) - reads; got != 10 {
			t.Errorf("it made %d reads, want 10", got)
		}
		page = f.attempts(t, queue.AttemptsQuery{Limit: 1000, Verdict: "sought", Cursor: page.Next})
		if len(page.Records) != 1 || page.Records[0].Key != sought.Key || page.Next != "" {
			t.Errorf("got %+v, want the one, and the end", page)
		}
		// Or until its time is nearly up.
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		page, err := f.Attempts(ctx, queue.AttemptsQuery{Namespace: ns, Limit: 10, Verdict: "sought"})
		if err != nil || page.Next == "" {
			t.Errorf("got %+v, %v, want a page to go on from", page, err)
		}
	})
}

func TestAttempts_PassesOnWhatTheStoreAnswers(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.store.FailBefore(storagetest.ReadJournal, 1, queue.ErrUnavailable)
		if _, err := f.Attempts(t.Context(), queue.AttemptsQuery{Namespace: ns, Limit: 1}); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
	})
}

// What is written of pushes is dropped at the age that is the default: three days.
func TestTidy_DropsRecordsAfterThreeDays(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.attempt(t, "orders", "s", "old")
		<-time.After(24 * time.Hour)
		f.attempt(t, "orders", "s", "young")
		for _, test := range []struct {
			wait time.Duration
			want []string
		}{
			{48*time.Hour - 3*time.Second, []string{"young", "old"}},
			{2 * time.Second, []string{"young"}},
			{24*time.Hour + time.Second, nil},
		} {
			<-time.After(test.wait)
			if err := f.Tidy(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := f.allAttempts(t, queue.AttemptsQuery{Limit: 10}); !slices.Equal(got, test.want) {
				t.Errorf("after %v more: got %v, want %v", test.wait, got, test.want)
			}
		}
	})
}
