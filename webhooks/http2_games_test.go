package webhooks

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// player is an endpoint of HTTP/2 that writes the frames it likes.
type player struct {
	*http2.Framer
	conn net.Conn
	out  bytes.Buffer
	enc  *hpack.Encoder
}

// play runs a game for each connection on which HTTP/2 was agreed, and returns a sender that
// trusts the endpoint. The endpoint counts requests by their heads.
func play(t *testing.T, game func(e *endpoint, p *player)) (*endpoint, *Sender) {
	t.Helper()
	ca := newAuthority(t, nowadays)
	config := ca.server(t)
	config.NextProtos = []string{"h2"}
	e := serve(t, func(e *endpoint, c net.Conn, _ int) {
		over := tls.Server(c, config)
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(over, preface); err != nil || string(preface) != http2.ClientPreface {
			return
		}
		p := &player{Framer: http2.NewFramer(over, over), conn: over}
		p.enc = hpack.NewEncoder(&p.out)
		game(e, p)
	})
	e.url = "https://" + e.addr + "/"
	return e, senderThatTrusts(t, ca.pool())
}

func senderThatTrusts(t *testing.T, roots *x509.CertPool) *Sender {
	t.Helper()
	s := NewSender(SenderOptions{Guard: NewGuard(GuardOptions{Allow: rules(t, "127.0.0.0/8")}), RootCAs: roots})
	t.Cleanup(s.Close)
	return s
}

// request reads frames until a request's head came, whose stream it returns; 0 if none does.
func (p *player) request(e *endpoint) uint32 {
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return 0
		}
		if h, ok := f.(*http2.HeadersFrame); ok {
			e.requests.Add(1)
			return h.StreamID
		}
	}
}

// wholeRequest reads until a request has ended.
func (p *player) wholeRequest(e *endpoint) uint32 {
	id := p.request(e)
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return 0
		}
		if d, ok := f.(*http2.DataFrame); ok && d.StreamEnded() {
			return id
		}
	}
}

// headers are fields made ready, in pairs of a name and a value.
func (p *player) headers(fields ...string) []byte {
	p.out.Reset()
	for i := 0; i < len(fields); i += 2 {
		p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return p.out.Bytes()
}

func (p *player) answer(id uint32, end bool, fields ...string) error {
	return p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.headers(fields...), EndHeaders: true, EndStream: end})
}

// swallow reads what comes until the connection ends.
func (p *player) swallow() { io.Copy(io.Discard, p.conn) }

// flood writes something again and again, until it cannot.
func flood(write func() error) {
	for write() == nil {
	}
}

