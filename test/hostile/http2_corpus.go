package hostile

import (
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// CorpusHTTP2 returns the behaviours of HTTP/2. They need a request with a body.
func CorpusHTTP2() []Behaviour {
	list := linkBehaviours()
	list = append(list, streamBehaviours()...)
	list = append(list, headBehaviours()...)
	list = append(list, answerBehaviours()...)
	for i := range list {
		list[i].OnlyTLS = true
		if list[i].ID == "" {
			list[i].ID = "H-06"
		}
		list[i].Name = "HTTP/2: " + list[i].Name
	}
	return list
}

func nothing(*Link, uint32) {}

// linkBehaviours are about the connection.
func linkBehaviours() []Behaviour {
	setting := func(id http2.SettingID, value uint32) func(*Link) {
		return func(l *Link) { l.WriteSettings(http2.Setting{ID: id, Val: value}) }
	}
	goAway := func(code http2.ErrCode, debug string) func(*Link, uint32) {
		return func(l *Link, _ uint32) { l.WriteGoAway(0, code, []byte(debug)); l.Close() }
	}
	ends := func(l *Link, _ uint32) { l.Close() }
	// Bytes that are no frames look like an end.
	unclear := []string{"reset_after_write"}
	// What ends before the request may end at any point of it, also where there is a
	// connection and no HTTP/2 on it yet.
	early := []string{"reset_after_write", "closed_before_write", "unreachable"}
	// A flood ends with the sender's patience, or with what it reads beside answers.
	tooMuch := []string{"bad_response"}
	return []Behaviour{
		{Name: "no settings", Want: timedOut, Slow: true, Unread: true, HTTP2: &HTTP2{Greet: func(*Link) {}, Answer: nothing}},
		{Name: "no settings but an answer", Want: delivered(200), Keeps: true, HTTP2: &HTTP2{Greet: func(*Link) {}, Answer: status(200)}},
		{Name: "answers in HTTP/1", Want: broken, Classes: unclear, HTTP2: &HTTP2{Answer: raw(okay)}},
		{Name: "greets in HTTP/1", Want: broken, Classes: early, Unread: true, HTTP2: &HTTP2{Greet: func(l *Link) { l.Say(okay) }, Answer: nothing}},
		{Name: "noise", Want: broken, Classes: unclear, HTTP2: &HTTP2{Answer: raw(strings.Repeat("\xff\x00", 100))}},
		{Name: "settings without end", Want: timedOut, Classes: tooMuch, Slow: true, HTTP2: &HTTP2{Answer: func(l *Link, _ uint32) {
			l.Repeat(func() error { return l.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 1}) })
		}}},
		{Name: "pings without end", Want: timedOut, Classes: tooMuch, Slow: true, HTTP2: &HTTP2{Answer: func(l *Link, _ uint32) {
			l.Repeat(func() error { return l.WritePing(false, [8]byte{}) })
		}}},
		{Name: "unknown frames without end", Want: timedOut, Classes: tooMuch, Slow: true, HTTP2: &HTTP2{Answer: func(l *Link, _ uint32) {
			l.Repeat(func() error { return l.WriteRawFrame(0xfe, 0, 0, make([]byte, 1000)) })
		}}},
		{Name: "pings nobody asked for are answered to", Want: delivered(200), Keeps: true, HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) {
			l.WritePing(true, [8]byte{1})
			status(200)(l, stream)
		}}},
		{Name: "window beyond what there is", Want: broken, Classes: early, Unread: true, HTTP2: &HTTP2{Greet: setting(http2.SettingInitialWindowSize, 1<<31), Answer: nothing}},
		{Name: "frames beyond what there is", Want: broken, Classes: early, Unread: true, HTTP2: &HTTP2{Greet: setting(http2.SettingMaxFrameSize, 1<<24), Answer: nothing}},
		{Name: "settings of a stream", Want: broken, HTTP2: &HTTP2{Answer: raw("\x00\x00\x00\x04\x00\x00\x00\x00\x01")}},
		{Name: "settings of five bytes", Want: broken, HTTP2: &HTTP2{Answer: raw("\x00\x00\x05\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00")}},
		{Name: "frame of 16 MiB", Want: broken, Classes: unclear, HTTP2: &HTTP2{Answer: raw("\xff\xff\xff\x00\x00\x00\x00\x00\x01" + strings.Repeat("x", 1<<16))}},
		{Name: "table of 4 GiB", Want: delivered(200), Keeps: true, HTTP2: &HTTP2{Greet: setting(http2.SettingHeaderTableSize, 1<<32-1), Answer: status(200)}},
		{Name: "window of nothing", Want: timedOut, Slow: true, Unread: true, HTTP2: &HTTP2{Greet: setting(http2.SettingInitialWindowSize, 0), Answer: nothing}},
		{Name: "window of nothing, and a success", Want: delivered(200), Keeps: true, HTTP2: &HTTP2{Early: true, Greet: setting(http2.SettingInitialWindowSize, 0), Answer: status(200)}},
		{Name: "window of nothing, and a refusal", Want: rejected(413), Keeps: true, HTTP2: &HTTP2{Early: true, Greet: setting(http2.SettingInitialWindowSize, 0), Answer: status(413)}},
		{Name: "window that overflows", Want: broken, Classes: []string{"reset_after_write"}, HTTP2: &HTTP2{Answer: func(l *Link, _ uint32) {
			l.WriteWindowUpdate(0, 1<<31-1)
			l.WriteWindowUpdate(0, 1<<31-1)
		}}},
		{Name: "window that grows by nothing", Want: broken, Classes: []string{"reset_after_write"}, HTTP2: &HTTP2{Answer: func(l *Link, _ uint32) { l.WriteWindowUpdate(0, 0) }}},
		{Name: "goes away", Want: cutOff, HTTP2: &HTTP2{Answer: goAway(http2.ErrCodeNo, "")}},
		{Name: "goes away and asks for calm", Want: cutOff, Classes: []string{"bad_response"}, HTTP2: &HTTP2{Answer: goAway(http2.ErrCodeEnhanceYourCalm, "too_many_pings")}},
		{Name: "goes away with many words", Want: cutOff, Classes: []string{"bad_response"}, HTTP2: &HTTP2{Answer: goAway(http2.ErrCodeInternal, strings.Repeat("\x00\x1b[31m\xff", 1000))}},
		{Name: "goes away and answers", Want: delivered(200), HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) {
			l.WriteGoAway(stream, http2.ErrCodeNo, nil)
			status(200)(l, stream)
		}}},
		{Name: "goes away behind the answer", Want: delivered(200), Spoils: true, HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) {
			status(200)(l, stream)
			l.WriteGoAway(stream, http2.ErrCodeNo, nil)
			l.Pause(slight)
		}}},
		{Name: "closes behind the answer", Want: delivered(200), HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) {
			status(200)(l, stream)
			l.Pause(slight)
			l.Close()
		}}},
		{Name: "closes instead of an answer", Want: cutOff, HTTP2: &HTTP2{Answer: ends}},
		{Name: "closes in place of settings", Want: cutOff, Classes: append(early, "bad_response"), Unread: true, HTTP2: &HTTP2{Greet: func(l *Link) { l.Close() }, Answer: nothing}},
		{Name: "resets instead of an answer", Want: cutOff, HTTP2: &HTTP2{Answer: func(l *Link, _ uint32) { l.Reset() }}},
		{Name: "half closes instead of an answer", Want: cutOff, HTTP2: &HTTP2{Answer: func(l *Link, _ uint32) { l.HalfClose() }}},
	}
}

