package postgres

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func TestDeal_GoesRoundTheTakers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		takers []queue.Taker
		sizes  []int
		want   []int32
	}{
		{"nothing", []queue.Taker{{Limit: 1}}, nil, []int32{}},
		{"no limit", []queue.Taker{{}, {Limit: 1}}, []int{1, 1}, []int32{2}},
		{"limits", []queue.Taker{{Limit: 4}, {Limit: 2}, {Limit: 1}}, make([]int, 9), []int32{1, 2, 3, 1, 2, 1, 1}},
		{"more than there is", []queue.Taker{{Limit: 4}, {Limit: 2}}, make([]int, 3), []int32{1, 2, 1}},
		{"one budget", []queue.Taker{{Limit: 9, MaxBytes: 299}, {Limit: 9}}, []int{100, 100, 100, 100, 100, 100}, []int32{1, 2, 1, 2, 2, 2}},
		{"exact budget", []queue.Taker{{Limit: 9, MaxBytes: 3}}, []int{1, 1, 1, 1}, []int32{1, 1, 1}},
		{"first item whatever its size", []queue.Taker{{Limit: 9, MaxBytes: 1}, {Limit: 9, MaxBytes: 1}}, []int{5, 5, 5}, []int32{1, 2}},
		{"who refused once wants no more", []queue.Taker{{Limit: 9, MaxBytes: 10}, {Limit: 2}}, []int{9, 1, 2, 1, 1}, []int32{1, 2, 2}},
	} {
		if got := deal(test.takers, len(test.sizes), func(k int) int { return test.sizes[k] }); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

func (w *world) lease(calls ...queue.LeaseCall) []queue.LeaseResult {
	w.Helper()
	answer, err := w.store.Lease(w.Context(), calls)
	if err != nil {
		w.Fatal(err)
	}
	return answer.Calls
}

func call(q queue.Number, takers ...queue.Taker) queue.LeaseCall {
	return queue.LeaseCall{Queue: q, Takers: takers}
}

func taker(limit int) queue.Taker {
	return queue.Taker{Limit: limit, TTL: time.Minute, Owner: "somebody"}
}

// replay answers calls from the marker of the one batch that there is.
func (w *world) replay(calls ...queue.LeaseCall) []queue.LeaseResult {
	w.Helper()
	var answer []byte
	if err := w.pool().QueryRow(w.Context(), w.store.text(`select answer from {s}.batches`)).Scan(&answer); err != nil {
		w.Fatal(err)
	}
	claims := make([]*claim, len(calls))
	for i, c := range calls {
		claims[i] = &claim{index: i, call: c}
		if len(c.Takers) > 1 {
			claims[i].turns = byLimits(c.Takers, 100)
		}
	}
	conn, err := w.pool().Acquire(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Release()
	if _, err := w.store.replayClaims(claims)(w.Context(), conn, answer); err != nil {
		w.Fatal(err)
	}
	results := make([]queue.LeaseResult, len(calls))
	for i, c := range claims {
		results[i] = c.result
	}
	return results
}

// receipts writes down who got what under which tokens.
func receipts(results []queue.LeaseResult) (all [][][]queue.Receipt) {
	for _, result := range results {
		var takers [][]queue.Receipt
		for _, items := range result.Takers {
			var got []queue.Receipt
			for i := range items {
				got = append(got, items[i].Receipt())
			}
			takers = append(takers, got)
		}
		all = append(all, takers)
	}
	return all
}

func sameReceipts(a, b [][][]queue.Receipt) bool {
	return slices.EqualFunc(a, b, func(a, b [][]queue.Receipt) bool {
		return slices.EqualFunc(a, b, func(a, b []queue.Receipt) bool { return slices.Equal(a, b) })
	})
}

func TestP01_ALeaseWhoseCommitNobodySawIsAnsweredFromItsMarker(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	full, empty, other := queue.NewNumber(1, 9), queue.NewNumber(1, 5), queue.NewNumber(3_000_000_000, 1)
	w.fill(full, 40, w.clock().Add(-time.Hour), "", "")
	w.fill(other, 3, w.clock().Add(-time.Hour), "", "")
	calls := []queue.LeaseCall{call(full, taker(20), taker(6), taker(1)), call(empty, taker(5)), call(other, taker(5))}
	want := receipts(w.lease(calls...))
	if got := receipts(w.replay(calls...)); !sameReceipts(got, want) {
		t.Errorf("replay:\n got %v\nwant %v", got, want)
	}
	// Another node leased what lapsed meanwhile.
	stolen := want[2][0][1]
	w.exec(`update {s}.items set counter = counter + 1, random = 7 where id = $1`, [16]byte(stolen.Key.ID))
	want[2][0] = slices.Delete(want[2][0], 1, 2)
	if got := receipts(w.replay(calls...)); !sameReceipts(got, want) {
		t.Errorf("replay after a theft:\n got %v\nwant %v", got, want)
	}
}

func TestP01_ALeaseThatFoundNothingLeavesNoMarker(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	w.lease(call(queue.NewNumber(1, 1), taker(1)), call(queue.NewNumber(1, 2), taker(1)))
	if n := w.count(`select count(*) from {s}.batches`); n != 0 {
		t.Errorf("markers: got %d, want none", n)
	}
}

func TestP01_ABatchThatWasFoundLostLeasesNothing(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q := queue.NewNumber(1, 1)
	w.fill(q, 3, w.clock().Add(-time.Hour), "", "")
	conn, err := w.pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	marker := [16]byte{1}
	w.exec(`insert into {s}.batches (id) values ($1)`, marker)
	_, err = w.store.claim(t.Context(), conn, marker, []*claim{{call: call(q, taker(2)), wanted: 2}})
	if err == nil {
		t.Error("claim: got no error, want that the marker is there")
	}
	if n := w.count(`select count(*) from {s}.items where held`); n != 0 {
		t.Errorf("held: got %d, want none", n)
	}
}

func TestStore_LeaseDealsByBudgetsInASecondStep(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q, plain := queue.NewNumber(1, 1), queue.NewNumber(1, 2)
	w.fill(q, 6, w.clock().Add(-time.Hour), "", "")
	w.fill(plain, 2, w.clock().Add(-time.Hour), "", "")
	w.exec(`update {s}.items set size = 100`)
	bounded := taker(10)
	bounded.MaxBytes = 299
	got := w.lease(call(q, bounded, taker(10)), call(plain, taker(2)))
	for i, want := range []int{2, 4} {
		if n := len(got[0].Takers[i]); n != want {
			t.Errorf("taker %d: got %d items, want %d", i, n, want)
		}
	}
	if n := len(got[1].Takers[0]); n != 2 {
		t.Errorf("other queue: got %d items, want 2", n)
	}
	if n := w.count(`select count(*) from {s}.batches`); n != 2 {
		t.Errorf("markers: got %d, want one of the batch and one of the second step", n)
	}
	if n := w.counted("held"); n != 8 {
		t.Errorf("counted as held: got %d, want 8", n)
	}
}

func TestStore_LeaseLeavesDamagedItemsHeld(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q := queue.NewNumber(1, 1)
	w.fill(q, 3, w.clock().Add(-time.Hour), "", "")
	damaged := w.keys(q)[1]
	w.exec(`update {s}.items set attributes = '\xff00' where id = $1`, [16]byte(damaged.ID))
	got := w.lease(call(q, taker(5)))[0]
	if got.Corrupt != 1 || len(got.Takers[0]) != 2 {
		t.Fatalf("got %d corrupt and %d items, want 1 and 2", got.Corrupt, len(got.Takers[0]))
	}
	if n := w.count(`select count(*) from {s}.items where held and available_at > $1`, w.clock()); n != 3 {
		t.Errorf("held: got %d, want all 3", n)
	}
}

func TestStore_LeaseMakesTokensOf64RandomBits(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q := queue.NewNumber(1, 1)
	const n = 200
	w.fill(q, n, w.clock().Add(-time.Hour), "", "")
	ones, zeros, seen := uint64(0), uint64(0), map[uint64]bool{}
	for _, it := range w.lease(call(q, taker(n)))[0].Takers[0] {
		ones |= it.Token.Random
		zeros |= ^it.Token.Random
		seen[it.Token.Random] = true
	}
	if ones&zeros != ^uint64(0) || len(seen) != n {
		t.Errorf("bits that change: %x, different values: %d, want all and %d", ones&zeros, len(seen), n)
	}
}

func TestStore_LeaseOnAClosedStore(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Lease(t.Context(), []queue.LeaseCall{call(queue.NewNumber(1, 1), taker(1))}); !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("got %v, want unavailable", err)
	}
}
