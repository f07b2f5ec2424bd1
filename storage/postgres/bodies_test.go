package postgres

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

var topic = queue.NewNumber(1, 99)

// payloadOf is what the item with an id has in these tests, and large enough to be shared.
func payloadOf(id queue.ID) []byte { return bytes.Repeat(id[:], 64) }

// toTopic is an item that goes to several queues.
func toTopic(id queue.ID, queues ...queue.Number) queue.NewItem {
	it := queue.NewItem{ID: id, Topic: topic, Content: queue.Content{Payload: payloadOf(id), Encoding: "test"}}
	for _, q := range queues {
		it.Copies = append(it.Copies, queue.Copy{Queue: q})
	}
	return it
}

func queues(n int) (all []queue.Number) {
	for i := range n {
		all = append(all, queue.NewNumber(1, uint32(i+1)))
	}
	return all
}

// wantBodies counts payloads that are shared, and items that refer to one.
func (w *world) wantBodies(what string, bodies, sharing int) {
	w.Helper()
	if n := w.count(`select count(*) from {s}.bodies`); n != bodies {
		w.Errorf("%s: %d payloads are stored, want %d", what, n, bodies)
	}
	if n := w.count(`select count(*) from {s}.items where body_ref is not null and body is null`); n != sharing {
		w.Errorf("%s: %d items share one, want %d", what, n, sharing)
	}
	w.wantNoneMissing()
}

func (w *world) wantNoneMissing() {
	w.Helper()
	if n := w.count(`select count(*) from {s}.items i where i.body is null and not exists (select from {s}.bodies b where b.ref = i.body_ref)`); n != 0 {
		w.Errorf("%d items have no payload", n)
	}
}

func wantPayload(t *testing.T, what string, items []queue.Item, n int) {
	t.Helper()
	if len(items) != n {
		t.Errorf("%s: got %d items, want %d", what, len(items), n)
	}
	for _, it := range items {
		if !bytes.Equal(it.Payload, payloadOf(it.ID)) || it.Encoding != "test" {
			t.Errorf("%s: got another payload, of %d bytes", what, len(it.Payload))
		}
	}
}

// writers are the ways on which copies come.
var writers = map[string]func(w *world, it queue.NewItem){
	"produce": func(w *world, it queue.NewItem) { w.produce(group(it)) },
	"produce by key": func(w *world, it queue.NewItem) {
		it.Dedupe = &queue.Dedupe{Scope: topic, Key: it.ID.String(), TTL: time.Hour}
		w.produce(group(it))
		it.ID = queue.NewID() // the key is known: nothing comes
		w.produce(group(it))
	},
	"settle": func(w *world, it queue.NewItem) {
		from := w.leased(queue.NewNumber(1, 50), 1)[0]
		s := settlementOf(from, queue.Complete, 0)
		s.Produce = []queue.NewItem{it}
		w.settle(queue.SettleGroup{Entries: []queue.Settlement{s}})
	},
	"put": func(w *world, it queue.NewItem) {
		doc := storage.Document{DocumentKey: storage.DocumentKey{Kind: "schedule", Namespace: 1, Name: it.ID.String()}}
		if _, err := w.store.Put(w.Context(), doc, it); err != nil {
			w.Fatal(err)
		}
		// It is there already, and so writes nothing.
		it.ID = queue.NewID()
		if _, err := w.store.Put(w.Context(), doc, it); !errors.Is(err, queue.ErrExists) {
			w.Fatal(err)
		}
	},
}

