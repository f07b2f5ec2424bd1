package judge_test

import (
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/test/crash/judge"
	"github.com/posthaste-io/posthaste/test/recorder"
)

// script writes a history by hand. Times are milliseconds since its start; the
// store's clock, the wall and the recorder agree.
type script struct {
	judge.History
	ids map[string]string
	// begun and ended find the events of an operation, and entry a journal record, by
	// the name that the script gave it.
	begun, ended map[string]int
	entry        map[string]int
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newScript() *script {
	s := &script{
		ids:   map[string]string{},
		begun: map[string]int{}, ended: map[string]int{}, entry: map[string]int{},
	}
	s.Queues = map[string]judge.Policy{
		"pull": {Dead: "pull~dead", MaxAttempts: 3, MaxRecoveries: 3},
		"push": {Push: true, Dead: "push~dead", MaxAttempts: 2, MaxRecoveries: 3, LaneTTL: 30 * time.Second},
	}
	return s
}

// id returns the id of an item of the script.
func (s *script) id(item string) string {
	if s.ids[item] == "" {
		s.ids[item] = queue.NewID().String()
	}
	return s.ids[item]
}

func wall(ms int64) int64 { return start.UnixMicro() + ms*1000 }

// op appends an operation from one time to another. Events need not be in order
// of time for the judge, only the two of one operation.
func (s *script) op(name string, verb recorder.Verb, queueName string, from, to int64, phase recorder.Phase, asked, told []recorder.Item) {
	op := uint64(len(s.Events) + 1)
	add := func(at int64, phase recorder.Phase, items []recorder.Item) int {
		s.Events = append(s.Events, recorder.Event{
			Op: op, Verb: verb, Phase: phase, Queue: queueName, Mono: at * 1e6, Wall: wall(at), Items: items,
		})
		return len(s.Events) - 1
	}
	s.begun[name] = add(from, recorder.Invoked, asked)
	s.ended[name] = add(to, phase, told)
}

// produce makes one call for all the named items.
func (s *script) produce(name, queueName string, at int64, phase recorder.Phase, edit recorder.Item, items ...string) {
	var asked, told []recorder.Item
	for _, item := range items {
		one := edit
		one.Payload = "payload of " + item
		asked = append(asked, one)
		told = append(told, recorder.Item{ID: s.id(item), Duplicate: edit.Duplicate})
	}
	if phase != recorder.OK {
		told = nil
	}
	s.op(name, recorder.Produce, queueName, at, at+1, phase, asked, told)
}

// lease grants an item for a second.
func (s *script) lease(name, item string, at int64, counter uint64, delivery int32) {
	s.op(name, recorder.Lease, "pull", at, at+1, recorder.OK, nil, []recorder.Item{{
		ID: s.id(item), Payload: "payload of " + item, Counter: counter, Delivery: delivery,
		Granted: wall(at), Deadline: wall(at + 1000),
	}})
}

// settle ends a lease.
func (s *script) settle(name, item string, verb recorder.Verb, at int64, counter uint64, phase recorder.Phase, delayMS int64) {
	asked := []recorder.Item{{ID: s.id(item), Counter: counter, Delay: delayMS * 1e6}}
	s.op(name, verb, "pull", at, at+1, phase, asked, nil)
}

// post reaches the receiver; status 0 is a request that was cut.
func (s *script) post(name, item string, at int64, delivery, status int32) {
	phase := recorder.OK
	if status == 0 {
		phase = recorder.Unknown
	}
	asked := []recorder.Item{{ID: s.id(item), Payload: "payload of " + item, Delivery: delivery}}
	s.op(name, recorder.Post, "push", at, at+5, phase, asked, []recorder.Item{{Status: status}})
}

// record appends to the journal.
func (s *script) record(name, item string, at int64, kind queue.RecordType, delivery, status int32, next queue.Step) {
	id, err := queue.ParseID(s.id(item))
	if err != nil {
		panic(err)
	}
	s.Journal = append(s.Journal, queue.Record{
		Type: kind, At: time.UnixMicro(wall(at)), Key: queue.Key{ID: id}, Delivery: delivery, Status: status, Next: next,
	})
	s.entry[name] = len(s.Journal) - 1
}

// found says where an item lay after the drain.
func (s *script) found(name, item, where string) {
	s.op(name, recorder.Found, where, 90_000, 90_000, recorder.OK,
		[]recorder.Item{{ID: s.id(item), Payload: "payload of " + item}}, nil)
}

// without drops an operation.
func (s *script) without(name string) {
	op := s.Events[s.begun[name]].Op
	for i := range s.Events {
		if s.Events[i].Op == op {
			s.Events[i] = recorder.Event{Verb: recorder.Start, Phase: recorder.OK}
		}
	}
}

// forget drops a record.
func (s *script) forget(name string) {
	s.Journal[s.entry[name]].Key = queue.Key{}
}

// asked is the first item of an operation's invocation, told that of its end.
func (s *script) asked(name string) *recorder.Item { return &s.Events[s.begun[name]].Items[0] }
func (s *script) told(name string) *recorder.Item  { return &s.Events[s.ended[name]].Items[0] }

// faultless is a run of a correct server: two kills, every verb, every phase.
func faultless() *script {
	s := newScript()
	none := recorder.Item{}
	kill := func(name string, at int64) { s.op(name, recorder.Kill, "", at, at, recorder.OK, nil, nil) }
	kill("kill 1", 500)

	s.produce("a", "pull", 0, recorder.OK, none, "a")
	s.lease("a1", "a", 10, 1, 1)
	s.settle("a retry", "a", recorder.Retry, 20, 1, recorder.OK, 200)
	s.settle("a stale", "a", recorder.Complete, 30, 1, recorder.Fail, 0)
	s.lease("a2", "a", 300, 3, 2)
	s.op("a extend", recorder.Extend, "pull", 400, 401, recorder.OK,
		[]recorder.Item{{ID: s.id("a"), Counter: 3}}, []recorder.Item{{Deadline: wall(1400)}})
	s.record("a lapse", "a", 1500, queue.LapseRecord, 2, 0, 0)
	s.lease("a3", "a", 1500, 4, 3)
	s.settle("a complete", "a", recorder.Complete, 1600, 4, recorder.OK, 0)

	s.produce("b", "pull", 2000, recorder.Unknown, none, "b", "b'")
	for i, item := range []string{"b", "b'"} {
		at := int64(2010 + 100*i)
		s.lease(item+"1", item, at, 1, 1)
		s.settle(item+" release", item, recorder.Release, at+10, 1, recorder.Unknown, 0)
		s.lease(item+"2", item, at+20, 3, 2)
		s.settle(item+" complete", item, recorder.Complete, at+30, 3, recorder.Unknown, 0)
	}

	s.produce("c", "pull", 0, recorder.OK, none, "c")
	s.lease("c1", "c", 10, 1, 1)
	s.settle("c bury", "c", recorder.Bury, 20, 1, recorder.OK, 0)
	s.found("c found", "c", "pull~dead")

	s.produce("d", "pull", 0, recorder.OK, recorder.Item{Delay: 400e6}, "d")
	s.lease("d1", "d", 450, 1, 1)
	s.settle("d complete", "d", recorder.Complete, 460, 1, recorder.OK, 0)

	s.produce("e", "pull", 0, recorder.OK, recorder.Item{Due: wall(700)}, "e")
	s.lease("e1", "e", 700, 1, 1)
	s.settle("e complete", "e", recorder.Complete, 710, 1, recorder.OK, 0)

	s.produce("refused", "pull", 0, recorder.Fail, none, "r")
	s.produce("k1", "pull", 10, recorder.Unknown, recorder.Item{Key: "k"}, "k")
	s.produce("k2", "pull", 20, recorder.OK, recorder.Item{Key: "k", Duplicate: true}, "k")
	s.lease("k1 lease", "k", 30, 1, 1)
	s.settle("k complete", "k", recorder.Complete, 40, 1, recorder.OK, 0)

	s.produce("p", "push", 0, recorder.OK, none, "p")
	s.post("p1", "p", 10, 1, 503)
	s.record("p1 record", "p", 16, queue.AttemptRecord, 1, 503, queue.StepRetry)
	s.post("p2", "p", 498, 2, 0)
	s.record("p2 record", "p", 31_000, queue.LapseRecord, 2, 0, 0)
	s.post("p3", "p", 31_001, 3, 200)
	s.record("p3 record", "p", 31_010, queue.AttemptRecord, 3, 200, queue.StepComplete)

	kill("kill 2", 32_000)
	s.produce("q", "push", 0, recorder.OK, none, "q")
	s.post("q1", "q", 10, 1, 503)
	s.record("q1 record", "q", 16, queue.AttemptRecord, 1, 503, queue.StepRetry)
	s.post("q2", "q", 300, 2, 500)
	s.record("q2 record", "q", 306, queue.AttemptRecord, 2, 500, queue.StepBury)
	s.record("q ending", "q", 306, queue.EndingRecord, 2, 0, queue.StepBury)
	s.found("q found", "q", "push~dead")
	return s
}