// streamBehaviours are about the one stream.
func streamBehaviours() []Behaviour {
	reset := func(code http2.ErrCode) *HTTP2 {
		return &HTTP2{Answer: func(l *Link, stream uint32) { l.WriteRSTStream(stream, code) }}
	}
	return []Behaviour{
		{Name: "silence", Want: timedOut, Slow: true, HTTP2: &HTTP2{Answer: nothing}},
		{ID: "D-11", Name: "refuses the stream", Want: cutOff, HTTP2: reset(http2.ErrCodeRefusedStream)},
		{Name: "cancels the stream", Want: cutOff, HTTP2: reset(http2.ErrCodeCancel)},
		{Name: "breaks the stream", Want: cutOff, HTTP2: reset(http2.ErrCodeInternal)},
		{Name: "asks for calm", Want: cutOff, HTTP2: reset(http2.ErrCodeEnhanceYourCalm)},
		{Name: "asks for HTTP/1", Want: cutOff, HTTP2: reset(http2.ErrCodeHTTP11Required)},
		{Name: "resets with a code that there is not", Want: cutOff, HTTP2: reset(0xffffffff)},
		{Name: "resets before it has read", Want: cutOff, HTTP2: &HTTP2{Early: true, Greet: func(l *Link) { l.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize}) }, Answer: func(l *Link, stream uint32) { l.WriteRSTStream(stream, http2.ErrCodeNo) }}},
		{Name: "resets behind the status", Want: delivered(200), HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) {
			l.Head(stream, false, ":status", "200")
			l.WriteRSTStream(stream, http2.ErrCodeInternal)
		}}},
		{Name: "resets the whole link's stream", Want: broken, HTTP2: &HTTP2{Answer: func(l *Link, _ uint32) { l.WriteRSTStream(0, http2.ErrCodeNo) }}},
		{Name: "answers a stream that nobody asked on", Want: timedOut, Classes: []string{"bad_response"}, Slow: true, HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) { status(200)(l, stream+2) }}},
		{Name: "answers a stream of its own", Want: timedOut, Classes: []string{"bad_response"}, Slow: true, HTTP2: &HTTP2{Answer: func(l *Link, _ uint32) { status(200)(l, 2) }}},
		{Name: "pushes", Want: broken, HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) {
			l.WritePushPromise(http2.PushPromiseParam{StreamID: stream, PromiseID: 2, BlockFragment: l.Encode(":method", "GET"), EndHeaders: true})
		}}},
		{Name: "data before headers", Want: broken, HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) { l.WriteData(stream, true, []byte("x")) }}},
		{Name: "data of no stream", Want: broken, HTTP2: &HTTP2{Answer: func(l *Link, _ uint32) { l.WriteData(0, true, []byte("x")) }}},
		{Name: "answers twice", Want: delivered(200), Keeps: true, HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) {
			status(200)(l, stream)
			status(410)(l, stream)
		}}},
	}
}

