package queue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Whoever repeats a refused call without what it named must not be refused again.
func TestD02_RefusedCallNamesEveryReceiptThatIsRefused(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "other"})
		f.produce(t, "orders", items(1)...)
		f.settle(t, entry(f.leaseOne(t, "orders"), queue.Bury))
		f.produce(t, "orders~dead", items(1)...)
		f.produce(t, "orders", items(3)...)
		f.produce(t, "other", queue.ProduceItem{MaxAttempts: 1})
		dead, leased := f.lease(t, "orders~dead", 2), f.lease(t, "orders", 3)
		gone, stale, good := leased[0], leased[1], leased[2]
		staleDead, other := dead[1], f.leaseOne(t, "other")
		f.settle(t, entry(gone, queue.Complete), entry(stale, queue.Release), entry(staleDead, queue.Release))
		foreign, deleted := good, good
		foreign.Queue, deleted.Queue = queue.NewNumber(ns+1, good.Queue.Own()), queue.NewNumber(ns, 99)

		_, err := f.Settle(t.Context(), settleCall(
			entry(gone, queue.Bury), entry(dead[0], queue.Bury), entry(good, queue.Bury), entry(stale, queue.Complete),
			entry(foreign, queue.Complete), entry(staleDead, queue.Bury), entry(deleted, queue.Retry), entry(other, queue.Retry),
		))
		wantRefused(t, err, map[int]error{
			0: queue.ErrNotFound, 1: queue.ErrAlreadyDead, 3: queue.ErrStale,
			4: queue.ErrNotFound, 5: queue.ErrStale, 6: queue.ErrNotFound,
		})
		if _, _, err := f.Queue(t.Context(), ns, "other~dead"); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("dead-letter queue for a call that was refused: got %v, want ErrNotFound", err)
		}
		f.settle(t, entry(good, queue.Bury), entry(dead[0], queue.Complete), entry(other, queue.Retry))
	})
}

// A receipt of another namespace proves nothing, so it may not speak for a place either.
func TestA05_PlaceOfACallIsJudgedWithoutReceiptsOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "other"})
		f.produce(t, "orders", items(1)...)
		f.produce(t, "other", items(1)...)
		foreign, it := f.leaseOne(t, "orders"), f.leaseOne(t, "other")
		foreign.Queue = queue.NewNumber(ns+1, foreign.Queue.Own())
		call := settleCall(entry(foreign, queue.Complete), entry(it, queue.Complete))
		call.Queue = "other"
		_, err := f.Settle(t.Context(), call)
		wantRefused(t, err, map[int]error{0: queue.ErrNotFound})

		extended, err := f.Extend(t.Context(), ns, "other", []queue.ExtendEntry{{Receipt: foreign.Receipt()}, {Receipt: it.Receipt()}})
		if err != nil || extended[0].Status != queue.Gone || extended[1].Status != queue.Applied {
			t.Errorf("extend: got %+v, %v, want gone and applied", extended, err)
		}
		_, err = f.Extend(t.Context(), ns, "orders", []queue.ExtendEntry{{Receipt: foreign.Receipt()}, {Receipt: it.Receipt()}})
		if want := "queue_name: is orders, but receipts[1] is of another queue"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

func TestErrors_SayDurationsAsPeopleReadThem(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		queue.Invalid("a", "want %s to %s", time.Millisecond, 7*24*time.Hour): "a: want 1ms to 168h",
		queue.Invalid("a", "is %v", 10*time.Minute):                           "a: is 10m",
		queue.Invalid("a", "is %v", 90*time.Second):                           "a: is 1m30s",
		queue.Invalid("a", "is %v", time.Hour+time.Second):                    "a: is 1h0m1s",
		queue.Invalid("a", "is %v", -2*time.Hour):                             "a: is -2h",
		queue.Invalid("a", "is %v", time.Duration(0)):                         "a: is 0s",
		&queue.OverloadedError{What: "leases", RetryAfter: time.Minute}:       "overloaded: leases; retry after 1m",
	} {
		if got := err.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
