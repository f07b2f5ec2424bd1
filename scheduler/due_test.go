package scheduler

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func TestC16_DueTimesAreBoundedAndKeepTheEarliest(t *testing.T) {
	t.Parallel()
	d := newDueTimes()
	start := time.Now().Truncate(grain)
	for _, i := range rand.Perm(100_000) {
		d.add(queue.Number(i%3), start.Add(time.Duration(i)*time.Second))
	}
	for q, entry := range d.byQueue {
		if len(entry.times) != perQueue || cap(entry.times) > 2*perQueue {
			t.Errorf("queue %d: %d times, room for %d", q, len(entry.times), cap(entry.times))
		}
	}
	var got []queue.Number
	for i := range 3 * perQueue {
		got = append(got, d.take(start.Add(time.Duration(i)*time.Second))...)
	}
	for i, q := range got {
		if q != queue.Number(i%3) {
			t.Fatalf("taken %d is queue %d", i, q)
		}
	}
	if _, some := d.next(); len(got) != 3*perQueue || some {
		t.Errorf("%d taken, more: %v", len(got), some)
	}
}

func TestDueTimes_TakeNamesAQueueOnce(t *testing.T) {
	t.Parallel()
	d := newDueTimes()
	start := time.Now().Truncate(grain)
	for i := range 10 {
		d.add(1, start.Add(time.Duration(i)*grain))
		d.add(1, start.Add(time.Duration(i)*grain-time.Microsecond)) // rounds up to the same
		d.add(2, start.Add(time.Duration(i)*grain))
	}
	got := d.take(start.Add(4 * grain))
	slices.Sort(got)
	if !slices.Equal(got, []queue.Number{1, 2}) {
		t.Errorf("taken %v", got)
	}
	if n := len(d.byQueue[1].times); n != 5 {
		t.Errorf("%d times left, want 5", n)
	}
}
