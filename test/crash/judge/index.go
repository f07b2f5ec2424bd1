package judge

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/test/recorder"
)

// call is one operation: its invocation and how it ended.
type call struct {
	recorder.Event
	phase recorder.Phase
	// end is the event of the end; where the outcome is unknown, there may be none.
	end recorder.Event
}

// returned is when the operation was over for certain: never, while its outcome
// is unknown.
func (c *call) returned() int64 {
	if c.phase == recorder.Unknown {
		return math.MaxInt64
	}
	return c.end.Mono
}

// may says that the operation may have taken effect.
func (c *call) may() bool { return c.phase != recorder.Fail }

// step is what a call asked for, or was told, about one item.
type step struct {
	*call
	recorder.Item
}

// item is everything that is known of one item.
type item struct {
	id    string
	queue string
	// produced are the calls that answered this id.
	produced []step
	// leases were granted to consumers, by rising counter.
	leases []step
	// settled are completes, retries, releases and buries; extended what was extended,
	// with the answered deadline.
	settled  []step
	extended []step
	// posts reached the receiver, by arrival; Status is set where it was answered.
	posts []step
	// found are the queues in which the item lay after the drain.
	found   []string
	records []queue.Record
	// payloads and queues are those that the item was seen with and on: more than
	// one is a fault.
	payloads []string
	queues   []string
}

// index sorts a history by item.
type index struct {
	calls []*call
	items map[string]*item
	// attempts are the produce calls, by payload; ids are the items seen with it.
	attempts map[string][]step
	ids      map[string]map[string]bool
	// faults are when a process was killed, or an outage was over, rising.
	faults []int64
	home   map[string]string
}

func newIndex(h History) *index {
	x := &index{
		items:    map[string]*item{},
		attempts: map[string][]step{},
		ids:      map[string]map[string]bool{},
		home:     map[string]string{},
	}
	for name, policy := range h.Queues {
		x.home[policy.Dead] = name
	}
	x.join(h.Events)
	for _, c := range x.calls {
		x.add(c)
	}
	for _, record := range h.Journal {
		if it, ok := x.items[record.Key.ID.String()]; ok {
			it.records = append(it.records, record)
		}
	}
	for _, it := range x.items {
		slices.SortStableFunc(it.leases, func(a, b step) int { return cmp.Compare(a.Counter, b.Counter) })
		slices.SortStableFunc(it.records, func(a, b queue.Record) int { return a.At.Compare(b.At) })
	}
	return x
}

// join pairs invocations with ends. A call without an end is unknown.
func (x *index) join(events []recorder.Event) {
	open := map[uint64]*call{}
	for _, e := range events {
		switch {
		case e.Phase == recorder.Invoked:
			c := &call{Event: e, phase: recorder.Unknown}
			open[e.Op] = c
			x.calls = append(x.calls, c)
		case open[e.Op] != nil:
			open[e.Op].phase, open[e.Op].end = e.Phase, e
		default:
			x.calls = append(x.calls, &call{Event: e, phase: e.Phase, end: e})
		}
	}
	for _, c := range x.calls {
		if c.Verb == recorder.Kill || c.Verb == recorder.Outage {
			x.faults = append(x.faults, c.end.Mono)
		}
	}
	slices.Sort(x.faults)
}

// add files what a call says about each of its items.
func (x *index) add(c *call) {
	switch c.Verb {
	case recorder.Produce:
		for i, asked := range c.Items {
			x.attempts[asked.Payload] = append(x.attempts[asked.Payload], step{c, asked})
			if c.phase == recorder.OK && i < len(c.end.Items) {
				answered := c.end.Items[i]
				asked.ID, asked.Duplicate = answered.ID, answered.Duplicate
				it := x.see(asked.ID, c.Queue, asked.Payload)
				it.produced = append(it.produced, step{c, asked})
			}
		}
	case recorder.Lease:
		for _, got := range c.end.Items {
			it := x.see(got.ID, c.Queue, got.Payload)
			it.leases = append(it.leases, step{c, got})
		}
	case recorder.Post:
		for i, got := range c.Items {
			if i < len(c.end.Items) {
				got.Status = c.end.Items[i].Status
			}
			it := x.see(got.ID, c.Queue, got.Payload)
			it.posts = append(it.posts, step{c, got})
		}
	case recorder.Found:
		for _, got := range c.Items {
			it := x.see(got.ID, c.Queue, got.Payload)
			it.found = append(it.found, c.Queue)
		}
	case recorder.Extend:
		for i, asked := range c.Items {
			if i < len(c.end.Items) {
				asked.Deadline = c.end.Items[i].Deadline
			}
			it := x.see(asked.ID, c.Queue, "")
			it.extended = append(it.extended, step{c, asked})
		}
	case recorder.Complete, recorder.Retry, recorder.Release, recorder.Bury:
		for _, asked := range c.Items {
			it := x.see(asked.ID, c.Queue, "")
			it.settled = append(it.settled, step{c, asked})
		}
	}
}

// see returns the item, and keeps which payloads were seen under which ids.
func (x *index) see(id, queueName, payload string) *item {
	if home, ok := x.home[queueName]; ok {
		queueName = home
	}
	it := x.items[id]
	if it == nil {
		it = &item{id: id, queue: queueName}
		x.items[id] = it
	}
	if !slices.Contains(it.queues, queueName) {
		it.queues = append(it.queues, queueName)
	}
	if payload != "" {
		if x.ids[payload] == nil {
			x.ids[payload] = map[string]bool{}
		}
		x.ids[payload][id] = true
		if !slices.Contains(it.payloads, payload) {
			it.payloads = append(it.payloads, payload)
		}
	}
	return it
}

// idsOf lists the items that were seen with a payload.
func (x *index) idsOf(payload string) string {
	var ids []string
	for id := range x.ids[payload] {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return strings.Join(ids, ", ")
}