func TestBodies_CopiesOfAnItemShareOnePayload(t *testing.T) {
	t.Parallel()
	for name, write := range writers {
		for _, key := range []string{"", "key"} {
			t.Run(name+", ordering key "+strconv.Quote(key), func(t *testing.T) {
				t.Parallel()
				w := setupWorld(t, true)
				all := queues(5)
				it := toTopic(queue.NewID(), all...)
				it.OrderingKey = key
				write(w, it)
				w.wantBodies("after it came", 1, 5)

				found, err := w.store.Find(t.Context(), []queue.ID{it.ID}, true)
				if err != nil {
					t.Fatal(err)
				}
				wantPayload(t, "find", found, 5)
				for _, q := range all {
					wantPayload(t, "list", w.list(queue.ListRequest{Queue: q, Content: true, Limit: 10}), 1)
					if items := w.list(queue.ListRequest{Queue: q, Limit: 10}); len(items) != 1 || items[0].Payload != nil {
						t.Errorf("list without content: got %+v", items)
					}
					wantPayload(t, "lease", w.lease(call(q, taker(10)))[0].Takers[0], 1)
				}
			})
		}
	}
}

func TestBodies_SmallOnesAndThoseOfOneCopyAreNotShared(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	all := queues(3)
	small, one, empty := toTopic(queue.NewID(), all...), toTopic(queue.NewID(), all[0]), toTopic(queue.NewID(), all...)
	small.Payload, empty.Payload = small.Payload[:sharedFrom-1], nil
	plain := fresh(all[0], "", strings.Repeat("x", 5000))
	w.produce(group(small, one, empty, plain))
	w.wantBodies("none are shared", 0, 0)
	// The second time in the call only one place of it is new.
	twice := toTopic(queue.NewID(), all[:2]...)
	w.produce(group(twice), group(toTopic(twice.ID, all...)))
	w.wantBodies("shared by two of three", 1, 2)
	found, err := w.store.Find(t.Context(), []queue.ID{twice.ID}, true)
	if err != nil {
		t.Fatal(err)
	}
	wantPayload(t, "find", found, 3)
}

// A claim in two steps reads the same, and so does one whose answer got lost.
func TestBodies_AreReadInEveryFormOfALease(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	all := queues(2)
	var items []queue.NewItem
	for range 6 {
		items = append(items, toTopic(queue.NewID(), all...))
	}
	w.produce(group(items...))
	w.exec(`delete from {s}.batches`)
	again := call(all[1], taker(10))
	w.lease(again)
	wantPayload(t, "from the marker", w.replay(again)[0].Takers[0], 6)
	budget := taker(3)
	budget.MaxBytes = 1500 // one and not two of them
	leased := w.lease(call(all[0], budget, budget))[0]
	wantPayload(t, "in two steps", slices.Concat(leased.Takers...), 2)
}

// look lets the time of all payloads come, and tidies.
func (w *world) look() {
	w.Helper()
	w.advance(2 * time.Hour)
	w.tidy(24 * time.Hour)
}

func TestBodies_StayUntilTheLastCopyHasEnded(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	all, dead := queues(4), queue.NewNumber(1, 9)
	it := toTopic(queue.NewID(), all...)
	w.produce(group(it), group(toTopic(queue.NewID(), all[3:]...)))
	w.look()
	w.wantBodies("all wait", 1, 4)

	leased := w.lease(call(all[0], taker(1)), call(all[1], taker(1)))
	complete := settlementOf(leased[0].Takers[0][0], queue.Complete, 0)
	bury := settlementOf(leased[1].Takers[0][0], queue.Bury, dead)
	w.settle(queue.SettleGroup{Entries: []queue.Settlement{complete, bury}})
	w.look()
	w.wantBodies("one is complete, one buried", 1, 3)

	purge := func(q queue.Number) {
		if _, err := w.store.Purge(t.Context(), queue.PurgeRequest{Queue: q, Limit: 10}); err != nil {
			t.Fatal(err)
		}
	}
	purge(all[2])
	purge(all[3])
	w.look()
	w.wantBodies("the buried one is left", 1, 1)

	// It goes back, and then to the topic once more, under its id.
	if _, err := w.store.Move(t.Context(), []queue.Move{{Key: queue.Key{ID: it.ID, Queue: dead, Home: all[1]}, Target: all[0]}}); err != nil {
		t.Fatal(err)
	}
	w.look()
	moved := w.lease(call(all[0], taker(1)))[0].Takers[0]
	wantPayload(t, "moved back", moved, 1)
	redrive := settlementOf(moved[0], queue.Complete, 0)
	redrive.Produce = []queue.NewItem{toTopic(it.ID, all[1:3]...)}
	w.settle(queue.SettleGroup{Entries: []queue.Settlement{redrive}})
	w.wantBodies("redriven to the topic", 2, 2)
	w.look()
	w.wantBodies("what the first ones shared is gone", 1, 2)

	purge(all[1])
	purge(all[2])
	w.look()
	w.wantBodies("all have ended", 0, 0)
}

