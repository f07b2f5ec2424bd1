package e2e_test

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
	"github.com/posthaste-io/posthaste/test/harness"
)

// scheduled is what schedules.info says, as far as tests look.
type scheduled struct {
	Name         string
	Paused       bool
	NextAt       time.Time `json:"next_at"`
	LastAt       time.Time `json:"last_at"`
	LastItemID   string    `json:"last_item_id"`
	MissedCount  int32     `json:"missed_count"`
	SkippedCount int32     `json:"skipped_count"`
}

// everySecond makes a schedule whose items tell their time, and are pushed to r.
func (c *client) everySecond(r *receiver) {
	c.t.Helper()
	c.subscribe("beats", r.URL, nil)
	c.call("schedules.create", object{
		"name": "beat", "cron": "@every 1s", "queue_name": "beats",
		"item": object{"utf8": "{{nominal_at}}", "kind": "beat"},
	}, nil)
}

func (c *client) schedule(name string) (s scheduled) {
	c.t.Helper()
	c.call("schedules.info", object{"name": name}, &s)
	return s
}

// beats waits until items for n more times were pushed. made has the item of each time,
// and there is but one, however often it is pushed. What a busy machine misses is let go.
func (r *receiver) beats(n int, made map[time.Time]string) {
	r.t.Helper()
	for want := len(made) + n; len(made) < want; {
		p := r.next()
		p.expect(r.t, map[string]string{"posthaste-kind": "beat"})
		at, err := time.Parse(time.RFC3339, string(p.body))
		if err != nil {
			r.t.Fatalf("a push with %q, want a time", p.body)
		}
		if p.at.Before(at) {
			r.t.Errorf("the push for %v came early, at %v", at, p.at)
		}
		id := p.header.Get("webhook-id")
		if other, known := made[at]; known && other != id {
			r.t.Errorf("items %s and %s for %v, want one", other, id, at)
		}
		made[at] = id
	}
}

func TestSchedules_C09_FireAcrossACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newReceiver(t)
	server, c := onDisk(t, dir)
	c.everySecond(r)
	made := map[time.Time]string{}
	r.beats(3, made)
	if s := c.schedule("beat"); s.LastAt.IsZero() || !s.NextAt.After(s.LastAt) || s.LastItemID == "" {
		t.Errorf("info says %+v, want when it fired and fires", s)
	}
	if got := scrape(t, server)[`posthaste_schedule_items_total{schedule="beat"}`]; got < 3 {
		t.Errorf("metrics tell of %v items, want 3 at least", got)
	}
	server.Kill()

	server, c = onDisk(t, dir)
	r.beats(4, made)
	if _, known := scrape(t, server)[`posthaste_schedule_lag_seconds{schedule="beat"}`]; !known {
		t.Error("metrics do not tell how late the last fire was")
	}
	c.call("schedules.pause", object{"name": "beat"}, nil)
	if s := c.schedule("beat"); !s.Paused || !s.NextAt.IsZero() {
		t.Errorf("info says %+v, want that it is paused", s)
	}
}

// Each time has one item, whichever node makes it.
func TestSchedules_C08_TwoNodesFireOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	r := newReceiver(t)
	serverA, a := node(t, url)
	serverB, b := node(t, url)
	a.everySecond(r)
	made := map[time.Time]string{}
	r.beats(6, made)
	b.call("schedules.pause", object{"name": "beat"}, nil)
	for last := a.schedule("beat").LastAt; made[last] == ""; {
		r.beats(1, made)
	}
	counted := scrape(t, serverA)[`posthaste_schedule_items_total{schedule="beat"}`] +
		scrape(t, serverB)[`posthaste_schedule_items_total{schedule="beat"}`]
	if int(counted) != len(made) {
		t.Errorf("the nodes made %v items, and %d came", counted, len(made))
	}
	r.noneBefore(a, "marker")
}

// A schedule is fired by the node that lives, whichever made it.
func TestSchedules_C08_ANodeThatDiesIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	r := newReceiver(t)
	_, a := node(t, url)
	serverB, b := node(t, url)
	b.everySecond(r)
	r.beats(1, map[time.Time]string{})
	last := b.schedule("beat").LastAt
	serverB.Kill()
	eventually(t, "fires of the other node", func() bool { return a.schedule("beat").LastAt.After(last.Add(2 * time.Second)) })
}

func TestSchedules_FaultsNameTheirField(t *testing.T) {
	t.Parallel()
	server := harness.Start(t, harness.Options{Store: "memory:"})
	c := newClient(t, server.URL)
	c.call("queues.create", object{"queue_name": "work"}, nil)
	for field, change := range map[string]object{
		"cron":       {"cron": "61 * * * *"},
		"zone":       {"zone": "../../etc/passwd"},
		"missed.max": {"missed": object{"max": 101}},
		"overlap":    {"overlap": "sometimes"},
	} {
		request := object{"name": "s", "cron": "@hourly", "queue_name": "work", "item": object{"utf8": "x"}}
		maps.Copy(request, change)
		got := c.refused(http.StatusBadRequest, "invalid", "schedules.create", request)
		if got.Details["field"] != field {
			t.Errorf("%s: the answer names %v", field, got.Details)
		}
	}
}
