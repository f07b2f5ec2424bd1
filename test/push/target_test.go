package push_test

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func targetOwn(t *testing.T, e *env) {
	a, b := newReceiver(t, nil), newReceiver(t, nil)
	secret := e.subscribe(e.queue, "", object{"allow_target": true, "headers": object{"X-Shop": "north"}}).Secret
	ids := e.produce(e.queue,
		object{"utf8": "to a", "target": object{"url": a.URL + "/a"}},
		object{"utf8": "to b", "target": object{"url": b.URL + "/b", "method": "PUT", "timeout": "3s"}},
	)
	for i, r := range []*receiver{a, b} {
		got := r.next()
		want := []arrival{{method: "POST", path: "/a", body: []byte("to a")}, {method: "PUT", path: "/b", body: []byte("to b")}}[i]
		if got.id() != ids[i] || got.method != want.method || got.path != want.path || string(got.body) != string(want.body) {
			t.Errorf("got %s %s %q of item %s, want %s %s %q", got.method, got.path, got.body, got.id(), want.method, want.path, want.body)
		}
		if !got.verifies(t, secret) {
			t.Errorf("%s: not signed with the subscription's secret", got.path)
		}
		if it := e.ended(e.queue, ids[i]); it.State != "completed" {
			t.Errorf("%s: got %+v, want it completed", got.path, it)
		}
	}
	// What the subscription has for its own endpoint does not go to whom a producer names.
	c := newReceiver(t, nil)
	e.call("subscriptions.update", object{"name": e.queue, "url": c.URL, "auth": object{"bearer": "for-c-alone"}}, nil)
	e.produce(e.queue, object{"utf8": "to c"})
	c.next().expect(t, map[string]string{"X-Shop": "north", "Authorization": "Bearer for-c-alone"})
	e.produce(e.queue, object{"utf8": "to a", "target": object{"url": a.URL}, "headers": object{"X-Own": "1"}})
	a.next().expect(t, map[string]string{"X-Shop": "", "Authorization": "", "X-Own": "1"})
}

// refusing returns a URL to which connections are refused.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

func targetHostDown(t *testing.T, e *env) { e.otherHosts(t, refusing(t)) }

func targetHostHangs(t *testing.T, e *env) {
	done := make(chan struct{})
	r := newReceiver(t, func(http.ResponseWriter, arrival) { <-done })
	t.Cleanup(func() { close(done) })
	e.otherHosts(t, r.URL)
}

// The subscription's own endpoint is one host among those of targets, with the same limits.
func targetOwnEndpointHangs(t *testing.T, e *env) {
	done := make(chan struct{})
	own := newReceiver(t, func(http.ResponseWriter, arrival) { <-done })
	t.Cleanup(func() { close(done) })
	well := newReceiver(t, nil)
	e.subscribe(e.queue, own.URL, object{"allow_target": true, "max_in_flight": 4, "timeout": "20s"})
	items := make([]object, 200)
	for i := range items {
		items[i] = object{"utf8": strconv.Itoa(i)}
	}
	e.produce(e.queue, items...)
	for range 4 {
		own.next()
	}
	began := time.Now()
	const others = 20
	for range others {
		e.produce(e.queue, object{"utf8": "well", "target": object{"url": well.URL}})
	}
	for range others {
		well.next()
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the items with targets took %s", took)
	}
	select {
	case a := <-own.arrivals:
		t.Errorf("a fifth request runs at the subscription's own endpoint: %s", a.body)
	default:
	}
}

// otherHosts puts many items for one host before those of another one, which must not wait
// for it.
func (e *env) otherHosts(t *testing.T, trouble string) {
	well := newReceiver(t, nil)
	e.subscribe(e.queue, "", object{"allow_target": true, "max_in_flight": 4, "timeout": "20s"})
	var items []object
	for i := range 200 {
		items = append(items, object{"utf8": strconv.Itoa(i), "target": object{"url": trouble}})
	}
	e.produce(e.queue, items...)
	began := time.Now()
	const others = 20
	for range others {
		e.produce(e.queue, object{"utf8": "well", "target": object{"url": well.URL}})
	}
	for range others {
		well.next()
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the other host's items took %s", took)
	}
	eventually(t, "the lane shows the host that has trouble", func() bool {
		var info struct {
			Lane struct {
				Hosts []struct{ Host string }
			}
		}
		e.call("subscriptions.info", object{"name": e.queue}, &info)
		return slices.ContainsFunc(info.Lane.Hosts, func(h struct{ Host string }) bool { return strings.HasSuffix(trouble, h.Host) })
	})
}

func targetForbidden(t *testing.T, e *env) {
	e.subscribe(e.queue, "", object{"allow_target": true, "retry": object{"max_attempts": 1}})
	for _, url := range []string{
		"http://169.254.169.254/latest", "http://10.0.0.1/", "http://[::1]:8080/", "ftp://127.0.0.1/", "http://user:pass@127.0.0.1/",
		// We are no target either, though the network that we listen on is open.
		e.server.URL, e.server.AdminURL,
	} {
		a := e.try("queue.produce", object{"queue_name": e.queue, "items": []object{{"utf8": "x", "target": object{"url": url}}}})
		if a.status != http.StatusBadRequest || a.Details["field"] != "items[0].target.url" {
			t.Errorf("%s: got %d: %s; want 400 at items[0].target.url", url, a.status, a.raw)
		}
	}
}

func targetNotAllowed(t *testing.T, e *env) {
	r := newReceiver(t, nil)
	item := []object{{"utf8": "x", "target": object{"url": r.URL}}}
	e.call("queues.create", object{"queue_name": e.queue + "-pulled"}, nil)
	e.subscribe(e.queue, r.URL, nil)
	for _, queue := range []string{e.queue, e.queue + "-pulled"} {
		a := e.refused(http.StatusBadRequest, "invalid", "queue.produce", object{"queue_name": queue, "items": item})
		if !strings.Contains(a.Message, "allow_target") {
			t.Errorf("no way on in %q", a.Message)
		}
		if n := e.total(queue); n != 0 {
			t.Errorf("%s holds %d items after a refusal", queue, n)
		}
	}
	e.call("subscriptions.update", object{"name": e.queue, "allow_target": true}, nil)
	id := e.produce(e.queue, item...)[0]
	if a := r.next(); a.id() != id {
		t.Errorf("item %s came, want %s", a.id(), id)
	}
}