func TestBodies_CopiesThatLiveAlreadyLeaveNone(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	all := queues(5)
	id := queue.NewID()
	w.produce(group(toTopic(id, all[:3]...)))
	w.produce(group(toTopic(id, all[:3]...)))
	w.wantBodies("the same again", 1, 3)
	w.produce(group(toTopic(id, all...)))
	w.wantBodies("two more", 2, 5)
}

// What was looked for in vain is looked for again when it is twice as old.
func TestBodies_AreLookedAtLessAndLess(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	w.produce(group(toTopic(queue.NewID(), queues(2)...)))
	looks := 0
	var last time.Time
	for range 24 * 60 {
		w.advance(time.Minute)
		w.tidy(24 * time.Hour)
		var at time.Time
		if err := w.pool().QueryRow(t.Context(), w.store.text(`select look_at from {s}.bodies`)).Scan(&at); err != nil {
			t.Fatal(err)
		}
		if !at.Equal(last) {
			looks, last = looks+1, at
		}
		if ahead := at.Sub(w.clock()); ahead <= 0 || ahead > time.Hour {
			t.Fatalf("the next look is %v ahead", ahead)
		}
	}
	if looks > 6+24 {
		t.Errorf("%d looks in a day, want 30 at most", looks)
	}
}

func TestBodies_OneThatIsGoneIsDamageOfItsItems(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	all := queues(2)
	bad, good := toTopic(queue.NewID(), all...), toTopic(queue.NewID(), all...)
	w.produce(group(bad, good))
	w.exec(`delete from {s}.bodies where item = $1`, [16]byte(bad.ID))
	_, err := w.store.Find(t.Context(), []queue.ID{bad.ID}, true)
	if !errors.Is(err, errDamaged) || errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("find: got %v, want what is damaged", err)
	}
	if items, err := w.store.Find(t.Context(), []queue.ID{bad.ID}, false); err != nil || len(items) != 2 {
		t.Errorf("find without content: got %d items, %v, want 2", len(items), err)
	}
	if _, err := w.store.ListItems(t.Context(), queue.ListRequest{Queue: all[0], Content: true, Limit: 10}); !errors.Is(err, errDamaged) {
		t.Errorf("list: got %v, want what is damaged", err)
	}
	got := w.lease(call(all[0], taker(5)))[0]
	if got.Corrupt != 1 {
		t.Errorf("got %d corrupt, want 1", got.Corrupt)
	}
	wantPayload(t, "lease", got.Takers[0], 1)
	if n := w.count(`select count(*) from {s}.items where queue = $1 and held`, int64(all[0])); n != 2 {
		t.Errorf("held: got %d, want both", n)
	}
}

// Nodes of the version before read attributes of format 1, and take all others for damage.
func TestBodies_AreNotTakenForEmptyByNodesThatDoNotKnowThem(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	w.produce(group(toTopic(queue.NewID(), queues(2)...), toTopic(queue.NewID(), queues(1)...)))
	if n := w.count(`select count(*) from {s}.items where (body is null) <> (get_byte(attributes, 0) <> 1)`); n != 0 {
		t.Errorf("%d items would be read without their payloads", n)
	}
}
