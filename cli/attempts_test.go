package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
	"github.com/posthaste-io/posthaste/test/inproc"
)

// hook is an endpoint that fails every second request, with something a terminal obeys.
func hook(t *testing.T) *httptest.Server {
	t.Helper()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%2 == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, "a\x1b[31mb\x00\xff")
	}))
	t.Cleanup(server.Close)
	return server
}

func TestAttempts_AreListed(t *testing.T) {
	s := newShell(t, inproc.Options{Pushes: true})
	s.ok("subscriptions", "create", "shop", "orders", hook(t).URL, "--schedule", "0s", "--max-in-flight", "1")
	id := strings.TrimSpace(s.ok("produce", "orders", "x"))
	var list []map[string]any
	for deadline := time.Now().Add(20 * time.Second); len(list) < 2; {
		if time.Now().After(deadline) {
			t.Fatalf("the log has %v, want two attempts", list)
		}
		list = s.objects("attempts", "list", "--item", id, "--oldest-first", "--json")
	}
	if list[0]["verdict"] != "retryable" || list[0]["status"] != 500.0 || list[0]["attempt"] != 1.0 || list[0]["next"] != "retry" ||
		list[1]["verdict"] != "delivered" || list[1]["next"] != "complete" || list[1]["subscription"] != "shop" {
		t.Errorf("got %v", list)
	}
	r := s.run("", "attempts", "list", "--limit", "1", "--queue", "orders", "--since", "1h")
	if fields := strings.Split(r.out, "\t"); len(fields) != 11 || fields[1] != "attempt" || fields[2] != "delivered" || fields[3] != "200" ||
		fields[8] != id || fields[9] != "2" || !strings.Contains(r.errors, "there are more") {
		t.Errorf("got %+v, want the newest, and to be told that there are more", r)
	}
	if got := s.ok("attempts", "list", "--subscription", "shop", "--verdict", "retryable", "--type", "attempt", "--until", "2000-01-01T00:00:00Z"); got != "" {
		t.Errorf("before there was anything: got %q", got)
	}
}

// What an endpoint answers is shown to people in whose terminal it must do nothing.
func TestH11_TheAnswerToATestIsShownEscaped(t *testing.T) {
	s := newShell(t, inproc.Options{Pushes: true})
	s.ok("subscriptions", "create", "shop", "orders", hook(t).URL)
	r := s.run("", "subscriptions", "test", "shop")
	if r.status != exitFailed || !strings.Contains(r.out, "verdict\tretryable\nstatus\t500\n") || !strings.Contains(r.out, `a\u001b[31mb\u0000\xff`) ||
		strings.ContainsAny(r.out, "\x1b\x00") || strings.Contains(r.out, "\xff") {
		t.Errorf("got status %d and %q", r.status, r.out)
	}
	if got := s.object("subscriptions", "test", "shop", `{"a":1}`, "-k", "mine"); got["verdict"] != "delivered" || got["status"] != 200.0 {
		t.Errorf("the second time: got %v", got)
	}
	if r := s.run("", "subscriptions", "test", "shop", "x", "-f", "y"); r.status != exitUsage {
		t.Errorf("two payloads: got %v", r.err)
	}
	shown := onScreen(t, true, outcomeRecord(client.Attempt{Verdict: "delivered", Response: []byte("\x1b[2J")}).print)
	if strings.Contains(shown, "\x1b[2J") || !strings.Contains(shown, `\u001b[2J`) {
		t.Errorf("on a terminal: got %q", shown)
	}
}

// attemptLog is the log of a server, which may be away.
type attemptLog struct {
	mu    sync.Mutex
	lines []client.Attempt
	away  bool
}

// list is what a client does.
func (l *attemptLog) list(_ context.Context, f client.AttemptFilter) iter.Seq2[client.Attempt, error] {
	return func(yield func(client.Attempt, error) bool) {
		l.mu.Lock()
		lines, away := slices.Clone(l.lines), l.away
		l.mu.Unlock()
		if away {
			yield(client.Attempt{}, &client.Error{Method: "attempts.list", Err: errors.New("connection refused")})
			return
		}
		slices.SortStableFunc(lines, func(a, b client.Attempt) int { return a.At.Compare(b.At) })
		if !f.OldestFirst {
			slices.Reverse(lines)
		}
		for _, a := range lines {
			if a.At.Before(f.From) || f.Subscription != "" && f.Subscription != a.Subscription {
				continue
			}
			if !yield(a, nil) {
				return
			}
		}
	}
}

// add adds a line, at so much before now.
func (l *attemptLog) add(id string, before time.Duration, verdict string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, client.Attempt{
		ItemID: id, Type: "attempt", Subscription: "shop", Attempt: 1, Verdict: verdict, At: time.Now().Add(-before),
	})
}

func (l *attemptLog) set(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
}

