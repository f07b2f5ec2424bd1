package hostile_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/test/hostile"
)

const (
	maxAttempts = 2
	// largest is how much of a payload is pushed here; what needs more is for the sender's
	// own tests.
	largest = 1 << 20
	// mostMemory and mostGoroutines bound the server with all endpoints at it at once.
	mostMemory     = 256 << 20
	mostGoroutines = 10 // for each endpoint
	// mostLog bounds what endpoints can have the server say of them.
	mostLog = 64 << 10
)

// TestF20_HostileEndpointsEndInTheDeadLetterQueueOrWhereTheirAnswersSay pushes one item to
// each behaviour, all at once, beside an endpoint that is well.
func TestF20_HostileEndpointsEndInTheDeadLetterQueueOrWhereTheirAnswersSay(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, store.url(t))
			quiet := s.usage()
			healthy := beginHealthy(s)
			victims := beginVictims(s)
			peak := quiet
			eventually(t, "end of all items", func() bool {
				now := s.usage()
				peak.goroutines, peak.memory = max(peak.goroutines, now.goroutines), max(peak.memory, now.memory)
				victims.look(s)
				return victims.left() == 0
			})
			healthy.judge(t)
			t.Logf("INV-17: %d goroutines and %d MiB at most, %d and %d before", peak.goroutines, peak.memory>>20, quiet.goroutines, quiet.memory>>20)
			if most := quiet.goroutines + mostGoroutines*len(victims); peak.goroutines > most {
				t.Errorf("%d goroutines, want at most %d", peak.goroutines, most)
			}
			if !instrumented && peak.memory > mostMemory {
				t.Errorf("%d MiB of memory, want at most %d", peak.memory>>20, mostMemory>>20)
			}
			if n := len(s.Log()); n > mostLog {
				t.Errorf("the endpoints had the server write %d bytes of log at level warn", n)
			}
			for _, v := range victims {
				t.Run(v.behaviour.String(), func(t *testing.T) { v.judge(t, &server{s.Server, t}) })
			}
		})
	}
}

// victim is an item whose endpoint misbehaves.
type victim struct {
	behaviour *hostile.Behaviour
	want      hostile.Outcome
	overTLS   bool
	endpoint  *hostile.Endpoint
	queue, id string
	// attempts are its journal, once its end is in it.
	attempts []attempt
}

type victimsOf []*victim

// beginVictims subscribes each behaviour, over TLS every second one, and then produces.
func beginVictims(s *server) victimsOf {
	corpus := slices.Concat(hostile.Corpus(), hostile.CorpusHTTP2())
	var all victimsOf
	for i := range corpus {
		b := &corpus[i]
		if b.Body > largest {
			continue
		}
		v := &victim{behaviour: b, overTLS: b.OnlyTLS || i%2 == 1, queue: fmt.Sprintf("victim-%d", i)}
		v.want, v.endpoint = b.Over(v.overTLS), hostile.Start(s.t, b, v.overTLS)
		timeout := "20s"
		if b.Slow {
			timeout = "1s"
		}
		s.call("subscriptions.create", object{
			"name": v.queue, "queue_name": v.queue, "url": v.endpoint.URL, "timeout": timeout,
			"http2": b.HTTP2 != nil, "retry": object{"max_attempts": maxAttempts, "schedule": []string{"100ms"}},
		}, nil)
		all = append(all, v)
	}
	if len(all) < 60 {
		s.t.Errorf("%d behaviours, want at least 60", len(all))
	}
	for _, v := range all {
		v.id = s.produce(v.queue, "x")
	}
	return all
}

// last is the step that ends it.
func (v *victim) last() string {
	switch {
	case v.want.Verdict == "delivered":
		return "complete"
	case v.want.Verdict == "gone", v.want.RetryAfter > 0:
		return "release"
	default:
		return "bury"
	}
}

// look asks the journal for those that have not ended.
func (all victimsOf) look(s *server) {
	for _, v := range all {
		if v.attempts != nil {
			continue
		}
		if log := s.attempts(v.id); len(log) > 0 && (log[len(log)-1].Next != "retry" || len(log) > maxAttempts) {
			v.attempts = log
		}
	}
}

func (all victimsOf) left() (n int) {
	for _, v := range all {
		if v.attempts == nil {
			n++
		}
	}
	return n
}

