package e2e_test

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// quick tries three times, soon.
var quick = object{"retry": object{"max_attempts": 3, "schedule": []string{"200ms", "200ms"}}}

func pushArrivesSigned(t *testing.T, e *env) {
	r := newReceiver(t)
	secret := e.subscribe(e.queue, r.URL+"/hook", nil)
	id := e.produce(e.queue, object{
		"utf8": `{"n":1}`, "encoding": "application/json", "kind": "order.paid", "reference": "o-1",
		"headers": object{"X-Shop": "north"},
	})[0]

	p := r.next()
	p.verify(t, secret)
	if p.method != http.MethodPost || string(p.body) != `{"n":1}` {
		t.Errorf("got %s %q", p.method, p.body)
	}
	p.expect(t, map[string]string{
		"webhook-id": id, "Content-Type": "application/json", "X-Shop": "north",
		"posthaste-queue": e.queue, "posthaste-subscription": e.queue, "posthaste-kind": "order.paid",
		"posthaste-reference": "o-1", "posthaste-attempt": "1", "posthaste-max-attempts": "12", "webhook-hop": "1",
	})
	if agent := p.header.Get("User-Agent"); !strings.HasPrefix(agent, "posthaste/") {
		t.Errorf("User-Agent: got %q", agent)
	}
	eventually(t, "an empty queue", func() bool { return e.stats(e.queue).Total == 0 })
}

// odd are payloads that a careless path would change.
var odd = [][]byte{
	{},
	{0},
	[]byte("a\x00b\r\n\xff\xfe\xc3("),
	[]byte(" \n leading and trailing \t\n"),
	bytes.Repeat([]byte{0xf0, 0x9f}, 100_000),
}

func pushBytesArrive(t *testing.T, e *env) {
	r := newReceiver(t)
	secret := e.subscribe(e.queue, r.URL, nil)
	for i, payload := range odd {
		// In base64 and raw, in turn.
		if i%2 == 0 {
			e.produce(e.queue, object{"bytes": base64.StdEncoding.EncodeToString(payload)})
		} else if a, err := e.post("/v1/produce/"+e.queue, "application/x-odd", nil, payload); err != nil || a.status != http.StatusCreated {
			t.Fatalf("raw produce: status %d: %s, %v", a.status, a.raw, err)
		}
		p := r.next()
		p.verify(t, secret)
		if !bytes.Equal(p.body, payload) {
			t.Errorf("payload %d of %d bytes: got %d other bytes", i, len(payload), len(p.body))
		}
		want := "application/octet-stream"
		if i%2 == 1 {
			want = "application/x-odd"
		}
		p.expect(t, map[string]string{"Content-Type": want})
	}
}

func pushFailingEndpoint(t *testing.T, e *env) {
	r := newReceiver(t, http.StatusInternalServerError)
	secret := e.subscribe(e.queue, r.URL, quick)
	id := e.produce(e.queue, object{"utf8": "poison", "kind": "bad"})[0]

	var times []time.Time
	for attempt := range 3 {
		p := r.next()
		p.verify(t, secret)
		p.expect(t, map[string]string{"webhook-id": id, "posthaste-attempt": string(rune('1' + attempt)), "posthaste-max-attempts": "3"})
		if attempt > 0 {
			p.expect(t, map[string]string{"posthaste-previous-status": "500", "posthaste-retry-reason": "status"})
		}
		times = append(times, p.at)
	}
	for i, at := range times[1:] {
		// Jitter may take away nine tenths of the step, no more.
		if gap := at.Sub(times[i]); gap < 20*time.Millisecond {
			t.Errorf("attempt %d came %s after the one before, want a tenth of 200 ms at least", i+2, gap)
		}
	}
	it := e.buried(e.dead)
	if it.ID != id || it.Kind != "bad" || string(it.Payload) != "poison" {
		t.Errorf("on the dead-letter queue: %+v, want item %s as it was", it, id)
	}
	if it.Dead.Reason == "" || it.Dead.LastStatus != http.StatusInternalServerError {
		t.Errorf("reason %q, status %d, want a reason and 500", it.Dead.Reason, it.Dead.LastStatus)
	}
	if s := e.stats(e.queue); s.Total != 0 {
		t.Errorf("queue still holds %d items", s.Total)
	}
	if it.Deliveries != 3 {
		t.Errorf("given out %d times, want 3", it.Deliveries)
	}
	r.noneBefore(e.client, e.queue+"-marker")
}

