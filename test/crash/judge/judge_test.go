package judge_test

import (
	"testing"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/test/crash/judge"
	"github.com/posthaste-io/posthaste/test/recorder"
)

func TestJudge_AcceptsAFaultlessHistory(t *testing.T) {
	t.Parallel()
	for _, v := range judge.Judge(faultless().History) {
		t.Errorf("a correct run was judged: %s", v)
	}
}

// Each plant is one fault of a server in an otherwise faultless run, and must be
// caught by the check that is named.
var plants = []struct {
	name  string
	check string
	plant func(*script)
}{
	{"an acknowledged item vanishes", judge.NoLoss, func(s *script) {
		s.produce("lost", "pull", 5, recorder.OK, recorder.Item{}, "lost")
	}},
	{"an acknowledged item of a push queue vanishes", judge.NoLoss, func(s *script) {
		s.produce("lost", "push", 5, recorder.OK, recorder.Item{}, "lost")
	}},
	{"a leased item is never seen again", judge.NoLoss, func(s *script) { s.without("a complete") }},
	{"a buried item is not in the dead-letter queue", judge.NoLoss, func(s *script) { s.without("c found") }},
	{"an item is stuck", judge.NoLoss, func(s *script) { s.found("stuck", "a", "pull") }},
	{"half of a call exists", judge.NoLoss, func(s *script) {
		s.produce("half", "push", 0, recorder.Unknown, recorder.Item{}, "h", "h'")
		s.post("h1", "h", 10, 1, 200)
		s.record("h1 record", "h", 16, queue.AttemptRecord, 1, 200, queue.StepComplete)
	}},
	{"a call answers too few ids", judge.NoLoss, func(s *script) { s.Events[s.ended["a"]].Items = nil }},
	{"a bury is answered and not done", judge.NoLoss, func(s *script) {
		s.without("c found")
		s.settle("c late", "c", recorder.Complete, 30, 1, recorder.Unknown, 0)
	}},
	{"on record as buried, and nowhere", judge.NoLoss, func(s *script) { s.without("q found") }},

	{"a refused item is delivered", judge.NoGhost, func(s *script) { s.Events[s.ended["a"]].Phase = recorder.Fail }},
	{"an item appears on another queue", judge.NoGhost, func(s *script) { s.Events[s.begun["d"]].Queue = "push" }},
	{"an item appears where nothing was produced", judge.NoGhost, func(s *script) { s.found("astray", "stray", "other") }},
	{"an unknown commit is repeated", judge.NoGhost, func(s *script) {
		s.lease("twin", "twin", 3000, 1, 1)
		s.told("twin").Payload = "payload of b"
		s.settle("twin complete", "twin", recorder.Complete, 3010, 1, recorder.OK, 0)
	}},
	{"a key makes a second item", judge.NoGhost, func(s *script) { s.told("k2").ID = s.id("k twin") }},

	{"two consumers hold an item", judge.NoDoubleLease, func(s *script) { s.told("a3").Granted = wall(1399) }},
	{"an extension is forgotten", judge.NoDoubleLease, func(s *script) { s.told("a extend").Deadline = wall(1600) }},
	{"a refused settlement frees the item", judge.NoDoubleLease, func(s *script) {
		s.Events[s.ended["b release"]].Phase = recorder.Fail
	}},
	{"two requests of an item overlap", judge.NoDoubleLease, func(s *script) {
		s.Events[s.ended["q1"]].Mono = s.Events[s.begun["q2"]].Mono + 1
	}},
	{"a kill lets a push's lease lapse at once", judge.NoDoubleLease, func(s *script) {
		s.Journal[s.entry["p2 record"]].At = start.Add(900e6)
	}},

	{"a stale receipt completes", judge.Fencing, func(s *script) {
		s.settle("late", "a", recorder.Complete, 1550, 3, recorder.OK, 0)
	}},
	{"a stale receipt extends", judge.Fencing, func(s *script) { s.asked("a extend").Counter = 1 }},
	{"a receipt settles twice", judge.Fencing, func(s *script) { s.Events[s.ended["a stale"]].Phase = recorder.OK }},
	{"a token is given out twice", judge.Fencing, func(s *script) { s.told("a3").Counter = 3 }},
	{"a token falls", judge.Fencing, func(s *script) { s.told("a3").Counter = 2 }},
	{"a delivery is not counted", judge.Fencing, func(s *script) { s.told("a3").Delivery = 2 }},

	{"a completed item is leased again", judge.TerminalOnce, func(s *script) { s.lease("again", "a", 3000, 6, 4) }},
	{"a completed item is dead as well", judge.TerminalOnce, func(s *script) { s.found("both", "a", "pull~dead") }},
	{"a dead item lies there twice", judge.TerminalOnce, func(s *script) { s.found("twice", "c", "pull~dead") }},
	{"a delivered item is pushed again", judge.TerminalOnce, func(s *script) { s.post("again", "p", 31_100, 4, 200) }},
	{"a delivered item has a later record", judge.TerminalOnce, func(s *script) {
		s.record("again", "p", 31_100, queue.AttemptRecord, 4, 200, queue.StepComplete)
	}},
	{"a delivered item is dead as well", judge.TerminalOnce, func(s *script) {
		s.Journal[s.entry["q2 record"]].Next = queue.StepComplete
	}},

	{"a lapse costs no attempt", judge.BoundedAttempts, func(s *script) {
		s.without("a complete")
		s.lease("a4", "a", 2600, 5, 4)
		s.settle("a at last", "a", recorder.Complete, 2700, 5, recorder.OK, 0)
	}},
	{"a retry is forgotten by a push", judge.BoundedAttempts, func(s *script) {
		s.Journal[s.entry["q2 record"]].Next = queue.StepRetry
		s.post("q3", "q", 600, 3, 500)
		s.record("q3 record", "q", 606, queue.AttemptRecord, 3, 500, queue.StepRetry)
		s.post("q4", "q", 900, 4, 500)
		s.record("q4 record", "q", 906, queue.AttemptRecord, 4, 500, queue.StepBury)
	}},
	{"an item is buried before its time", judge.BoundedAttempts, func(s *script) {
		s.without("a complete")
		s.without("a3")
		s.forget("a lapse")
		s.found("early", "a", "pull~dead")
	}},
	{"a crash counts as an attempt", judge.BoundedAttempts, func(s *script) {
		s.without("q2")
		s.Journal[s.entry["q2 record"]].Type = queue.LapseRecord
	}},
	{"a lease lapses without a kill", judge.BoundedAttempts, func(s *script) {
		for _, q := range []string{"pull", "push"} {
			policy := s.Queues[q]
			policy.Graceful = true
			s.Queues[q] = policy
		}
	}},
	{"more lapses than kills", judge.BoundedAttempts, func(s *script) {
		s.without("kill 1")
		s.without("kill 2")
	}},

	{"a request has no record", judge.AttemptLedger, func(s *script) { s.forget("q1 record") }},
	{"a crash leaves no record", judge.AttemptLedger, func(s *script) { s.forget("p2 record") }},
	{"a request has two records", judge.AttemptLedger, func(s *script) {
		s.record("twice", "q", 20, queue.LapseRecord, 1, 0, 0)
	}},
	{"an attempt never happened", judge.AttemptLedger, func(s *script) { s.without("q1") }},
	{"a status is made up", judge.AttemptLedger, func(s *script) { s.Journal[s.entry["q1 record"]].Status = 502 }},
	{"a number is given out twice", judge.AttemptLedger, func(s *script) { s.asked("q2").Delivery = 1 }},
	{"a delivered item has no last record", judge.AttemptLedger, func(s *script) { s.forget("p3 record") }},
	{"records are numbered backwards", judge.AttemptLedger, func(s *script) { s.Journal[s.entry["p3 record"]].Delivery = 1 }},
	{"a lapse is told twice", judge.AttemptLedger, func(s *script) {
		s.record("a lapse again", "a", 1501, queue.LapseRecord, 2, 0, 0)
	}},
	{"a lapse is not told", judge.AttemptLedger, func(s *script) { s.forget("a lapse") }},
	{"a settled lease lapses", judge.AttemptLedger, func(s *script) { s.Journal[s.entry["a lapse"]].Delivery = 1 }},

	{"a delay is forgotten", judge.NotBeforeDue, func(s *script) { s.Events[s.ended["d1"]].Mono = 399e6 }},
	{"a due time is forgotten", judge.NotBeforeDue, func(s *script) { s.told("e1").Granted = wall(700) - 1 }},
	{"a retry comes too early", judge.NotBeforeDue, func(s *script) { s.asked("a retry").Delay = 300e6 }},
	{"a push comes too early", judge.NotBeforeDue, func(s *script) { s.asked("p").Delay = 200e6 }},

	{"bytes of another item", judge.PayloadExact, func(s *script) { s.told("a2").Payload = "payload of b" }},
	{"bytes that nobody produced", judge.PayloadExact, func(s *script) { s.asked("q2").Payload = "garbage" }},
}

func TestJudge_CatchesEveryPlantedFault(t *testing.T) {
	t.Parallel()
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := faultless()
			p.plant(s)
			found := judge.Judge(s.History)
			for _, v := range found {
				if v.Check == p.check {
					return
				}
			}
			t.Errorf("%s did not catch it; what was found: %v", p.check, found)
		})
	}
}

func TestJudge_AnOutageInterruptsAsAKillDoes(t *testing.T) {
	t.Parallel()
	s := faultless()
	s.without("kill 2")
	s.Events[s.begun["kill 1"]].Verb = recorder.Outage
	if found := judge.Judge(s.History); len(found) > 0 {
		t.Errorf("got %v, want nothing: all was interrupted by the outage", found)
	}
}
