package resident

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func TestRing_KeepsOrderOverGapsAndGrowth(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var r ring
	r.head, r.end = 1<<32-40, 1<<32-40 // places count over the end of 32 bits
	var want []slot
	place := map[slot]uint32{}
	next := slot(1)
	for range 20_000 {
		if rng.IntN(100) < 55 || len(want) == 0 {
			place[next] = r.push(next, position{int64(next), 0})
			want = append(want, next)
			next++
		} else {
			i := 0
			if rng.IntN(2) == 0 {
				i = rng.IntN(len(want))
			}
			r.remove(place[want[i]])
			r.compact(func(sl slot, p uint32) { place[sl] = p })
			want = slices.Delete(want, i, i+1)
		}
		first := slot(0)
		if len(want) > 0 {
			first = want[0]
		}
		if got := r.first(); got != first {
			t.Fatalf("first: got %d, want %d", got, first)
		}
	}
	from := want[len(want)/3]
	var got []slot
	r.from(position{int64(from), 0}, func(sl slot) position { return position{int64(sl), 0} }, func(sl slot) bool {
		got = append(got, sl)
		return true
	})
	if !slices.Equal(got, want[len(want)/3:]) {
		t.Errorf("from %d: got %d slots, want %d in order", from, len(got), len(want)-len(want)/3)
	}
}

func TestIndex_FindsWhatIsThere(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	s, _ := setup(t, Options{Volatile: true})
	p := s.ensure(testQueue, 0)
	there := map[queue.Key]slot{}
	var keys []queue.Key
	for range 50_000 {
		if rng.IntN(100) < 60 || len(keys) == 0 {
			// Few ids and several homes, so that many share a probe run.
			key := queue.Key{ID: queue.ID{15: byte(rng.IntN(200)), 14: byte(rng.IntN(8))}, Queue: testQueue, Home: queue.Number(rng.IntN(5))}
			if there[key] != 0 {
				continue
			}
			there[key] = s.occupy(entry{id: key.ID, part: p.index, origin: s.origins.index(origin{home: key.Home})})
			keys = append(keys, key)
			continue
		}
		i := rng.IntN(len(keys))
		s.free(there[keys[i]])
		delete(there, keys[i])
		keys = slices.Delete(keys, i, i+1)
	}
	for _, key := range keys {
		if got := s.find(key); got != there[key] {
			t.Fatalf("find %v: got slot %d, want %d", key, got, there[key])
		}
	}
	if got := s.find(queue.Key{ID: queue.ID{1}, Queue: testQueue}); got != 0 {
		t.Errorf("found an item that never was: slot %d", got)
	}
}

func TestCodec_DamageIsFound(t *testing.T) {
	t.Parallel()
	s, _ := setup(t, Options{Volatile: true})
	p := s.ensure(testQueue, 0)
	at := origin{home: testQueue, topic: testQueue + 1}
	sl := s.occupy(entry{id: queue.NewID(), at: 7, seq: 8, created: 9, part: p.index, origin: s.origins.index(at), size: 10, nth: 5})
	e := s.entries.get(sl)
	untouched := s.encodeState(e)
	st, err := decodeState(untouched)
	if want := (contentName{at.topic, 3}); err != nil || st.name() != want || s.name(e) != want {
		t.Errorf("content: got %+v and %+v, %v, want %+v", s.name(e), st.name(), err, want)
	}
	x := s.touch(e)
	if x.body != 3 {
		t.Errorf("body: got %d, want 3, the number of the first copy", x.body)
	}
	*x = ext{
		token: queue.Token{Counter: 1, Random: 2}, due: 3, updated: 4, expires: 5, body: 6, owner: "owner", orderingKey: "key",
		last: queue.Last{Status: 500, Error: "error"}, generation: 1, deliveries: 2, attempts: 3, recoveries: 4, maxAttempts: -1,
		dead: &queue.Dead{From: testQueue, Reason: "poison", At: instant(11), Status: 12, Attempts: 13, Recoveries: 14},
	}
	value := s.encodeState(e)
	st, err = decodeState(value)
	if err != nil {
		t.Fatal(err)
	}
	if want := (contentName{at.topic, 6}); st.name() != want || s.name(e) != want {
		t.Errorf("content: got %+v and %+v, want %+v", s.name(e), st.name(), want)
	}
	if got := *st.ext.dead; got != *x.dead {
		t.Errorf("dead: got %+v, want %+v", got, *x.dead)
	}
	st.ext.dead, x.dead = nil, nil
	if st.ext != *x {
		t.Errorf("got %+v, want %+v", st.ext, *x)
	}
	for _, value := range [][]byte{value, untouched} {
		for n := range value {
			if _, err := decodeState(value[:n]); err == nil {
				t.Fatalf("a state that was cut after %d of %d bytes was taken", n, len(value))
			}
		}
	}

	content := queue.Content{
		Kind: "k", Encoding: "e", Headers: map[string]string{"a": "b"}, Hop: 2,
		Target: &queue.Target{URL: "u", Method: "m", Timeout: time.Second}, Payload: []byte("payload"),
	}
	stored := encodeContent(&content)
	for i := range stored {
		damaged := slices.Clone(stored)
		damaged[i] ^= 1 << (i % 8)
		if _, err := decodeContent(damaged); err == nil {
			t.Fatalf("a content with a flipped bit in byte %d was taken", i)
		}
	}

	record := queue.Record{Type: queue.AttemptRecord, At: instant(1), Response: []byte("r"), StartedAt: instant(2), Verdict: "v"}
	line := s.encodeRecord(&record)
	for n := range line {
		if _, err := decodeRecord(line[:n]); err == nil {
			t.Fatalf("a record that was cut after %d of %d bytes was taken", n, len(line))
		}
	}
}

func TestCursor_ForeignOnesAreRefused(t *testing.T) {
	t.Parallel()
	s, _ := setup(t, Options{Volatile: true})
	sweep := sweepPlace{stage: sweepLapsed}.cursor()
	list := listCursor(position{1, 2})
	for _, text := range []string{"x", "!!", "AQ", sweep, list[:len(list)-2], list + "AA"} {
		_, err := s.ListItems(t.Context(), queue.ListRequest{Queue: testQueue, Cursor: text, Limit: 1})
		if invalid, ok := err.(*queue.InvalidError); !ok || invalid.Field != "cursor" {
			t.Errorf("list with cursor %q: got %v, want an error about the cursor", text, err)
		}
	}
	if _, err := s.Sweep(t.Context(), queue.SweepRequest{Cursor: list, Limit: 1}); err == nil {
		t.Error("a sweep took the cursor of a list")
	}
}