func pushRetryAfter(t *testing.T, e *env) {
	first := make(chan struct{}, 1)
	first <- struct{}{}
	r := scriptedReceiver(t, func(w http.ResponseWriter, _ push) {
		select {
		case <-first:
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
		}
	})
	// One attempt only: that the second comes proves that the first did not count.
	e.subscribe(e.queue, r.URL, object{"retry": object{"max_attempts": 1}})
	e.produce(e.queue, object{"utf8": "x"})

	asked, again := r.next(), r.next()
	if gap := again.at.Sub(asked.at); gap < 1900*time.Millisecond {
		t.Errorf("came again after %s, asked for 2s", gap)
	}
	again.expect(t, map[string]string{"posthaste-attempt": "2"})
	eventually(t, "an empty queue", func() bool { return e.stats(e.queue).Total == 0 })
}

func pushGone(t *testing.T, e *env) {
	r := newReceiver(t, http.StatusGone, http.StatusOK)
	e.subscribe(e.queue, r.URL, object{"max_in_flight": 1})
	first := e.produce(e.queue, object{"utf8": "first"})[0]
	r.next()

	var info struct{ State, Reason string }
	eventually(t, "disabled", func() bool {
		e.call("subscriptions.info", object{"name": e.queue}, &info)
		return info.State == "disabled"
	})
	if info.Reason == "" {
		t.Error("disabled without a reason")
	}
	second := e.produce(e.queue, object{"utf8": "second"})[0]
	eventually(t, "both items parked", func() bool { s := e.stats(e.queue); return s.Total == 2 && s.Leased == 0 })
	r.noneBefore(e.client, e.queue+"-marker")
	deliveries := map[string]int32{first: 1, second: 0}
	for _, it := range e.items(e.queue) {
		if it.Attempts != 0 || it.Deliveries != deliveries[it.ID] {
			t.Errorf("item %s: %d attempts and %d deliveries, want none counted and %d", it.ID, it.Attempts, it.Deliveries, deliveries[it.ID])
		}
	}

	e.call("subscriptions.enable", object{"name": e.queue}, nil)
	ids := []string{r.next().header.Get("webhook-id"), r.next().header.Get("webhook-id")}
	if !slices.Contains(ids, first) || !slices.Contains(ids, second) {
		t.Errorf("delivered %v, want %s and %s", ids, first, second)
	}
	eventually(t, "an empty queue", func() bool { return e.stats(e.queue).Total == 0 })
}

func pushDelayed(t *testing.T, e *env) {
	r := newReceiver(t)
	e.subscribe(e.queue, r.URL, nil)
	before := time.Now()
	e.produce(e.queue, object{"utf8": "later", "delay": "1500ms"})
	if s := e.stats(e.queue); s.Scheduled != 1 {
		t.Errorf("scheduled: got %d, want 1", s.Scheduled)
	}
	p := r.next()
	switch late := p.at.Sub(before) - 1500*time.Millisecond; {
	case late < 0:
		t.Errorf("came %s early", -late)
	case late > 10*time.Second:
		t.Errorf("came %s late", late)
	}
}

func pushPaused(t *testing.T, e *env) {
	r := newReceiver(t)
	e.subscribe(e.queue, r.URL, object{"paused": true})
	id := e.produce(e.queue, object{"utf8": "x"})[0]
	// The same queue can be pulled meanwhile.
	it := e.lease(e.queue, 1)[0]
	if it.ItemID != id {
		t.Errorf("leased %s, want %s", it.ItemID, id)
	}
	e.call("queue.release", object{"receipts": []string{it.Receipt}}, nil)
	r.noneBefore(e.client, e.queue+"-marker")
	if it := e.items(e.queue)[0]; it.Deliveries != 1 {
		t.Errorf("given out %d times, want once, to us", it.Deliveries)
	}
	e.call("subscriptions.resume", object{"name": e.queue}, nil)
	r.next().expect(t, map[string]string{"webhook-id": id, "posthaste-attempt": "2"})
}

func pushSecondSubscription(t *testing.T, e *env) {
	r := newReceiver(t)
	e.subscribe(e.queue, r.URL, nil)
	a := e.refused(http.StatusConflict, "already_exists", "subscriptions.create",
		object{"name": e.queue + "-2", "queue_name": e.queue, "url": r.URL})
	if !strings.Contains(a.Message, "topic") || !strings.Contains(a.Message, e.queue) {
		t.Errorf("no hint in %q", a.Message)
	}
}
