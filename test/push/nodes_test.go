package push_test

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
	"github.com/posthaste-io/posthaste/test/harness"
)

// What a subscription may have at one time, and in a second, is of all nodes together,
// whoever of them dies or comes.
func TestNodes_ShareTheLimitsOfASubscription(t *testing.T) {
	if testing.Short() {
		t.Skip("takes most of a minute")
	}
	t.Parallel()
	const (
		most      = 6
		perSecond = 30
		// takenIn is how long the share of a node that died may stand still.
		takenIn = 10 * time.Second
	)
	url := pgtest.URL(t)
	start := func() *harness.Server { return harness.Start(t, harness.Options{Store: url, Args: loopback}) }
	servers := []*harness.Server{start(), start(), start()}
	c := newClient(t, servers[0].URL, harness.Key)
	together := newMeter(t, 250*time.Millisecond)
	rated := newMeter(t, 0)
	c.subscribe("together", together.url, object{"max_in_flight": most})
	c.subscribe("rated", rated.url, object{"rate": object{"count": perSecond, "period": "1s"}})
	for range 4 {
		// More than can be sent before the test ends.
		c.produce("together", numbered(500)...)
		c.produce("rated", numbered(500)...)
	}
	pushing := func() (nodes []string) {
		from := time.Now().Add(-2 * time.Second)
		for _, a := range slices.Concat(
			c.attempts(object{"subscription": "together", "from": from}),
			c.attempts(object{"subscription": "rated", "from": from}),
		) {
			nodes = append(nodes, a.Subscription+" from "+a.Node)
		}
		slices.Sort(nodes)
		return slices.Compact(nodes)
	}
	// Each limit is used up by all that are there.
	used := func(by time.Time, nodes int) {
		t.Helper()
		together.forget()
		within(t, time.Until(by), "as many run at a time as may", func() bool { return together.peak() == most })
		within(t, time.Until(by), "all nodes push", func() bool { return len(pushing()) == 2*nodes })
		// More than two of three parts, which is what comes where the third stands still. It
		// cannot be all: each start is as late as the machine is busy, which is not made up for.
		const span = 2 * time.Second
		within(t, time.Until(by.Add(span)), "no part of the rate stands still", func() bool {
			return rated.since(time.Now().Add(-span)) >= 2*perSecond*3/4
		})
	}
	used(time.Now().Add(patience), 3)
	before := pushing()

	servers[2].Kill()
	killed := time.Now()
	until(t, killed.Add(time.Second)) // what it had sent has ended
	used(killed.Add(takenIn), 2)

	start()
	used(time.Now().Add(patience), 3)
	if came := pushing(); slices.Equal(came, before) {
		t.Errorf("these push: %q, among them the one that was killed", came)
	}
	until(t, time.Now().Add(2*time.Second))
	if n := together.highest(); n > most {
		t.Errorf("%d requests ran at one time, want %d at most", n, most)
	}
	// A tenth may start at once after a time without any; and what was late on its way comes
	// with what is in time.
	if n := rated.densest(2 * time.Second); n > 2*perSecond+perSecond/10+perSecond/3 {
		t.Errorf("%d requests came in 2s, want %d a second", n, perSecond)
	}
}

// meter is an endpoint that knows how many requests it has at one time, and when they came.
type meter struct {
	url string

	mu      sync.Mutex
	running int
	// most is the most that ran since it was last forgotten, ever the most of all.
	most, ever int
	came       []time.Time
}

// newMeter has each request take some time.
func newMeter(t *testing.T, takes time.Duration) *meter {
	m := &meter{}
	r := newReceiver(t, nil)
	r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return // who sent it is gone
		}
		m.begin()
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-req.Context().Done():
		}
		m.end() // before the answer, after which the next may come
		w.WriteHeader(http.StatusNoContent)
	})
	m.url = r.URL
	return m
}

func (m *meter) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running++
	m.most, m.ever = max(m.most, m.running), max(m.ever, m.running)
	m.came = append(m.came, time.Now())
}

func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
}

// forget begins to look for the peak anew.
func (m *meter) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.most = m.running
}

func (m *meter) peak() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.most
}

func (m *meter) highest() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ever
}

// since counts what came from an instant on.
func (m *meter) since(from time.Time) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	first, _ := slices.BinarySearchFunc(m.came, from, time.Time.Compare)
	return len(m.came) - first
}

// densest is the most that came in any span of a length.
func (m *meter) densest(span time.Duration) (most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := 0
	for i, at := range m.came {
		for m.came[first].Before(at.Add(-span)) {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
