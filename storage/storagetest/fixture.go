package storagetest

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// fixture is what a case works with: a store that holds nothing yet, its clock,
// and short forms of the verbs that end the test when the store errs.
type fixture struct {
	*testing.T
	harness Harness
	clock   *Clock
	store   storage.Backend
	closed  bool
	queues  uint32
	ids     idMaker
}

func setup(t *testing.T, h Harness) *fixture {
	t.Helper()
	f := &fixture{T: t, harness: h, clock: NewClock()}
	f.open()
	t.Cleanup(f.close)
	return f
}

func (f *fixture) open() {
	f.Helper()
	store, err := f.harness.Open(f.clock.Now)
	if err != nil {
		f.Fatalf("Open: %v", err)
	}
	f.store, f.closed = store, false
}

func (f *fixture) close() {
	f.Helper()
	if f.closed {
		return
	}
	f.closed = true
	if err := f.store.Close(); err != nil {
		f.Errorf("Close: %v", err)
	}
}

// reopen closes the store and opens it again; the case ends where nothing would
// be left.
func (f *fixture) reopen() {
	f.Helper()
	if !f.store.Durable() {
		f.Skip("the store says that it keeps nothing")
	}
	f.close()
	f.open()
}

// queue returns a number that nobody used yet, in namespace 1.
func (f *fixture) queue() queue.Number {
	f.queues++
	return queue.NewNumber(1, f.queues)
}

// idMaker makes UUIDv7 whose order is that of their making, by a given clock and
// without chance, so that a failure can be repeated.
type idMaker uint64

func (m *idMaker) next(now time.Time) queue.ID {
	*m++
	var id queue.ID
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16)
	binary.BigEndian.PutUint64(id[8:], uint64(*m))
	id[6] |= 0x70
	id[8] |= 0x80
	return id
}

// item returns a plain item for a queue.
func (f *fixture) item(q queue.Number) queue.NewItem {
	id := f.ids.next(f.clock.Now())
	return queue.NewItem{ID: id, Queue: q, Content: queue.Content{Payload: id[:]}}
}

// produce inserts a group and returns what the store says about its items.
func (f *fixture) produce(items ...queue.NewItem) []queue.Produced {
	f.Helper()
	result := f.produceGroups(queue.ProduceGroup{Items: items})[0]
	if result.Err != nil {
		f.Fatalf("Produce: %v", result.Err)
	}
	if len(result.Items) != len(items) {
		f.Fatalf("Produce: answered %d items, want %d", len(result.Items), len(items))
	}
	return result.Items
}

func (f *fixture) produceGroups(groups ...queue.ProduceGroup) []queue.ProduceResult {
	f.Helper()
	answer, err := f.store.Produce(f.Context(), groups)
	if err != nil {
		f.Fatalf("Produce: %v", err)
	}
	if len(answer.Groups) != len(groups) {
		f.Fatalf("Produce: answered %d groups, want %d", len(answer.Groups), len(groups))
	}
	return answer.Groups
}

// fill produces n plain items and returns their ids in order.
func (f *fixture) fill(q queue.Number, n int) []queue.ID {
	f.Helper()
	items := make([]queue.NewItem, n)
	ids := make([]queue.ID, n)
	for i := range items {
		items[i] = f.item(q)
		ids[i] = items[i].ID
	}
	f.produce(items...)
	return ids
}

// leaseTTL is how long the leases of [fixture.lease] last.
const leaseTTL = time.Minute

// pull is the taker of a consumer, push that of a lane.
func pull(limit int) queue.Taker {
	return queue.Taker{Limit: limit, TTL: leaseTTL, Owner: "consumer", LapseCounts: true}
}

func push(limit int) queue.Taker {
	return queue.Taker{Limit: limit, TTL: leaseTTL, Owner: "lane"}
}

// lease leases up to limit items for a consumer.
func (f *fixture) lease(q queue.Number, limit int) []queue.Item {
	f.Helper()
	return f.leaseFor(q, pull(limit))[0]
}

// leaseOne leases one item, which must be there.
func (f *fixture) leaseOne(q queue.Number, taker queue.Taker) queue.Item {
	f.Helper()
	taker.Limit = 1
	items := f.leaseFor(q, taker)[0]
	if len(items) != 1 {
		f.Fatalf("Lease: got %d items, want 1", len(items))
	}
	return items[0]
}

func (f *fixture) leaseFor(q queue.Number, takers ...queue.Taker) [][]queue.Item {
	f.Helper()
	return f.leaseCalls(queue.LeaseCall{Queue: q, Takers: takers})[0].Takers
}

func (f *fixture) leaseCalls(calls ...queue.LeaseCall) []queue.LeaseResult {
	f.Helper()
	answer, err := f.store.Lease(f.Context(), calls)
	if err != nil {
		f.Fatalf("Lease: %v", err)
	}
	if len(answer.Calls) != len(calls) {
		f.Fatalf("Lease: answered %d calls, want %d", len(answer.Calls), len(calls))
	}
	for i := range calls {
		if got, want := len(answer.Calls[i].Takers), len(calls[i].Takers); got != want {
			f.Fatalf("Lease: call %d answered %d takers, want %d", i, got, want)
		}
		if answer.Calls[i].Corrupt != 0 {
			f.Fatalf("Lease: call %d met %d corrupt items", i, answer.Calls[i].Corrupt)
		}
	}
	return answer.Calls
}

