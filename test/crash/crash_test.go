package crash_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// laneTTL is how long the lease of a push lasts; what was in flight at a kill
// comes back after that.
const laneTTL = 30 * time.Second

func TestF01_KillsCostTimeNeverAnItem(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a minute")
	}
	kills := int(setting(t, "POSTHASTE_CRASH_KILLS", 30))
	r := newRun(t, setting(t, "POSTHASTE_CRASH_SEED", rand.Uint64N(1e9)))
	t.Logf("POSTHASTE_CRASH_SEED=%d POSTHASTE_CRASH_KILLS=%d", r.seed, kills)

	r.cluster.start()
	r.setUp()
	stopProducers, stopConsumers := r.load(false)
	nemesis := r.random(99)
	for range kills {
		// A fifth of the lives end while the work of the last one is still being
		// picked up.
		life := 150 + nemesis.IntN(1200)
		if nemesis.IntN(5) == 0 {
			life = nemesis.IntN(60)
		}
		pause(t.Context(), time.Duration(life)*time.Millisecond)
		r.cluster.kill()
		r.cluster.start()
	}
	stopProducers()
	r.drain(laneTTL + 60*time.Second)
	stopConsumers()
	r.verdict(false, laneTTL)

	// A run in which little happened proves little.
	if got, want := r.cluster.kills, kills; got != want {
		t.Errorf("kills of a live process: got %d, want %d", got, want)
	}
	gate(t, "acknowledged items", r.acked.Load(), 60*kills)
	gate(t, "settled leases", r.settled.Load(), 20*kills)
	gate(t, "pushes", r.posts.Load(), 20*kills)
	gate(t, "calls and pushes cut by kills", r.cut.Load(), kills)
}

func TestF02_GracefulStopsCostNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a quarter of a minute")
	}
	r := newRun(t, setting(t, "POSTHASTE_CRASH_SEED", rand.Uint64N(1e9)))
	t.Logf("POSTHASTE_CRASH_SEED=%d", r.seed)

	r.cluster.start()
	r.setUp()
	stopProducers, stopConsumers := r.load(true)
	const stops = 5
	nemesis := r.random(99)
	for range stops {
		pause(t.Context(), time.Duration(500+nemesis.IntN(800))*time.Millisecond)
		r.cluster.stop()
		r.cluster.start()
	}
	stopProducers()
	r.drain(laneTTL)
	stopConsumers()
	r.verdict(true, laneTTL)

	gate(t, "acknowledged items", r.acked.Load(), 60*stops)
	gate(t, "settled leases", r.settled.Load(), 20*stops)
	gate(t, "pushes", r.posts.Load(), 20*stops)
}

// gate fails a run that did too little to mean anything.
func gate(t *testing.T, what string, got int64, want int) {
	t.Helper()
	if got < int64(want) {
		t.Errorf("the load gate was missed: %d %s, want at least %d", got, what, want)
	}
}

// setting reads a number from the environment.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
