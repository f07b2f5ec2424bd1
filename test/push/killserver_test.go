package push_test

import (
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/test/harness"
)

// A server that is killed has sent requests of whose answers it has written nothing. When
// it is back, the leases that they had lapse: that is their record, and nothing is lost.
func TestD13_LogAccountsForEveryRequestOfAServerThatIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for leases to lapse")
	}
	t.Parallel()
	options := harness.Options{Store: "badger:data", Args: loopback, Dir: t.TempDir()}
	server := harness.Start(t, options)
	c := newClient(t, server.URL, harness.Key)
	// Slow enough that some requests run at any time.
	endpoint := startEndpoint(t, "--slow", "50ms")
	c.subscribe("hooks", endpoint.url, object{
		"max_in_flight": inFlight,
		"retry":         object{"max_attempts": -1, "min_backoff": "50ms", "max_backoff": "1s"},
	})
	const items = 1000
	ids := c.produce("hooks", numbered(items/2)...)
	ids = append(ids, c.produce("hooks", numbered(items/2)...)...)
	endpoint.flows(c, "requests before the kill", func() bool { return endpoint.seen() >= items/3 })
	server.Kill()
	killed := time.Now()
	if n := endpoint.seen(); n >= items {
		t.Fatalf("%d requests came before the kill, too many for it to matter", n)
	}

	c = newClient(t, harness.Start(t, options).URL, harness.Key)
	// Leases are for 30 seconds.
	within(t, 40*time.Second, "all is delivered", func() bool { return c.total("hooks") == 0 })
	if n := c.try("queue.stats", object{"queue_name": "hooks~dead"}); n.status == 200 && c.total("hooks~dead") != 0 {
		t.Errorf("%d items are in the dead-letter queue", c.total("hooks~dead"))
	}
	requests := endpoint.requests()
	records := c.attempts(object{"queue_name": "hooks"})
	for _, fault := range account(ids, requests, records) {
		t.Error(fault)
	}
	saw := map[delivery]bool{}
	for _, r := range requests {
		saw[r.delivery] = true
	}
	lapses, seen := 0, 0
	for _, a := range records {
		if a.Type == "lapse" {
			lapses++
			if saw[delivery{a.ItemID, a.Attempt}] {
				seen++
			}
		}
	}
	t.Logf("%d items, %d requests seen, %d lapses of which the endpoint had seen %d; all was delivered %s after the kill",
		items, len(requests), lapses, seen, time.Since(killed).Round(time.Second))
	if seen == 0 {
		t.Error("no request ran at the kill")
	}
}