// headBehaviours are about headers.
func headBehaviours() []Behaviour {
	const kib = 1 << 10
	nonsense := func(status int) Outcome {
		return Outcome{Verdict: "retryable", Status: status, Class: "bad_response"}
	}
	loose := []string{"bad_response", "too_large_headers"}
	return []Behaviour{
		{ID: "H-04", Name: "continuations without end", Want: tooLarge, Classes: loose, HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) {
			l.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: l.Encode(":status", "200")})
			block := l.Encode("x-flood", strings.Repeat("x", 100))
			block = []byte(strings.Repeat(string(block), 100))
			l.Repeat(func() error { return l.WriteContinuation(stream, false, block) })
		}}},
		{ID: "H-04", Name: "empty continuations without end", Want: timedOut, Classes: loose, Slow: true, HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) {
			l.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: l.Encode(":status", "200")})
			l.Repeat(func() error { return l.WriteContinuation(stream, false, nil) })
		}}},
		{ID: "H-04", Name: "headers within the limit", Want: delivered(200), Keeps: true, HTTP2: &HTTP2{Answer: headers(":status", "200", "x-large", strings.Repeat("x", 60*kib))}},
		{ID: "H-04", Name: "header beyond the limit", Want: broken, Classes: loose, HTTP2: &HTTP2{Answer: headers(":status", "200", "x-large", strings.Repeat("x", 70*kib))}},
		{ID: "H-04", Name: "headers beyond the limit", Want: tooLarge, HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) {
			fields := []string{":status", "200"}
			for range 70 {
				fields = append(fields, "x-kib", strings.Repeat("x", kib))
			}
			l.Head(stream, true, fields...)
		}}},
		{ID: "H-04", Name: "bomb of HPACK", Want: tooLarge, HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) {
			// An entry of 3 KiB in the table, and then its index ten thousand times.
			block := l.Encode(":status", "200", "x-bomb", strings.Repeat("x", 3*kib))
			block = append(block, []byte(strings.Repeat("\xbe", 10_000))...)
			l.Block(stream, true, block)
		}}},
		{Name: "broken HPACK", Want: broken, HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) { l.Block(stream, true, []byte("\xff\xff\xff\xff\xff\xff")) }}},
		{Name: "index that the table has not", Want: broken, HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) { l.Block(stream, true, []byte("\xfe")) }}},
		{Name: "headers that never end", Want: timedOut, Slow: true, HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) {
			l.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: l.Encode(":status", "200")})
		}}},
		{Name: "something else between headers", Want: broken, HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) {
			l.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: l.Encode(":status", "200")})
			l.WritePing(false, [8]byte{})
		}}},
		{ID: "H-05", Name: "flood of 103", Want: tooLarge, Classes: loose, HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) {
			for l.Head(stream, false, ":status", "103", "link", strings.Repeat("x", 100)) {
			}
		}}},
		{ID: "H-05", Name: "some of 1xx before a success", Want: delivered(204), Keeps: true, HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) {
			l.Head(stream, false, ":status", "100")
			l.Head(stream, false, ":status", "103", "link", "</x>")
			l.Head(stream, true, ":status", "204")
		}}},
		{ID: "H-05", Name: "1xx and the end", Want: broken, HTTP2: &HTTP2{Answer: status(103)}},
		{ID: "H-05", Name: "101", Want: broken, HTTP2: &HTTP2{Answer: status(101)}},
		{ID: "H-08", Name: "no status", Want: broken, HTTP2: &HTTP2{Answer: headers("x", "y")}},
		{ID: "H-08", Name: "two statuses", Want: broken, HTTP2: &HTTP2{Answer: headers(":status", "200", ":status", "500")}},
		{ID: "H-08", Name: "status behind a header", Want: broken, HTTP2: &HTTP2{Answer: headers("x", "y", ":status", "200")}},
		{ID: "H-08", Name: "status abc", Want: broken, HTTP2: &HTTP2{Answer: headers(":status", "abc")}},
		{ID: "H-08", Name: "status 20", Want: broken, HTTP2: &HTTP2{Answer: headers(":status", "20")}},
		{ID: "H-08", Name: "status 2000", Want: broken, HTTP2: &HTTP2{Answer: headers(":status", "2000")}},
		{ID: "H-08", Name: "status -200", Want: broken, HTTP2: &HTTP2{Answer: headers(":status", "-200")}},
		{ID: "H-08", Name: "empty status", Want: broken, HTTP2: &HTTP2{Answer: headers(":status", "")}},
		{ID: "H-08", Name: "status 999", Want: nonsense(999), Keeps: true, HTTP2: &HTTP2{Answer: status(999)}},
		{ID: "H-08", Name: "status 600", Want: nonsense(600), Keeps: true, HTTP2: &HTTP2{Answer: status(600)}},
		{ID: "H-08", Name: "pseudo header of requests", Want: broken, HTTP2: &HTTP2{Answer: headers(":status", "200", ":path", "/")}},
		{ID: "H-08", Name: "name in upper case", Want: broken, HTTP2: &HTTP2{Answer: headers(":status", "200", "X-Upper", "y")}},
		{ID: "H-08", Name: "line end in a header", Want: broken, HTTP2: &HTTP2{Answer: headers(":status", "200", "x", "y\r\nz: a")}},
		{ID: "H-08", Name: "NUL in a header", Want: broken, HTTP2: &HTTP2{Answer: headers(":status", "200", "x", "y\x00z")}},
	}
}

