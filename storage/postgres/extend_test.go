package postgres

import (
	"reflect"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func TestExtend_CountsAndAnswersFromItsMarker(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	items := w.leased(queue.NewNumber(1, 1), 3)
	w.advance(time.Second)
	now := w.clock()
	extension := func(it queue.Item, ttl time.Duration) queue.Extension {
		return queue.Extension{Key: it.Key, Token: it.Token, TTL: ttl}
	}
	stale, gone := extension(items[1], time.Hour), extension(items[1], time.Hour)
	stale.Token.Random--
	gone.Key.Home++
	handover := extension(items[2], time.Hour)
	handover.Handover = &queue.Handover{Record: &queue.Record{Type: queue.AttemptRecord, Verdict: "deferred"}}
	entries := []queue.Extension{
		extension(items[0], time.Hour), stale, gone, handover,
		// One who asks again; the deadline never comes nearer.
		extension(items[0], 2*time.Hour), extension(items[0], time.Minute), stale,
	}
	answer, err := w.store.Extend(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	in := func(d time.Duration) queue.Extended {
		return queue.Extended{Status: queue.Applied, Deadline: now.Add(d)}
	}
	want := queue.ExtendAnswer{Now: now, Entries: []queue.Extended{
		in(time.Hour),
		{Status: queue.Stale},
		{Status: queue.Gone},
		in(time.Hour),
		in(2 * time.Hour), in(2 * time.Hour),
		{Status: queue.Stale},
	}}
	if !reflect.DeepEqual(answer, want) {
		t.Errorf("got  %+v\nwant %+v", answer, want)
	}
	var stored []byte
	if err := w.pool().QueryRow(t.Context(), w.store.text(`select answer from {s}.batches`)).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if again, err := w.store.extended(entries, stored); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("replay: got %+v, %v\nwant %+v", again, err, want)
	}
	if _, err := w.store.extended(entries[:3], stored); err == nil {
		t.Error("a marker of a longer batch was taken")
	}
	if got := w.count(`select count(*) from {s}.items where owner = '' and id = $1`, [16]byte(items[2].ID)); got != 1 {
		t.Error("the lease was not handed over to an owner without a name")
	}
	if got := w.count(`select count(*) from {s}.attempts where next = ` + stepHold + ` and next_at is not null`); got != 1 {
		t.Errorf("got %d records, want the deferral", got)
	}
	w.wantCounted()
}
