package scheduler

import (
	"container/heap"
	"slices"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

const (
	// perQueue bounds how many due times of a queue are remembered. Of more, the
	// earliest are kept; the store tells of the rest in time.
	perQueue = 64
	// grain is how precisely they are remembered: a burst of items that are due
	// within it costs one wake.
	grain = time.Millisecond
)

// dueTimes orders queues by their earliest known due time. Not for concurrent use.
type dueTimes struct {
	byQueue map[queue.Number]*dueQueue
	heap    dueHeap
}

// dueQueue is one queue's times, ascending, each once, never empty.
type dueQueue struct {
	queue queue.Number
	times []time.Time
	index int
}

func newDueTimes() *dueTimes {
	return &dueTimes{byQueue: map[queue.Number]*dueQueue{}}
}

// add remembers that something is due on a queue at that time.
func (d *dueTimes) add(q queue.Number, at time.Time) {
	// Rounded up: early, a wake would find nothing.
	if rounded := at.Truncate(grain); rounded.Before(at) {
		at = rounded.Add(grain)
	}
	entry := d.byQueue[q]
	if entry == nil {
		entry = &dueQueue{queue: q, times: []time.Time{at}}
		d.byQueue[q] = entry
		heap.Push(&d.heap, entry)
		return
	}
	i, known := slices.BinarySearchFunc(entry.times, at, time.Time.Compare)
	if known || i == perQueue {
		return
	}
	if len(entry.times) == perQueue {
		entry.times = entry.times[:perQueue-1]
	}
	entry.times = slices.Insert(entry.times, i, at)
	if i == 0 {
		heap.Fix(&d.heap, entry.index)
	}
}

// next returns the earliest time of all, and false if there is none.
func (d *dueTimes) next() (time.Time, bool) {
	if len(d.heap) == 0 {
		return time.Time{}, false
	}
	return d.heap[0].times[0], true
}

// take removes all times that are not after now, and returns their queues, each once.
func (d *dueTimes) take(now time.Time) []queue.Number {
	var due []queue.Number
	for len(d.heap) > 0 && !d.heap[0].times[0].After(now) {
		entry := d.heap[0]
		due = append(due, entry.queue)
		past := 0
		for past < len(entry.times) && !entry.times[past].After(now) {
			past++
		}
		if past == len(entry.times) {
			heap.Pop(&d.heap)
			delete(d.byQueue, entry.queue)
			continue
		}
		entry.times = slices.Delete(entry.times, 0, past)
		heap.Fix(&d.heap, 0)
	}
	return due
}

// dueHeap implements [heap.Interface].
type dueHeap []*dueQueue

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].times[0].Before(h[j].times[0]) }

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *dueHeap) Push(x any) {
	entry := x.(*dueQueue)
	entry.index = len(*h)
	*h = append(*h, entry)
}

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	entry := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return entry
}
