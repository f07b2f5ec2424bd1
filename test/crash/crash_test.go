package crash_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
	"github.com/posthaste-io/posthaste/test/recorder"
)

// laneTTL is how long the lease of a push lasts; what was in flight at a kill
// comes back after that.
const laneTTL = 30 * time.Second

// reconnectTime is how long nodes may take to work again after their database does.
const reconnectTime = 5 * time.Second

func TestF01_KillsCostTimeNeverAnItem(t *testing.T) {
	if testing.Short() {
		t.Skip("takes about a minute")
	}
	killNodes(t, onBadger(t))
}

func TestF01_KillsOfNodesOnPostgresCostTimeNeverAnItem(t *testing.T) {
	if testing.Short() {
		t.Skip("takes about a minute")
	}
	killNodes(t, onPostgres(pgtest.URL(t)))
}

// killNodes kills one node after the other, any of them, while the rest work.
func killNodes(t *testing.T, p topology) {
	kills := int(setting(t, "POSTHASTE_CRASH_KILLS", 30))
	r := newRun(t, setting(t, "POSTHASTE_CRASH_SEED", rand.Uint64N(1e9)), p)
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
		node := nemesis.IntN(p.nodes)
		r.cluster.kill(node)
		r.cluster.startNode(node)
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
	cut := kills
	if p.nodes > 1 {
		cut /= 2 // a node that comes among others pushes nothing for two seconds
	}
	gate(t, "calls and pushes cut by kills", r.cut.Load(), cut)
}

func TestF02_GracefulStopsCostNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a quarter of a minute")
	}
	r := newRun(t, setting(t, "POSTHASTE_CRASH_SEED", rand.Uint64N(1e9)), onBadger(t))
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

func TestF08_RestartsOfPostgresCostTimeNeverAnItem(t *testing.T) {
	if testing.Short() {
		t.Skip("takes most of a minute")
	}
	restarts := int(setting(t, "POSTHASTE_CRASH_RESTARTS", 20))
	database := pgtest.Start(t)
	r := newRun(t, setting(t, "POSTHASTE_CRASH_SEED", rand.Uint64N(1e9)), onPostgres(database.URL(t)))
	t.Logf("POSTHASTE_CRASH_SEED=%d POSTHASTE_CRASH_RESTARTS=%d", r.seed, restarts)

	r.cluster.start()
	r.setUp()
	stopProducers, stopConsumers := r.load(false)
	nemesis := r.random(99)
	for range restarts {
		pause(t.Context(), time.Duration(100+nemesis.IntN(900))*time.Millisecond)
		how := []string{"fast", "immediate", "kill"}[nemesis.IntN(3)]
		if how == "kill" {
			database.Kill()
		} else {
			database.Stop(how)
		}
		pause(t.Context(), time.Duration(100+nemesis.IntN(500))*time.Millisecond)
		database.Restart()
		r.history.Note("nemesis", recorder.Outage, "", how)
		r.cluster.awaitReady(reconnectTime)
	}
	stopProducers()
	r.drain(laneTTL + 20*time.Second)
	stopConsumers()
	r.verdict(false, laneTTL)

	gate(t, "acknowledged items", r.acked.Load(), 60*restarts)
	gate(t, "settled leases", r.settled.Load(), 20*restarts)
	gate(t, "pushes", r.posts.Load(), 20*restarts)
	gate(t, "calls cut or refused in outages", r.cut.Load()+r.refused.Load(), restarts)
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
