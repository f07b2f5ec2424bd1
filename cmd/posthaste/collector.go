package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// garbage is how much may gather between two runs of the collector.
	garbage = 96 << 20
	// Bounds of GOGC. A server with little in memory would run the collector some
	// hundred times a second by Go's 100, one with a million items would need half
	// as much memory again for nothing. The lower one is met at 290 MiB that live.
	minPercent, maxPercent = 33, 400
)

// paceCollector lets a nearly constant amount of garbage gather, whatever is live,
// until stop is called. Whoever sets GOGC keeps what they set.
func paceCollector() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(maxPercent)
	p := &pacer{percent: maxPercent, stopped: make(chan struct{})}
	p.arm()
	return func() {
		close(p.stopped)
		debug.SetGCPercent(before)
	}
}

// pacer sets GOGC after each run of the collector.
type pacer struct {
	percent int
	stopped chan struct{}
}

// arm leaves an object behind whose end tells that the collector has run.
func (p *pacer) arm() {
	sentinel := new([16]byte)
	runtime.AddCleanup(sentinel, (*pacer).ran, p)
}

func (p *pacer) ran() {
	select {
	case <-p.stopped:
		return
	default:
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	// Setting it stops the world for a moment, so small differences are let be.
	if percent := percentFor(live[0].Value.Uint64()); percent > p.percent*5/4 || percent < p.percent*4/5 {
		debug.SetGCPercent(percent)
		p.percent = percent
	}
	p.arm()
}

func percentFor(live uint64) int {
	return int(min(max(garbage*100/max(live, 1), minPercent), maxPercent))
}
