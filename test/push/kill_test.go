package push_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/test/harness"
)

// An endpoint that refuses a third of all requests, and is killed and started again
// while they come, costs time, never an item; and there is a record of every request
// that it saw.
func TestD13_LogAccountsForEveryRequestOfAnEndpointThatIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes most of a minute")
	}
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			items := 2000
			if store.name == "badger" {
				items = 10_000
			}
			killEndpoint(t, store.url(t), items)
		})
	}
}

// inFlight bounds the requests whose answers one kill of the endpoint can lose.
const inFlight = 32

func killEndpoint(t *testing.T, store string, items int) {
	server := harness.Start(t, harness.Options{Store: store, Args: loopback})
	c := newClient(t, server.URL, harness.Key)
	endpoint := startEndpoint(t)
	c.subscribe("hooks", endpoint.url, object{
		"max_in_flight": inFlight,
		"retry":         object{"max_attempts": -1, "min_backoff": "50ms", "max_backoff": "1s"},
	})
	var ids []string
	for len(ids) < items {
		batch := make([]object, 500)
		for i := range batch {
			batch[i] = object{"utf8": "{}", "encoding": "application/json"}
		}
		ids = append(ids, c.produce("hooks", batch...)...)
	}
	const kills = 3
	for i := range kills {
		// While much is still to come: the last life begins with more than half of it.
		part := items * (i + 1) / (3 * kills)
		endpoint.flows(c, "requests before a kill", func() bool { return endpoint.seen() >= part })
		killed := endpoint.kill()
		eventually(t, "a push met the dead endpoint", func() bool {
			lines := c.attempts(object{"subscription": "hooks", "type": "attempt", "verdict": "retryable", "from": killed})
			return slices.ContainsFunc(lines, func(a attempt) bool { return a.Status == 0 })
		})
		endpoint.start()
	}
	endpoint.flows(c, "all is delivered", func() bool { return c.total("hooks") == 0 })
	if a := c.try("queue.stats", object{"queue_name": "hooks~dead"}); a.status != http.StatusNotFound {
		if n := c.total("hooks~dead"); n != 0 {
			t.Errorf("%d items are in the dead-letter queue", n)
		}
	}
	requests := endpoint.requests()
	records := c.attempts(object{"subscription": "hooks"})
	for _, fault := range account(ids, requests, records) {
		t.Error(fault)
	}
	lost, failed, refused := 0, 0, 0
	saw := map[delivery]bool{}
	for _, r := range requests {
		saw[r.delivery] = true
		if r.Status != http.StatusOK {
			failed++
		}
	}
	for _, a := range records {
		switch {
		case a.Type == "attempt" && a.Status == 0 && saw[delivery{a.ItemID, a.Attempt}]:
			lost++
		case a.Type == "attempt" && a.Status == 0:
			refused++
		}
	}
	t.Logf("%d items, %d requests seen, %d refused by the endpoint; %d records, %d of them of answers that a kill cut off and %d of requests that nobody saw",
		items, len(requests), failed, len(records), lost, refused)
	if most := kills * inFlight; lost > most {
		t.Errorf("%d answers were lost, want at most %d: those in flight at %d kills", lost, most, kills)
	}
	if failed < len(requests)/5 {
		t.Errorf("of %d requests %d failed: the endpoint gave too little trouble", len(requests), failed)
	}
}

// endpoint is `posthaste listen`, in its several lives on one port.
type endpoint struct {
	t       *testing.T
	url     string
	address string
	log     string
	args    []string
	process *harness.Server
}

func startEndpoint(t *testing.T, args ...string) *endpoint {
	e := &endpoint{t: t, args: args, address: "127.0.0.1:0", log: filepath.Join(t.TempDir(), "requests")}
	e.start()
	e.address = e.url[len("http://"):]
	return e
}

var listens = regexp.MustCompile(`listening on (http://\S+)`)

func (e *endpoint) start() {
	e.t.Helper()
	args := []string{"listen", "--addr", e.address, "--fail", "30%", "--status", "500", "--log", e.log}
	e.process = harness.Spawn(e.t, harness.Options{}, append(args, e.args...)...)
	eventually(e.t, "the endpoint listens", func() bool {
		found := listens.FindStringSubmatch(e.process.Stdout())
		if found != nil {
			e.url = found[1]
		}
		return found != nil
	})
}

// kill ends the process as kill -9 does, and returns when it had ended.
func (e *endpoint) kill() time.Time {
	e.process.Kill()
	return time.Now()
}

// seen is how many requests were written down so far.
func (e *endpoint) seen() int { return len(e.requests()) }

// flows waits for a condition that comes with requests. The breaker opens at some kills,
// and where the one request fails that probes, it waits for longer each time; who starts
// an endpoint again need not wait for that, and can pause and resume the subscription.
func (e *endpoint) flows(c *client, what string, condition func() bool) {
	e.t.Helper()
	const still = 12 * time.Second // longer than to the first probe
	seen, since := -1, time.Now()
	within(e.t, 2*time.Minute, what, func() bool {
		if n := e.seen(); n != seen {
			seen, since = n, time.Now()
		} else if time.Since(since) > still {
			c.call("subscriptions.pause", object{"name": "hooks"}, nil)
			c.call("subscriptions.resume", object{"name": "hooks"}, nil)
			since = time.Now()
		}
		return condition()
	})
}

// delivery names one request: an item, and which of its deliveries it is.
type delivery struct {
	ItemID  string
	Attempt int32
}

// request is what the endpoint wrote down before it answered.
type request struct {
	delivery
	Status int32
}

// requests are what all lives wrote down.
func (e *endpoint) requests() (all []request) {
	e.t.Helper()
	file, err := os.Open(e.log)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		e.t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewReader(file); ; {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all // what follows the last end of a line is being written
		}
		if err != nil {
			e.t.Fatal(err)
		}
		var line struct {
			WebhookID string `json:"webhook_id"`
			Attempt   int32
			Status    int32
		}
		if err := json.Unmarshal(text, &line); err != nil {
			e.t.Fatalf("%s: %v in %s", e.log, err, text)
		}
		all = append(all, request{delivery{line.WebhookID, line.Attempt}, line.Status})
	}
}
