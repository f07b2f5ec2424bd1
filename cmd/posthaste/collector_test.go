package main

import "testing"

func TestPercentFor_AllowsTheSameGarbageWithinBounds(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{
		0:         maxPercent,
		4 << 20:   maxPercent,
		48 << 20:  200,
		96 << 20:  100,
		192 << 20: 50,
		320 << 20: minPercent,
		4 << 30:   minPercent,
	} {
		if got := percentFor(live); got != want {
			t.Errorf("%d MiB live: got %d, want %d", live>>20, got, want)
		}
	}
}