// produceAndLease makes one item and leases it.
func (f *fixture) produceAndLease(q queue.Number, taker queue.Taker) queue.Item {
	f.Helper()
	f.fill(q, 1)
	return f.leaseOne(q, taker)
}

// settle settles one group and returns what became of its entries.
func (f *fixture) settle(entries ...queue.Settlement) []queue.Settled {
	f.Helper()
	return f.settleGroups(queue.SettleGroup{Entries: entries})[0]
}

func (f *fixture) settleGroups(groups ...queue.SettleGroup) [][]queue.Settled {
	f.Helper()
	answer, err := f.store.Settle(f.Context(), groups)
	if err != nil {
		f.Fatalf("Settle: %v", err)
	}
	if len(answer.Groups) != len(groups) {
		f.Fatalf("Settle: answered %d groups, want %d", len(answer.Groups), len(groups))
	}
	for i := range groups {
		if got, want := len(answer.Groups[i]), len(groups[i].Entries); got != want {
			f.Fatalf("Settle: group %d answered %d entries, want %d", i, got, want)
		}
	}
	return answer.Groups
}

// apply settles one group, every entry of which must be applied.
func (f *fixture) apply(entries ...queue.Settlement) []queue.Settled {
	f.Helper()
	settled := f.settle(entries...)
	for i := range settled {
		f.wantStatus(settled[i], queue.Applied)
	}
	return settled
}

func (f *fixture) wantStatus(got queue.Settled, want queue.SettleStatus) {
	f.Helper()
	if got.Status != want {
		f.Fatalf("Settle: got status %s, want %s", statusName(got.Status), statusName(want))
	}
}

func (f *fixture) extend(entries ...queue.Extension) []queue.Extended {
	f.Helper()
	answer, err := f.store.Extend(f.Context(), entries)
	if err != nil {
		f.Fatalf("Extend: %v", err)
	}
	if len(answer.Entries) != len(entries) {
		f.Fatalf("Extend: answered %d entries, want %d", len(answer.Entries), len(entries))
	}
	return answer.Entries
}

// settlement is the plain settlement of a leased item.
func settlement(it queue.Item, outcome queue.Outcome) queue.Settlement {
	return queue.Settlement{Key: it.Key, Token: it.Token, Outcome: outcome}
}

func complete(it queue.Item) queue.Settlement { return settlement(it, queue.Complete) }

func release(it queue.Item) queue.Settlement { return settlement(it, queue.Release) }

func retry(it queue.Item, delay time.Duration) queue.Settlement {
	s := settlement(it, queue.Retry)
	s.Delay = delay
	return s
}

func bury(it queue.Item, dead queue.Number) queue.Settlement {
	s := settlement(it, queue.Bury)
	s.DeadQueue = dead
	s.Reason = "rejected"
	return s
}

// get returns the item with a key, which must live.
func (f *fixture) get(key queue.Key) queue.Item {
	f.Helper()
	for _, it := range f.find(key.ID) {
		if it.Key == key {
			return it
		}
	}
	f.Fatalf("Find: no item in queue %d from %d", key.Queue.Own(), key.Home.Own())
	panic("unreachable")
}

func (f *fixture) find(id queue.ID) []queue.Item {
	f.Helper()
	found, err := f.store.Find(f.Context(), []queue.ID{id}, true)
	if err != nil {
		f.Fatalf("Find: %v", err)
	}
	return found
}

// list returns a queue's items in order, without content.
func (f *fixture) list(q queue.Number, states ...queue.State) []queue.Item {
	f.Helper()
	return f.listFrom(queue.ListRequest{Queue: q, States: states, Limit: 1000})
}

// listFrom walks a list to its end.
func (f *fixture) listFrom(req queue.ListRequest) []queue.Item {
	f.Helper()
	items, err := listAll(f.Context(), f.store, req)
	if err != nil {
		f.Fatal(err)
	}
	return items
}

func (f *fixture) stats(q queue.Number) queue.Stats {
	f.Helper()
	stats, err := f.store.Stats(f.Context(), []queue.Number{q})
	if err != nil {
		f.Fatalf("Stats: %v", err)
	}
	if len(stats) == 0 {
		return queue.Stats{}
	}
	if len(stats) > 1 || stats[0].Queue != q {
		f.Fatalf("Stats: got %+v, want one about queue %d", stats, q)
	}
	return stats[0]
}

func idsOf(items []queue.Item) []queue.ID {
	ids := make([]queue.ID, len(items))
	for i := range items {
		ids[i] = items[i].ID
	}
	return ids
}

// wantIDs compares items with the ids that they should have, in order.
func (f *fixture) wantIDs(what string, got []queue.Item, want ...queue.ID) {
	f.Helper()
	if !slices.Equal(idsOf(got), want) {
		f.Errorf("%s: got %v, want %v", what, idsOf(got), want)
	}
}

func (f *fixture) wantTime(what string, got, want time.Time) {
	f.Helper()
	if !got.Equal(want) {
		f.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func statusName(s queue.SettleStatus) string {
	switch s {
	case queue.Applied:
		return "applied"
	case queue.Stale:
		return "stale"
	case queue.Gone:
		return "gone"
	case queue.OverLimit:
		return "over limit"
	case queue.Undone:
		return "undone"
	case queue.Overtaken:
		return "overtaken"
	default:
		return "invalid"
	}
}
