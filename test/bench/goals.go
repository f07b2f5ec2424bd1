package main

import "fmt"

// goal is what a row is held against: a figure, or another row of the same sitting.
type goal struct {
	row, store string
	// of is empty for the row's median, or one of its extras.
	of string
	// than and thanStore name another row, which wins over value. Reference says in words
	// what is compared with.
	than, thanStore string
	value           float64
	reference       string
	// is is empty where nothing is wanted.
	is    string
	ratio float64
}

// seed is what a peer reached: a lease queue server in Go with the same three stores,
// called over protobuf by a driver of its own on a machine of this kind (2 cores). On
// disk it did not sync. Its figures are for orientation: only what is measured in one
// sitting compares.
func seed(row, store string, value float64, is string, ratio float64) goal {
	text := "a peer's " + figure(value)
	if store == "badger" {
		text += ", unsynced"
	}
	return goal{row: row, store: store, value: value, reference: text, is: is, ratio: ratio}
}

// seedCPU is the same for the server's processor time.
func seedCPU(row, store string, value, ratio float64) goal {
	g := seed(row, store, value, atMost, ratio)
	g.of = serverCPU
	return g
}

// than is a comparison with another row.
func than(row, store, other, otherStore, reference, is string, ratio float64) goal {
	return goal{row: row, store: store, than: other, thanStore: otherStore, reference: reference, is: is, ratio: ratio}
}

// The rows that goals are set for, as far as no plan changes their names.
const (
	barePush     = "bare client → sink, c=16"
	push         = "push, 16 in flight"
	insertInside = "insert 1, c=16, in process"
	produceAside = "produce 1, c=64, beside asynq"
	enqueue      = "enqueue 1, c=64"
	// enqueueWide is with a connection for each caller, where asynq has ten a processor.
	enqueueWide = "enqueue 1, c=64, as many connections"
)

// goals are all that is wanted of a run.
func (p plan) goals() []goal {
	most, few := shape{queued: p.mostQueued}, p.shapes[0]
	goals := []goal{
		seed("produce 1, c=16", "memory", 24_700, atLeast, 1.4),
		seedCPU("produce 1, c=16", "memory", 32, 0.7),
		seed("produce 100, c=16", "memory", 297_000, atLeast, 1.3),
		seed("produce 1, c=64", "badger", 19_800, atLeast, 1.5),
		seed("produce 1, c=1", "badger", 6900, atLeast, 0.5),
		seed("produce 100, c=16", "badger", 123_000, atLeast, 0.9),
		seed("produce 1, c=16", "postgres", 8300, atLeast, 1.5),
		seed("produce 100, c=16", "postgres", 52_000, atLeast, 2.5),

		seed("lease+complete 1, c=16", "memory", 4100, atLeast, 4),
		seed("lease+complete 100, c=16", "memory", 5600, atLeast, 25),
		seed(most.burst(), "memory", 92, atLeast, 500),
		seed("lease+complete 1, c=16", "badger", 4000, atLeast, 2.5),
		seed("lease+complete 100, c=16", "badger", 10_700, atLeast, 6),
		seed("lease+complete 1, c=16", "postgres", 420, atLeast, 10),
		seed("lease+complete 100, c=16", "postgres", 4200, atLeast, 10),
		seed(shape{queued: p.baseQueued}.name(), "postgres", 75, atMost, 0.05),

		seed(freeA.name, "memory", 13_700, atLeast, 1.5),
		seed(freeA.name, "badger", 2400, atLeast, 5),
		seed(freeA.name, "postgres", 1900, atLeast, 3),
		seed(freeB.name, "memory", 15_600, atLeast, 10),
		seed(freeB.name, "badger", 7600, atLeast, 6),
		seed(freeB.name, "postgres", 3900, atLeast, 6),
		seed(paced.name, "memory", 0.46, atMost, 1),
		seed(paced.name, "badger", 0.80, atMost, 1.5),
		seed(paced.name, "postgres", 3.3, atMost, 0.7),
		seedCPU(paced.name, "memory", 558, 0.7),
		seedCPU(paced.name, "badger", 1175, 0.7),
		seedCPU(paced.name, "postgres", 2897, 0.7),

		seed(p.residentRow(), "memory", 957, atMost, 0.5),
		seed(p.residentRow(), "badger", 1283, atMost, 0.3),
		{row: p.restartRow(), store: "badger", value: 2.5, reference: "2.5 s", is: atMost, ratio: 1},

		than(push, "memory", barePush, "none", "the bare client", atLeast, 0.75),
		than(push, "badger", barePush, "none", "the bare client", atLeast, 0.65),
		than(push, "postgres", barePush, "none", "the bare client", atLeast, 0.45),

		than(insertInside, "postgres", insertInside, "river", "River's Insert", atLeast, 3),
		than(p.workRow("in process"), "postgres", p.workRow("in process"), "river", "River's worked jobs", atLeast, 1.2),
		than(p.workRow("over HTTP"), "postgres", p.workRow("in process"), "river", "River's worked jobs", atLeast, 0.8),
		than(produceAside, "badger", enqueue, "redis", "asynq's enqueue", atLeast, 1),
		// Told, and not wanted: Redis speaks a simpler protocol than HTTP.
		than(produceAside, "badger", enqueueWide, "redis", "asynq's with as many connections", "", 0),

		than(p.drainedRow(), "badger", few.burst(), "badger", "a queue through which nothing went", atLeast, flatRate),
	}
	for _, s := range stores {
		goals = append(goals, than(most.burst(), s.name, few.burst(), s.name, few.burst(), atLeast, flatRate))
		goals = append(goals, p.flatGoals(s)...)
	}
	return goals
}

// How much more a lease may cost on a full server than on a nearly empty one, and what
// share of its rate has to be left.
const (
	flatCost = 1.5
	flatRate = 0.8
)

// seedHeld is what one lease cost the peer on its disk store, in ms, by how many items
// were held.
var seedHeld = map[int]float64{10_000: 162, 50_000: 886}

// flatGoals compares the price of one lease on servers of all shapes with what it is on
// the emptiest of a series.
func (p plan) flatGoals(on store) (goals []goal) {
	for _, s := range p.shapes[1:] {
		base := p.shapes[0]
		if s.held > 0 {
			// As much queued altogether, nothing held.
			base = shape{queued: p.baseQueued}
			if value, ok := seedHeld[s.held]; ok && on.name == "badger" {
				goals = append(goals, seed(s.name(), on.name, value, atMost, 0.01))
			}
		}
		goals = append(goals, than(s.name(), on.name, base.name(), on.name, base.name(), atMost, flatCost))
	}
	return goals
}

// judge compares all that was measured.
func (s *sheet) judge(goals []goal) {
	for _, g := range goals {
		row := s.find(g.row, g.store)
		if row == nil {
			continue // not everything is always measured
		}
		value := g.value
		if g.than != "" {
			other := s.find(g.than, g.thanStore)
			if other == nil {
				continue
			}
			value = other.Median
		}
		row.against(g.of, value, g.reference, g.is, g.ratio)
	}
}

// The names of rows that say how much there was.

func (p plan) residentRow() string {
	return fmt.Sprintf("resident, %s × 200 B", thousands(p.mostQueued))
}

func (p plan) restartRow() string {
	return fmt.Sprintf("restart to first lease, %s queued", thousands(p.mostQueued))
}

func (p plan) drainedRow() string {
	return fmt.Sprintf("%s, %s drained before", p.shapes[0].burst(), thousands(p.drained))
}

func (p plan) workRow(how string) string { return fmt.Sprintf("work %s, %s", thousands(p.jobs), how) }
