package main

import "time"

// plan says how much is measured, and for how long.
type plan struct {
	rounds      int
	short, long time.Duration
	// queued is what the drain rows begin with, by batch size: so much that it lasts.
	queued map[int]int
	// shapes are those of [bench.flatRows]. The first is what the series of what is
	// queued is compared with, and its bursts; the one with baseQueued and nothing held,
	// the other's, in which as many items are held or queued altogether.
	shapes                 []shape
	baseQueued, mostQueued int
	probes                 int
	// burst is how many items one burst leases, of the shapes with the fewest and the
	// most queued; drained is how many went through a queue before its bursts.
	burst, drained int
	pushes         int
	// jobs is how many are worked beside a peer.
	jobs int
	fair fairPlan
}

var full = plan{
	rounds: 3, short: 1500 * time.Millisecond, long: 3 * time.Second,
	queued: map[int]int{1: 50_000, 10: 150_000, 100: 300_000},
	shapes: []shape{
		{queued: 10_000},
		{queued: 100_000},
		{queued: 1_000_000},
		{queued: 100_000, held: 10_000},
		{queued: 100_000, held: 50_000},
	},
	baseQueued: 100_000, mostQueued: 1_000_000, probes: 500, burst: 5000, drained: 300_000,
	pushes: 120_000, jobs: 30_000,
	fair: fairPlan{endpoints: 100, dead: 10, backlog: 100_000, rate: 10, phase: 3 * time.Second, holds: 512},
}

var quick = plan{
	rounds: 1, short: 100 * time.Millisecond, long: 300 * time.Millisecond,
	queued:     map[int]int{1: 1000, 10: 2000, 100: 5000},
	shapes:     []shape{{queued: 1000}, {queued: 5000}, {queued: 4000, held: 1000}},
	baseQueued: 5000, mostQueued: 5000, probes: 20, burst: 500, drained: 2000,
	pushes: 6000, jobs: 1000,
	fair: fairPlan{endpoints: 20, dead: 4, backlog: 2000, rate: 20, phase: 300 * time.Millisecond, holds: 64},
}
