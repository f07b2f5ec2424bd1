package resident

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tidwall/btree"

	"github.com/posthaste-io/posthaste/queue"
)

// No commit leaves an item without its content, changes a content, or leaves one behind
// that neither an item nor a mark knows of, whatever comes after what.
func TestShared_RandomLives(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := &randomLives{T: t, rng: rand.New(rand.NewPCG(seed, 1)), queues: someQueues(5), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
			r.s, r.disk = setup(t, Options{Window: []int{0, 1, 8}[seed%3], Now: func() time.Time { return r.now }})
			seen := map[string]string{}
			r.disk.late = true
			r.disk.after = func(keys *btree.Map[string, []byte]) { checkShared(t, keys, seen) }
			for range 300 {
				r.step()
			}
			r.disk.after = nil
			tidyAll(t, r.s)
			marks, shared := keysOf(&r.disk.keys, spaceSuspect), keysOf(&r.disk.keys, spaceShared)
			used := referred(t, &r.disk.keys)
			if len(marks) > 0 || slices.ContainsFunc(shared, func(key string) bool { return !used[key] }) {
				t.Errorf("left behind: %d marks; %d contents, of which %d are used", len(marks), len(shared), len(used))
			}
		})
	}
}

// referred are the keys of the contents of all items on a disk.
func referred(t *testing.T, keys *btree.Map[string, []byte]) map[string]bool {
	used := map[string]bool{}
	for _, space := range []byte{spaceState, spaceCold} {
		for _, key := range keysOf(keys, space) {
			value, _ := keys.Get(key)
			st, err := decodeState(value)
			k, ok := parseItemKey([]byte(key))
			if space == spaceCold {
				var place coldPlace
				place, ok = parseColdTail([]byte(key[1:]))
				k = place.key
			}
			if err != nil || !ok {
				t.Fatalf("key %x: %v", key, err)
			}
			used[string(appendContentKey(nil, k, st.name()))] = true
		}
	}
	return used
}

func checkShared(t *testing.T, keys *btree.Map[string, []byte], seen map[string]string) {
	used := referred(t, keys)
	for key := range used {
		if _, there := keys.Get(key); !there {
			t.Fatalf("content %x is gone, and an item has it", key)
		}
	}
	now := map[string]string{}
	for _, key := range keysOf(keys, spaceShared) {
		value, _ := keys.Get(key)
		now[key] = string(value)
		if before, there := seen[key]; there && before != now[key] {
			t.Fatalf("content %x was changed", key)
		}
		if _, marked := keys.Get(string(spaceSuspect) + key[1:]); !marked && !used[key] {
			t.Fatalf("content %x is left behind", key)
		}
	}
	maps.Copy(seen, now)
}

// randomLives does what may happen to copies, in any order.
type randomLives struct {
	*testing.T
	rng    *rand.Rand
	queues []queue.Number
	now    time.Time
	s      *Store
	disk   *fakeDisk
	made   []queue.NewItem
}

func (r *randomLives) some() []queue.Number {
	all := slices.Clone(r.queues)
	r.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+r.rng.IntN(len(all))]
}

func (r *randomLives) pick() queue.Number { return r.queues[r.rng.IntN(len(r.queues))] }

func (r *randomLives) step() {
	if n := len(r.disk.pending); r.rng.IntN(3) == 0 {
		r.disk.sync(r.rng.IntN(n + 1))
	}
	switch p := r.rng.IntN(100); {
	case p < 20:
		item := fanned(fmt.Sprint(len(r.made)), r.some()...)
		item.Delay = []time.Duration{0, 0, time.Second, time.Hour}[r.rng.IntN(4)]
		if r.rng.IntN(3) == 0 {
			item.OrderingKey = "key"
		}
		if len(r.made) > 0 && r.rng.IntN(3) == 0 {
			item.ID = r.made[r.rng.IntN(len(r.made))].ID
		}
		r.made = append(r.made, item)
		produce(r, r.s, item)
	case p < 70:
		var entries []queue.Settlement
		for _, it := range leaseOf(r, r.s, r.pick(), 1+r.rng.IntN(4)) {
			entry := queue.Settlement{
				Key: it.Key, Token: it.Token, DeadQueue: testDead, Delay: time.Duration(r.rng.IntN(3)) * time.Second,
				Outcome: []queue.Outcome{queue.Complete, queue.Complete, queue.Retry, queue.Release, queue.Bury}[r.rng.IntN(5)],
			}
			if entry.Outcome == queue.Complete && r.rng.IntN(3) == 0 {
				again := fanned(string(it.Payload), r.some()...)
				if r.rng.IntN(2) == 0 {
					again.ID = it.ID
				}
				entry.Produce = []queue.NewItem{again}
			}
			entries = append(entries, entry)
		}
		if len(entries) > 0 {
			settle(r, r.s, entries...)
		}
	case p < 80:
		page, err := r.s.ListItems(r.Context(), queue.ListRequest{Queue: testDead, Limit: 3, Content: true})
		if err != nil {
			r.Fatal(err)
		}
		var moves []queue.Move
		for _, it := range page.Items {
			if len(it.Payload) == 0 {
				r.Fatalf("item %v is shown without its content", it.Key)
			}
			moves = append(moves, queue.Move{Key: it.Key, Target: []queue.Number{it.Home, r.pick()}[r.rng.IntN(2)]})
		}
		if _, err := r.s.Move(r.Context(), moves); err != nil {
			r.Fatal(err)
		}
	case p < 86:
		if _, err := r.s.Purge(r.Context(), queue.PurgeRequest{Queue: append(r.queues, testDead)[r.rng.IntN(6)], Limit: 1 + r.rng.IntN(3)}); err != nil {
			r.Fatal(err)
		}
	case p < 92:
		if _, err := r.s.Tidy(r.Context(), time.Hour); err != nil {
			r.Fatal(err)
		}
	case p < 96:
		r.disk.sync(len(r.disk.pending))
		r.s = reopened(r, r.s, r.disk, nil)
	default:
		r.now = r.now.Add(time.Duration(r.rng.IntN(90)) * time.Second)
	}
}