// judge holds the journal against what the endpoint saw, and the item against both.
func (v *victim) judge(t *testing.T, s *server) {
	tries := 1
	if v.last() == "bury" {
		tries = maxAttempts
	}
	if len(v.attempts) != tries {
		t.Errorf("INV-05: %d attempts in the journal, want %d: %+v", len(v.attempts), tries, v.attempts)
	}
	before := int32(0)
	for i, a := range v.attempts {
		class, _, _ := strings.Cut(a.Error, ":")
		rises := a.Attempt > before // with gaps, where it was given back in between
		if before = a.Attempt; a.Type != "attempt" || !rises || a.Verdict != v.want.Verdict || a.Status != v.want.Status || !v.behaviour.Fits(v.overTLS, class) {
			t.Errorf("attempt %d is %+v, want %+v", i+1, a, v.want)
		}
		if step := "retry"; i < len(v.attempts)-1 && a.Next != step {
			t.Errorf("attempt %d was followed by %s, want %s", i+1, a.Next, step)
		}
	}
	last := v.attempts[len(v.attempts)-1]
	if last.Next != v.last() {
		t.Errorf("its end is %s, want %s", last.Next, v.last())
	}
	v.compare(t)

	info := s.info(v.id)
	switch v.last() {
	case "complete":
		if info.State != "completed" {
			t.Errorf("the item is %s, want completed", info.State)
		}
		return
	case "release":
		if info.Attempts != 0 || info.State != "ready" && info.State != "scheduled" && info.State != "retrying" {
			t.Errorf("the item is %s with %d attempts counted, want one that waits with none", info.State, info.Attempts)
		}
		if v.want.Verdict == "gone" && info.Why != "subscription_disabled" {
			t.Errorf("the item waits since %s, want since its subscription is disabled", info.Why)
		}
	case "bury":
		if reason := s.deadReason(v.queue + "~dead"); info.State != "buried" || reason != "max_attempts" {
			t.Errorf("the item is %s for %q, want buried for max_attempts", info.State, reason)
		}
	}
	class, _, _ := strings.Cut(info.LastError, ":")
	if info.LastStatus != v.want.Status || !v.behaviour.Fits(v.overTLS, class) {
		t.Errorf("the item's last status is %d, last error %q; want %+v", info.LastStatus, info.LastError, v.want)
	}
}

// compare has the journal account for all that came to the endpoint: a request for each
// attempt, or where none is read a connection.
func (v *victim) compare(t *testing.T) {
	tries, e := len(v.attempts), v.endpoint
	if e.Requests() > tries || e.Connections() > tries || e.Requests() > maxAttempts {
		t.Errorf("INV-05: %d requests on %d connections, and %d attempts in the journal", e.Requests(), e.Connections(), tries)
	}
	if max(e.Requests(), e.Connections()) != tries || !v.behaviour.Unread && e.Requests() != tries {
		t.Errorf("INV-06: %d requests on %d connections do not account for %d attempts", e.Requests(), e.Connections(), tries)
	}
	if e.Strayed() != 0 {
		t.Errorf("INV-19: the endpoint led %d connections elsewhere", e.Strayed())
	}
}

// TestH12_AnEndpointIsNotTheServerItself: neither as it is configured nor over hops.
func TestH12_AnEndpointIsNotTheServerItself(t *testing.T) {
	t.Parallel()
	s := start(t, "memory:")
	for _, url := range []string{
		s.URL + "/v1/queue.produce", s.AdminURL, strings.Replace(s.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1),
	} {
		status, answer := s.try("subscriptions.create", object{"name": "loop", "queue_name": "loop", "url": url})
		if status != http.StatusBadRequest || !strings.Contains(string(answer), "url") {
			t.Errorf("%s: status %d: %s", url, status, answer)
		}
	}
	s.call("queues.create", object{"queue_name": "hops"}, nil)
	item := object{"queue_name": "hops", "items": []object{{"utf8": "x"}}}
	if status, answer := s.try("queue.produce", item, "webhook-hop", "4"); status != http.StatusOK {
		t.Errorf("4 hops: status %d: %s", status, answer)
	}
	if status, answer := s.try("queue.produce", item, "webhook-hop", "5"); status != http.StatusBadRequest {
		t.Errorf("5 hops: status %d: %s", status, answer)
	}
}

// mostLate bounds the p99 of the endpoint that is well, from the produce to its request.
const mostLate = 2 * time.Second

func percentile(all []time.Duration, share float64) time.Duration {
	slices.Sort(all)
	return all[min(int(share*float64(len(all))), len(all)-1)]
}
