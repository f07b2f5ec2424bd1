package webhooks

import (
	"testing"
	"time"
	"unicode/utf8"

	"github.com/posthaste-io/posthaste/test/hostile"
)

// TestF20_EachHostileBehaviourHasItsOutcome meets every behaviour over TCP and TLS, once
// and then, healed, once more: the second attempt must find nothing left of the first.
func TestF20_EachHostileBehaviourHasItsOutcome(t *testing.T) {
	t.Parallel()
	corpus := hostile.Corpus()
	if len(corpus) < 60 {
		t.Errorf("%d behaviours, want at least 60", len(corpus))
	}
	for i := range corpus {
		b := &corpus[i]
		if !b.OnlyTLS {
			t.Run(b.String()+" over TCP", func(t *testing.T) {
				t.Parallel()
				meet(t, b, false, quick)
			})
		}
		t.Run(b.String()+" over TLS", func(t *testing.T) {
			t.Parallel()
			meet(t, b, true, quick)
		})
	}
}

// TestH06_EachHostileBehaviourOverHTTP2HasItsOutcome is the same over HTTP/2.
func TestH06_EachHostileBehaviourOverHTTP2HasItsOutcome(t *testing.T) {
	t.Parallel()
	corpus := hostile.CorpusHTTP2()
	for i := range corpus {
		b := &corpus[i]
		t.Run(b.String(), func(t *testing.T) {
			t.Parallel()
			meet(t, b, true, quick)
		})
	}
}

const (
	// patience is for what takes a moment, longer on a busy machine.
	patience = 20 * time.Second
	// mostWritten is what an endpoint can say to somebody who does not listen: buffers of
	// the kernel, and the little that is read.
	mostWritten = 8 << 20
)

// meet makes the attempts. Slow behaviours have little time, and once more a lot of it if
// a busy machine did not get as far.
func meet(t *testing.T, b *hostile.Behaviour, overTLS bool, little time.Duration) {
	e := hostile.Start(t, b, overTLS)
	s := NewSender(SenderOptions{
		UserAgent: "posthaste/test", RootCAs: hostile.Roots(),
		Guard: NewGuard(GuardOptions{Allow: rules(t, "127.0.0.0/8")}),
	})
	t.Cleanup(s.Close)
	r := request(e.URL)
	r.HTTP2 = b.HTTP2 != nil
	r.Body = make([]byte, max(b.Body, len(goldenBody)))
	limit := drainTime
	if b.Slow {
		r.Timeout, limit = little, little
	}
	started := time.Now()
	got := s.Send(t.Context(), r)
	within(t, started, limit)

	expect := b.Over(overTLS)
	fits := got.Verdict.String() == expect.Verdict && got.Status == expect.Status && got.RetryAfter == expect.RetryAfter && b.Fits(overTLS, got.Class)
	if b.Slow && little == quick && (!fits || !b.Unread && e.Requests() == 0) {
		meet(t, b, overTLS, 10*quick)
		return
	}
	if !fits {
		t.Errorf("got %v, status %d, class %q, retry after %v (%s); want %+v", got.Verdict, got.Status, got.Class, got.RetryAfter, got.Error, expect)
	}
	if got.Duration <= 0 || len(got.Response) > MaxResponse || len(got.Error) > maxError || !isClean(got.Error) {
		t.Errorf("out of bounds: %v, %d bytes of response, %q", got.Duration, len(got.Response), got.Error)
	}
	if n := e.Connections(); n != 1 {
		t.Errorf("one attempt made %d connections", n)
	}
	if !b.Unread {
		await(t, "request", func() bool { return e.Requests() > 0 })
	}
	if n := e.Requests(); n > 1 {
		t.Errorf("one attempt was %d requests", n)
	}
	if n := e.Written(); n > mostWritten {
		t.Errorf("the endpoint could say %d bytes", n)
	}
	switch {
	case b.Spoils:
		await(t, "end of the script", func() bool { return e.Played() == 1 })
	case !b.Keeps:
		await(t, "end of the connection", func() bool { return e.Open() == 0 })
	}

	e.Heal()
	again := request(e.URL)
	again.HTTP2 = r.HTTP2
	then := s.Send(t.Context(), again)
	if again.HTTP2 && then.Verdict == Retryable && !b.Keeps {
		// That a link has ended is seen a moment later, and not looked for before it is used.
		then = s.Send(t.Context(), again)
	}
	want(t, then, Delivered, 200, "")
	if got, want := e.Reused() == 1, b.Keeps; got != want {
		t.Errorf("the connection was used again: %v, want %v", got, want)
	}
	if s.guard.Refused() != 0 || e.Strayed() != 0 {
		t.Errorf("it was led elsewhere: %d addresses refused, %d connections made", s.guard.Refused(), e.Strayed())
	}
}

func isClean(text string) bool {
	for _, r := range text {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return false
		}
	}
	return utf8.ValidString(text)
}

// await waits for what another goroutine is about to do.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !is() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("no %s in %v", what, patience)
		}
	}
}