// answerBehaviours are about what is said, and how much of it.
func answerBehaviours() []Behaviour {
	body := func(then func(l *Link, stream uint32), fields ...string) *HTTP2 {
		return &HTTP2{Answer: func(l *Link, stream uint32) {
			if l.Head(stream, false, fields...) {
				then(l, stream)
			}
		}}
	}
	data := func(text string) func(*Link, uint32) {
		return func(l *Link, stream uint32) { l.WriteData(stream, true, []byte(text)) }
	}
	return []Behaviour{
		{ID: "H-01", Name: "endless body", Want: delivered(200), HTTP2: body(func(l *Link, stream uint32) {
			l.Repeat(func() error { return l.WriteData(stream, false, make([]byte, 1000)) })
		}, ":status", "200")},
		{ID: "H-01", Name: "endless empty frames", Want: delivered(200), Slow: true, HTTP2: body(func(l *Link, stream uint32) {
			l.Repeat(func() error { return l.WriteData(stream, false, nil) })
		}, ":status", "200")},
		{ID: "H-01", Name: "more padding than body", Want: delivered(200), HTTP2: body(func(l *Link, stream uint32) {
			l.Repeat(func() error { return l.WriteDataPadded(stream, false, []byte("x"), make([]byte, 255)) })
		}, ":status", "200"), Slow: true},
		{ID: "H-01", Name: "more than the length", Want: delivered(200), HTTP2: body(data("body"), ":status", "200", "content-length", "1")},
		{ID: "H-01", Name: "less than the length", Want: delivered(200), HTTP2: body(data("body"), ":status", "200", "content-length", "100")},
		{ID: "H-01", Name: "length beyond 64 bits", Want: delivered(200), Keeps: true, HTTP2: body(data("body"), ":status", "200", "content-length", "99999999999999999999")},
		{ID: "H-01", Name: "body behind 204", Want: delivered(204), Keeps: true, HTTP2: body(data("body"), ":status", "204")},
		{ID: "H-01", Name: "trailers beyond the limit", Want: delivered(200), HTTP2: body(func(l *Link, stream uint32) {
			l.WriteData(stream, false, []byte("body"))
			l.Head(stream, true, "x-late", strings.Repeat("x", 100<<10))
		}, ":status", "200")},
		{ID: "H-02", Name: "slow body", Want: delivered(200), Slow: true, HTTP2: body(func(l *Link, stream uint32) {
			for l.WriteData(stream, false, []byte("x")) == nil && l.Pause(10*time.Millisecond) {
			}
		}, ":status", "200")},
		{ID: "H-02", Name: "body that stops", Want: retryable(500), Slow: true, HTTP2: body(func(l *Link, stream uint32) {
			l.WriteData(stream, false, []byte("half"))
		}, ":status", "500")},
		{ID: "H-03", Name: "gzip bomb", Want: delivered(200), Keeps: true, HTTP2: body(func(l *Link, stream uint32) {
			_, packed, _ := strings.Cut(bomb(), "\r\n\r\n")
			for len(packed) > 16000 {
				l.WriteData(stream, false, []byte(packed[:16000]))
				packed = packed[16000:]
			}
			l.WriteData(stream, true, []byte(packed))
		}, ":status", "200", "content-encoding", "gzip")},
		{ID: "H-07", Name: "closes a body without a goodbye", Want: delivered(200), HTTP2: body(func(l *Link, stream uint32) {
			l.WriteData(stream, false, []byte("half"))
			l.Close()
		}, ":status", "200")},
		{ID: "N-08", Name: "redirect to metadata", Want: rejected(307), Keeps: true, HTTP2: &HTTP2{Answer: headers(":status", "307", "location", "http://169.254.169.254/")}},
		{ID: "N-08", Name: "redirect to another host", Want: rejected(308), Keeps: true, HTTP2: &HTTP2{Answer: func(l *Link, stream uint32) {
			l.Head(stream, true, ":status", "308", "location", "http://"+l.Elsewhere()+"/")
		}}},
		{ID: "N-10", Name: "challenge", Want: rejected(401), Keeps: true, HTTP2: &HTTP2{Answer: headers(":status", "401", "www-authenticate", "Basic realm=x", "set-cookie", "a=b")}},
		{ID: "N-10", Name: "misdirected", Want: rejected(421), Keeps: true, HTTP2: &HTTP2{Answer: status(421)}},
		{ID: "C-02", Name: "429, later: -1", Want: Outcome{Verdict: "throttled", Status: 429, Class: "status"}, Keeps: true, HTTP2: &HTTP2{Answer: headers(":status", "429", "retry-after", "-1")}},
		{ID: "C-03", Name: "gone", Want: Outcome{Verdict: "gone", Status: 410, Class: "status"}, Keeps: true, HTTP2: &HTTP2{Answer: status(410)}},
	}
}