func TestH06_GamesOfHTTP2HaveTheirOutcomes(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry"
	big := strings.Repeat("x", 4000)
	type outcome struct {
		verdict Verdict
		status  int
		class   string
	}
	delivered := outcome{Delivered, 200, ""}
	failed := func(class string) outcome { return outcome{Retryable, 0, class} }
	for name, tt := range map[string]struct {
		game func(e *endpoint, p *player)
		want outcome
	}{
		"an answer": {func(e *endpoint, p *player) {
			p.WriteSettings()
			p.answer(p.wholeRequest(e), true, ":status", "200")
			p.swallow()
		}, delivered},
		"an answer before the body is read": {func(e *endpoint, p *player) {
			p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			p.answer(p.request(e), true, ":status", "413")
			p.swallow()
		}, outcome{Rejected, 413, ClassStatus}},
		"a reset": {func(e *endpoint, p *player) {
			p.WriteSettings()
			p.WriteRSTStream(p.wholeRequest(e), http2.ErrCodeInternal)
			p.swallow()
		}, failed(ClassResetAfterWrite)},
		"a refused stream": {func(e *endpoint, p *player) {
			p.WriteSettings()
			p.WriteRSTStream(p.request(e), http2.ErrCodeRefusedStream)
			p.swallow()
		}, failed(ClassResetAfterWrite)},
		"ENHANCE_YOUR_CALM": {func(e *endpoint, p *player) {
			p.WriteSettings()
			p.WriteRSTStream(p.request(e), http2.ErrCodeEnhanceYourCalm)
			p.swallow()
		}, failed(ClassResetAfterWrite)},
		"GOAWAY before the answer": {func(e *endpoint, p *player) {
			p.WriteSettings()
			p.request(e)
			p.WriteGoAway(0, http2.ErrCodeNo, nil)
			p.swallow()
		}, failed(ClassResetAfterWrite)},
		"GOAWAY that speaks": {func(e *endpoint, p *player) {
			p.WriteSettings()
			p.WriteGoAway(p.wholeRequest(e), http2.ErrCodeEnhanceYourCalm, []byte(canary))
		}, failed(ClassResetAfterWrite)},
		"GOAWAY, and the answer": {func(e *endpoint, p *player) {
			p.WriteSettings()
			id := p.wholeRequest(e)
			p.WriteGoAway(id, http2.ErrCodeNo, nil)
			p.answer(id, true, ":status", "200")
			p.swallow()
		}, delivered},
		"the end": {func(e *endpoint, p *player) {
			p.WriteSettings()
			p.wholeRequest(e)
		}, failed(ClassResetAfterWrite)},
		"silence": {func(_ *endpoint, p *player) { p.swallow() }, failed(ClassTimeout)},
		"SETTINGS without end": {func(e *endpoint, p *player) {
			go p.swallow()
			flood(func() error {
				return p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 65535})
			})
		}, failed(ClassBadResponse)},
		"frames of no kind without end": {func(_ *endpoint, p *player) {
			p.WriteSettings()
			go p.swallow()
			flood(func() error { return p.WriteRawFrame(0xfe, 0, 0, make([]byte, 100)) })
		}, failed(ClassBadResponse)},
		"frames of no kind between others": {func(e *endpoint, p *player) {
			p.WriteSettings()
			id := p.wholeRequest(e)
			for range 100 {
				p.WriteRawFrame(0xfe, 0, 0, make([]byte, 1000))
				p.WriteRawFrame(0x10, 0, 0, nil)
			}
			p.answer(id, true, ":status", "200")
			p.swallow()
		}, delivered},
		"PING without end": {func(_ *endpoint, p *player) {
			p.WriteSettings()
			go p.swallow()
			flood(func() error { return p.WritePing(false, [8]byte{}) })
		}, failed(ClassBadResponse)},
		"1,000 SETTINGS before the answer": {func(e *endpoint, p *player) {
			p.WriteSettings()
			id := p.wholeRequest(e)
			ended := make(chan struct{})
			go func() { defer close(ended); p.swallow() }()
			for range 1000 {
				p.WriteSettings()
			}
			p.answer(id, true, ":status", "200")
			<-ended
		}, delivered},
		"a window of zero": {func(_ *endpoint, p *player) {
			p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			p.swallow()
		}, failed(ClassTimeout)},
		"no streams at all": {func(_ *endpoint, p *player) {
			p.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
			p.swallow()
		}, failed(ClassTimeout)},
		"a window that overflows": {func(e *endpoint, p *player) {
			p.WriteSettings()
			p.request(e)
			p.WriteWindowUpdate(0, 1<<31-1)
			p.swallow()
		}, failed(ClassBadResponse)},
		"headers that unpack to 400 KB": {func(e *endpoint, p *player) {
			p.WriteSettings()
			id := p.wholeRequest(e)
			fields := []string{":status", "200"}
			for range 100 {
				fields = append(fields, "x", big)
			}
			p.answer(id, true, fields...)
			p.swallow()
		}, failed(ClassTooLargeHeaders)},
		"headers that never end": {func(e *endpoint, p *player) {
			p.WriteSettings()
			id := p.wholeRequest(e)
			p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.headers(":status", "200")})
			p.enc.SetMaxDynamicTableSize(0)
			flood(func() error { return p.WriteContinuation(id, false, p.headers("x", big)) })
		}, failed(ClassBadResponse)},
		"1xx without end": {func(e *endpoint, p *player) {
			p.WriteSettings()
			id := p.wholeRequest(e)
			go p.swallow()
			flood(func() error { return p.answer(id, false, ":status", "103") })
		}, failed(ClassTooLargeHeaders)},
		"1xx, and the answer": {func(e *endpoint, p *player) {
			p.WriteSettings()
			id := p.wholeRequest(e)
			p.answer(id, false, ":status", "103", "link", "x")
			p.answer(id, true, ":status", "200")
			p.swallow()
		}, delivered},
		"a body without end": {func(e *endpoint, p *player) {
			p.WriteSettings()
			id := p.wholeRequest(e)
			p.answer(id, false, ":status", "200")
			// As much as the window allows, and then more: whatever the sender says.
			go p.swallow()
			flood(func() error { return p.WriteData(id, false, make([]byte, 1000)) })
		}, delivered},
		"a body that does not come": {func(e *endpoint, p *player) {
			p.WriteSettings()
			p.answer(p.wholeRequest(e), false, ":status", "200")
			p.swallow()
		}, delivered},
		"no status": {func(e *endpoint, p *player) {
			p.WriteSettings()
			p.answer(p.wholeRequest(e), true, "x", canary)
			p.swallow()
		}, failed(ClassBadResponse)},
		"a status that is none": {func(e *endpoint, p *player) {
			p.WriteSettings()
			p.answer(p.wholeRequest(e), true, ":status", canary)
			p.swallow()
		}, failed(ClassBadResponse)},
		"a status below all": {func(e *endpoint, p *player) {
			p.WriteSettings()
			p.answer(p.wholeRequest(e), true, ":status", "-20")
			p.swallow()
		}, failed(ClassBadResponse)},
		"a status above all": {func(e *endpoint, p *player) {
			p.WriteSettings()
			p.answer(p.wholeRequest(e), true, ":status", "999")
			p.swallow()
		}, outcome{Retryable, 999, ClassBadResponse}},
		"a header that is none": {func(e *endpoint, p *player) {
			p.WriteSettings()
			p.answer(p.wholeRequest(e), true, ":status", "200", "X Y", canary+"\r\n")
			p.swallow()
		}, failed(ClassBadResponse)},
		"data before headers": {func(e *endpoint, p *player) {
			p.WriteSettings()
			p.WriteData(p.wholeRequest(e), true, []byte(canary))
			p.swallow()
		}, failed(ClassBadResponse)},
		"a promise": {func(e *endpoint, p *player) {
			p.WriteSettings()
			id := p.wholeRequest(e)
			p.WritePushPromise(http2.PushPromiseParam{
				StreamID: id, PromiseID: 2, BlockFragment: p.headers(":method", "GET"), EndHeaders: true,
			})
			p.swallow()
		}, failed(ClassBadResponse)},
		"no SETTINGS": {func(e *endpoint, p *player) {
			p.answer(p.wholeRequest(e), true, ":status", "200")
			p.swallow()
		}, failed(ClassBadResponse)},
		"HTTP/1.1": {func(e *endpoint, p *player) {
			p.wholeRequest(e)
			io.WriteString(p.conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			p.swallow()
		}, failed(ClassBadResponse)},
		"noise": {func(e *endpoint, p *player) {
			p.wholeRequest(e)
			p.conn.Write(bytes.Repeat([]byte{0xff}, 1000))
			p.swallow()
		}, failed(ClassBadResponse)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, s := play(t, tt.game)
			r := http2Request(e.url)
			if tt.want.class == ClassTimeout {
				r.Timeout = quick
			}
			started := time.Now()
			got := s.Send(t.Context(), r)
			want(t, got, tt.want.verdict, tt.want.status, tt.want.class)
			within(t, started, drainTime)
			if strings.Contains(got.Error, canary) {
				t.Errorf("the result tells what the endpoint said: %q", got.Error)
			}
			// D-11: whatever the endpoint says of it, it was sent once.
			if n := e.accepted.Load(); n != 1 {
				t.Errorf("%d connections for one attempt", n)
			}
			if n := e.requests.Load(); n > 1 {
				t.Errorf("%d requests for one attempt", n)
			}
		})
	}
}