// tailed runs a tail over a log in a bubble of time while do does something with the log;
// it returns the items that were printed, in order.
func tailed(t *testing.T, f *tailCommand, since time.Duration, do func(l *attemptLog)) (ids []string, notes string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := new(attemptLog)
		l.add("old", time.Minute, "delivered")
		l.add("just before", time.Second, "delivered")
		ctx, stop := context.WithCancel(t.Context())
		var out, messages bytes.Buffer
		c := newConsole(Streams{Out: &out, Err: &messages})
		f.Every, f.JSON = 500*time.Millisecond, true
		tl := &tail{list: l.list, filter: client.AttemptFilter{Subscription: f.Subscription, OldestFirst: true}}
		if since > 0 {
			tl.filter.From = time.Now().Add(-since)
		} else if err := tl.skip(ctx); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- f.follow(ctx, c, tl) }()
		do(l)
		<-time.After(time.Second)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("got %v; an interrupt is how it is ended", err)
		}
		for _, a := range decode(t, out.String()) {
			ids = append(ids, a["item_id"].(string))
		}
		notes = messages.String()
	})
	return ids, notes
}

func TestTail_GivesEachLineOnce(t *testing.T) {
	t.Parallel()
	got, _ := tailed(t, new(tailCommand), 0, func(l *attemptLog) {
		for i := range 5 {
			l.add(fmt.Sprint("a", i), 0, "delivered")
		}
		<-time.After(2 * time.Second)
		l.add("late", 3*time.Second, "delivered") // its transaction began before those that are given
		l.add("new", 0, "delivered")
		<-time.After(10 * time.Second)
		l.add("later", 0, "delivered")
		<-time.After(10 * time.Second)
	})
	if want := []string{"a0", "a1", "a2", "a3", "a4", "late", "new", "later"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTail_BeginsWhereItIsTold(t *testing.T) {
	t.Parallel()
	got, _ := tailed(t, new(tailCommand), 10*time.Second, func(l *attemptLog) { l.add("new", 0, "delivered") })
	if want := []string{"just before", "new"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTail_GoesOnWhereItWasWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	got, notes := tailed(t, new(tailCommand), 0, func(l *attemptLog) {
		l.add("before", 0, "delivered")
		<-time.After(time.Second)
		l.set(true)
		l.add("meanwhile", 0, "delivered")
		<-time.After(time.Minute)
		l.set(false)
		l.add("after", 0, "delivered")
	})
	if want := []string{"before", "meanwhile", "after"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if strings.Count(notes, "connection refused") != 1 || strings.Count(notes, "answers again") != 1 {
		t.Errorf("told %q, want both once", notes)
	}
}

func TestTail_GivesFailuresAlone(t *testing.T) {
	t.Parallel()
	got, _ := tailed(t, &tailCommand{Failures: true}, 0, func(l *attemptLog) {
		for _, verdict := range []string{"delivered", "retryable", "deferred", "gone", "aborted"} {
			l.add(verdict, 0, verdict)
		}
	})
	if want := []string{"retryable", "gone", "aborted"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// One that finds nothing must not read all that others write, again and again.
func TestTail_MovesOnWhereNothingIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := new(attemptLog)
		tl := &tail{list: l.list, filter: client.AttemptFilter{Subscription: "other", OldestFirst: true}}
		l.add("a", 0, "delivered")
		if err := tl.look(t.Context(), func(a client.Attempt) error { return errors.New(a.ItemID) }); err != nil {
			t.Fatal(err)
		}
		if since := time.Since(tl.end); since != 0 {
			t.Errorf("the next look begins %s and some seconds ago, want those alone", since)
		}
	})
}

func TestTail_PrintsALineForPeople(t *testing.T) {
	t.Parallel()
	a := client.Attempt{
		ItemID: "i-1", Queue: "orders", Subscription: "shop", Attempt: 2, Type: "attempt", Verdict: "retryable", Status: 503, Next: "retry",
		At: time.Date(2030, 1, 31, 8, 0, 0, 0, time.Local), Duration: 120 * time.Millisecond, Error: "status: 503\x1b",
	}
	a.NextAt = a.At.Add(5 * time.Second)
	got := onScreen(t, false, func(c *console) error { return new(tailCommand).print(c, a) })
	if want := "08:00:00.000  retryable   503    120ms  shop  i-1 #2  retry in 5s  status: 503\\u001b\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestTail_FollowsAServerUntilItIsInterrupted(t *testing.T) {
	s := newShell(t, inproc.Options{Pushes: true})
	s.ok("subscriptions", "create", "shop", "orders", hook(t).URL, "--schedule", "0s")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var out bytes.Buffer
	lines := writer(func(p []byte) (int, error) {
		n, err := out.Write(p)
		if bytes.Count(out.Bytes(), []byte("\n")) == 2 {
			cancel(errors.New("signal: interrupt"))
		}
		return n, err
	})
	ended := make(chan result, 1)
	go func() {
		ended <- s.runTo(ctx, lines, strings.NewReader(""), "tail", "--queue", "orders", "--since", "1h", "--every", "100ms")
	}()
	id := strings.TrimSpace(s.ok("produce", "orders", "x"))
	select {
	case r := <-ended:
		rows := strings.Split(strings.TrimSpace(out.String()), "\n")
		if r.err != nil || len(rows) != 2 || !strings.Contains(rows[0], "\tretryable\t500\t") || !strings.Contains(rows[1], "\tdelivered\t200\t") || !strings.Contains(rows[1], id) {
			t.Errorf("got %+v and\n%s", r, out.String())
		}
	case <-time.After(20 * time.Second):
		t.Fatal("two attempts were not followed within 20s")
	}
	if r := s.run("", "tail", "--queue", "nosuch"); r.status != exitFailed || !strings.Contains(r.err.Error(), "not_found") {
		t.Errorf("of a queue that is not there: got %+v", r)
	}
}
