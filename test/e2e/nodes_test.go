package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
	"github.com/posthaste-io/posthaste/test/harness"
)

// node starts a server on a shared database.
func node(t *testing.T, url string, args ...string) (*harness.Server, *client) {
	t.Helper()
	server := harness.Start(t, harness.Options{Store: url, Args: slices.Concat(loopback, args)})
	return server, newClient(t, server.URL)
}

func TestNodes_ReceiptsAreGoodAtEveryNode(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	_, a := node(t, url)
	_, b := node(t, url)
	a.call("queues.create", object{"queue_name": "work"}, nil)
	id := a.produce("work", object{"utf8": "x"})[0]
	held := b.lease("work", 1)
	if len(held) != 1 || held[0].ItemID != id {
		t.Fatalf("the other node leased %+v, want %s", held, id)
	}
	a.call("queue.complete", object{"receipts": []string{held[0].Receipt}}, nil)
	b.refused(http.StatusConflict, "stale_lease", "queue.complete", object{"receipts": []string{held[0].Receipt}})
}

// A lease that waits at one node hears of what another node produced, long before
// the poll of each second, and without hints by that poll.
func TestNodes_WaitingLeaseHearsOfOtherNodes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		most time.Duration
	}{
		"by hints": {nil, 900 * time.Millisecond},
		"by polls": {[]string{"--no-hints"}, patience},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			_, a := node(t, url, tt.args...)
			_, b := node(t, url, tt.args...)
			a.call("queues.create", object{"queue_name": "work"}, nil)
			// The quickest of several counts: a busy machine makes any of them late.
			quickest := time.Hour
			for range 5 {
				got := make(chan time.Time, 1)
				go func() {
					defer close(got)
					reply, err := b.post("/v1/queue.lease", "application/json", nil,
						[]byte(`{"queue_name":"work","batch_size":1,"client_id":"waiting","request_timeout":"30s"}`))
					if err == nil && strings.Contains(string(reply.raw), "receipt") {
						got <- time.Now()
					}
				}()
				eventually(t, "waiting", func() bool { return b.stats("work").LeaseWaiting == 1 })
				produced := time.Now()
				a.produce("work", object{"utf8": "x"})
				at, ok := <-got
				if !ok {
					t.Fatal("nothing was leased")
				}
				quickest = min(quickest, at.Sub(produced))
			}
			if quickest > tt.most {
				t.Errorf("heard after %v at best, want at most %v", quickest, tt.most)
			}
		})
	}
}

// Three nodes push what one queue holds: each item once, and all of them.
func TestNodes_PushSideBySide(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	r := newReceiver(t)
	var clients []*client
	for range 3 {
		_, c := node(t, url)
		clients = append(clients, c)
	}
	clients[0].subscribe("push", r.URL, nil)
	want := map[string]bool{}
	for i := range 300 {
		for _, id := range clients[i%3].produce("push", object{"utf8": fmt.Sprint(i)}) {
			want[id] = true
		}
	}
	for range 300 {
		p := r.next()
		id := p.header.Get("webhook-id")
		if !want[id] {
			t.Fatalf("%s came twice, or was never produced", id)
		}
		delete(want, id)
	}
	eventually(t, "empty", func() bool { return clients[1].stats("push").Total == 0 })
}