// Whether its answers to us fill all buffers first depends on their sizes.
func TestH06_FramesWithoutEndFromWhoDoesNotReadDoNotHoldAnAttempt(t *testing.T) {
	t.Parallel()
	e, s := play(t, func(_ *endpoint, p *player) {
		flood(func() error { return p.WriteSettings() })
	})
	r := http2Request(e.url)
	r.Timeout = quick
	started := time.Now()
	got := s.Send(t.Context(), r)
	within(t, started, quick)
	if got.Class != ClassTimeout && got.Class != ClassBadResponse {
		t.Errorf("got %+v", got)
	}
}

// What one answer does not use up of what it may bring is not saved for the next.
func TestH06_AnEndpointMaySayAsMuchForEachRequest(t *testing.T) {
	t.Parallel()
	w := &wire{}
	w.allow(1)
	for range 100 {
		w.budget.Add(-1000)
		w.allow(1)
	}
	if got := w.budget.Load(); got != perRequest {
		t.Errorf("one after the other: %d bytes may come", got)
	}
	for running := range 10 {
		w.allow(running + 1)
	}
	if got := w.budget.Load(); got != 10*perRequest {
		t.Errorf("ten at a time: %d bytes may come", got)
	}
}

func TestH06_AConnectionOnWhichAnAnswerWasNotReadToItsEndTakesNoMore(t *testing.T) {
	t.Parallel()
	e, s := play(t, func(e *endpoint, p *player) {
		p.WriteSettings()
		id := p.wholeRequest(e)
		p.answer(id, false, ":status", "200")
		p.WriteData(id, false, bytes.Repeat([]byte("x"), MaxResponse+1))
		p.swallow()
	})
	for range 2 {
		started := time.Now()
		got := s.Send(t.Context(), http2Request(e.url))
		want(t, got, Delivered, 200, "")
		within(t, started, drainTime)
		if len(got.Response) != MaxResponse {
			t.Errorf("kept %d bytes", len(got.Response))
		}
	}
	if n := e.accepted.Load(); n != 2 {
		t.Errorf("2 attempts used %d connections", n)
	}
}

func TestH06_ARequestThatIsGivenUpEndsItsStreamAlone(t *testing.T) {
	t.Parallel()
	second := make(chan struct{})
	e, s := play(t, func(e *endpoint, p *player) {
		p.WriteSettings()
		p.answer(p.wholeRequest(e), true, ":status", "200")
		p.wholeRequest(e) // has no answer
		id := p.wholeRequest(e)
		<-second // until the first was given up
		p.answer(id, true, ":status", "200")
		p.swallow()
	})
	want(t, s.Send(t.Context(), http2Request(e.url)), Delivered, 200, "")
	first := make(chan Result)
	go func() {
		r := http2Request(e.url)
		r.Timeout = quick
		first <- s.Send(t.Context(), r)
	}()
	waitFor(t, "the first request", func() bool { return e.requests.Load() == 2 })
	other := make(chan Result)
	go func() { other <- s.Send(t.Context(), http2Request(e.url)) }()
	want(t, <-first, Retryable, 0, ClassTimeout)
	close(second)
	want(t, <-other, Delivered, 200, "")
	if n := e.accepted.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