// One node after the other is replaced under load; consumers settle at whichever
// node answers.
func TestNodes_RollingRestartLosesNothingAndCostsNoAttempt(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var mu sync.Mutex
	attempts := map[string][]string{}
	r := scriptedReceiver(t, func(w http.ResponseWriter, p push) {
		mu.Lock()
		defer mu.Unlock()
		id := p.header.Get("webhook-id")
		attempts[id] = append(attempts[id], p.header.Get("posthaste-attempt"))
	})
	servers := make([]*harness.Server, 3)
	clients := make([]*client, 3)
	for i := range servers {
		servers[i], clients[i] = node(t, url)
	}
	clients[0].subscribe("push", r.URL, nil)
	produced := 0
	for turn := range servers {
		other := clients[(turn+1)%3]
		for range 50 {
			produced += len(other.produce("push", object{"utf8": "x"}))
		}
		servers[turn].Stop()
		servers[turn], clients[turn] = node(t, url)
	}
	eventually(t, "delivered", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(attempts) == produced
	})
	eventually(t, "empty", func() bool { return clients[0].stats("push").Total == 0 })
	mu.Lock()
	defer mu.Unlock()
	for id, seen := range attempts {
		if len(seen) != 1 {
			t.Errorf("%s was pushed %d times: attempts %v", id, len(seen), seen)
		}
	}
	if dead := clients[0].try("queues.info", object{"queue_name": "push~dead"}); dead.status != http.StatusNotFound {
		t.Error("something was buried")
	}
}

// While the database is away calls are refused as such and the node says that it is
// not ready; when it is back it works, without a restart, within five seconds.
func TestNodes_DatabaseGoesAndComesBack(t *testing.T) {
	t.Parallel()
	database := pgtest.Start(t)
	server, c := node(t, database.URL(t))
	c.call("queues.create", object{"queue_name": "work"}, nil)
	first := c.produce("work", object{"utf8": "before"})[0]
	ready := func() int {
		res, err := http.Get(server.URL + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		said, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		// Whoever may ask is not told where the database is, and as whom we go there.
		if strings.Contains(string(said), "127.0.0.1") || strings.Contains(string(said), "user=") {
			t.Errorf("health says too much: %s", said)
		}
		return res.StatusCode
	}
	for _, mode := range []string{"fast", "immediate", "kill"} {
		if mode == "kill" {
			database.Kill()
		} else {
			database.Stop(mode)
		}
		a := c.try("queue.produce", object{"queue_name": "work", "items": []object{{"utf8": "away"}}})
		if a.status != http.StatusServiceUnavailable {
			t.Errorf("%s: produce answered %d, want 503", mode, a.status)
		}
		eventually(t, "not ready", func() bool { return ready() == http.StatusServiceUnavailable })
		database.Restart()
		back := time.Now()
		eventually(t, "ready again", func() bool { return ready() == http.StatusOK })
		c.produce("work", object{"utf8": "after " + mode})
		if took := time.Since(back); took > 5*time.Second {
			t.Errorf("%s: worked again after %v, want at most 5s", mode, took)
		}
	}
	if held := c.lease("work", 10); len(held) != 4 || held[0].ItemID != first {
		t.Errorf("leased %d items, want the 4 that were acknowledged", len(held))
	}
}

func TestDemo_OnPostgresLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	code, stdout, stderr := harness.Run(t, harness.Options{}, "demo", "--store", url)
	if code != 0 || stderr != "" || !strings.Contains(stdout, "lost         0") {
		t.Errorf("code %d, standard error %q:\n%s", code, stderr, stdout)
	}
	code, stdout, stderr = harness.Run(t, harness.Options{}, "migrate", "status", "--store", url)
	if code != 0 || !strings.Contains(stdout, "not yet") {
		t.Errorf("migrate status after it: code %d, %s%s; want nothing applied", code, stdout, stderr)
	}
	code, stdout, stderr = harness.Run(t, harness.Options{}, "serve", "--no-migrate", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--store", url)
	if code != 1 || !strings.Contains(stderr, "posthaste migrate up") {
		t.Errorf("serve --no-migrate on an empty database: code %d, %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = harness.Run(t, harness.Options{}, "migrate", "up", "--store", url)
	if code != 0 || strings.Contains(stdout, "not yet") {
		t.Errorf("migrate up: code %d, %s%s", code, stdout, stderr)
	}
	_, c := node(t, url, "--no-migrate")
	c.call("queues.create", object{"queue_name": "work"}, nil)
}
