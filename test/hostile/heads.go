package hostile

import (
	"strings"
	"time"
)

// slight is long enough that what came before is read alone.
const slight = 50 * time.Millisecond

// slowness is what only the deadline ends.
func slowness() []Behaviour {
	const large = 32 << 20 // more than buffers on the way hold
	return []Behaviour{
		{ID: "H-02", Name: "silence", Want: timedOut, Slow: true, Play: func(c *Conn) { c.Request(); c.Hang() }},
		{ID: "H-02", Name: "slow status line", Want: timedOut, Slow: true, Play: drips("", "HTTP/1.1 200 "+strings.Repeat("O", limit))},
		{ID: "H-02", Name: "slow headers", Want: timedOut, Slow: true, Play: drips("HTTP/1.1 200 OK\r\n", strings.Repeat("X: y\r\n", limit))},
		{ID: "H-02", Name: "headers without an end", Want: timedOut, Slow: true, Play: stalls("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n")},
		{ID: "H-02", Name: "half a status line", Want: timedOut, Slow: true, Play: stalls("HTTP/1.1 2")},
		{ID: "H-02", Name: "slow body", Want: delivered(200), Slow: true, Play: drips("HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n", strings.Repeat("x", limit))},
		{ID: "H-02", Name: "slow body of an error", Want: retryable(503), Slow: true, Play: drips("HTTP/1.1 503 x\r\nContent-Length: 1048576\r\n\r\n", strings.Repeat("x", limit))},
		{ID: "H-02", Name: "body that stops", Want: delivered(200), Slow: true, Play: stalls("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")},
		{ID: "H-02", Name: "chunks that stop", Want: delivered(200), Slow: true, Play: stalls("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")},
		{ID: "H-02", Name: "body without length or end", Want: delivered(200), Slow: true, Play: stalls("HTTP/1.1 200 OK\r\n\r\nhalf")},
		{ID: "H-02", Name: "request that is never read", Want: timedOut, Slow: true, Unread: true, Body: large, Play: func(c *Conn) { c.Pause(2 * time.Second) }},
		{ID: "H-02", Name: "request that is read by the byte", Want: timedOut, Slow: true, Unread: true, Body: large, Play: func(c *Conn) {
			for range 200 {
				if _, err := c.Read(make([]byte, 1)); err != nil || !c.Pause(5*time.Millisecond) {
					return
				}
			}
		}},
		{ID: "H-05", Name: "slow interim answers", Want: timedOut, Slow: true, Play: func(c *Conn) {
			for c.Request(); c.Say("HTTP/1.1 100 Continue\r\n\r\n") && c.Pause(20*time.Millisecond); {
			}
		}},
	}
}

// drips reads the request, says a text, and then another byte by byte.
func drips(first, then string) func(*Conn) {
	return func(c *Conn) {
		if c.Request() && c.Say(first) {
			c.Drip(then)
		}
	}
}

// stalls reads the request, says a text, and then nothing.
func stalls(text string) func(*Conn) {
	return func(c *Conn) {
		answers(text)(c)
		c.Hang()
	}
}

// heads are headers that are too many, too long, or none.
func heads() []Behaviour {
	const first = "HTTP/1.1 200 OK\r\n"
	head := func(line string) func(*Conn) { return answers(first + line + "\r\nContent-Length: 0\r\n\r\n") }
	lines := func(kib int) string { return strings.Repeat("X-Kib: "+strings.Repeat("x", 1015)+"\r\n", kib) }
	return []Behaviour{
		{ID: "H-04", Name: "endless headers", Want: tooLarge, Play: floods(first, "X-Flood: xxxxxxxxxxxxxxxx\r\n")},
		{ID: "H-04", Name: "endless headers of an error", Want: tooLarge, Play: floods("HTTP/1.1 500 x\r\n", "X-Flood: xxxxxxxxxxxxxxxx\r\n")},
		{ID: "H-04", Name: "endless header", Want: tooLarge, Play: floods(first+"X-Flood: ", "x")},
		{ID: "H-04", Name: "endless name of a header", Want: tooLarge, Play: floods(first, "x")},
		{ID: "H-04", Name: "endless fold", Want: tooLarge, Play: floods(first+"X: a\r\n", " b\r\n")},
		{ID: "H-04", Name: "endless status line", Want: tooLarge, Play: floods("HTTP/1.1 200 ", "OK")},
		{ID: "H-04", Name: "endless first word", Want: tooLarge, Play: floods("", "HTTP")},
		{ID: "H-04", Name: "headers within the limit", Want: delivered(200), Keeps: true, Play: head(strings.TrimSuffix(lines(60), "\r\n"))},
		{ID: "H-04", Name: "headers beyond the limit", Want: tooLarge, Play: head(strings.TrimSuffix(lines(65), "\r\n"))},
		{ID: "H-08", Name: "folded header", Want: delivered(200), Keeps: true, Play: head("X: a\r\n b\r\n\tc")},
		{ID: "H-08", Name: "fold before any header", Want: broken, Play: head(" X: a")},
		{ID: "H-08", Name: "header without a colon", Want: broken, Play: head("X-Flag")},
		{ID: "H-08", Name: "header without a name", Want: broken, Play: head(": x")},
		{ID: "H-08", Name: "space before the colon", Want: delivered(200), Keeps: true, Play: head("Content-Length : 0")},
		{ID: "H-08", Name: "NUL in a header", Want: broken, Play: head("X: a\x00b")},
		{ID: "H-08", Name: "NUL in a header's name", Want: broken, Play: head("X\x00: a")},
		{ID: "H-08", Name: "lone CR in a header", Want: broken, Play: head("X: a\rb")},
		{ID: "H-11", Name: "broken UTF-8 in a header", Want: delivered(200), Keeps: true, Play: head("X: \xff\xc3(")},
		{ID: "H-08", Name: "line feeds alone", Want: delivered(200), Keeps: true, Play: answers("HTTP/1.1 200 OK\nContent-Length: 0\n\n")},
		{ID: "H-08", Name: "no headers and no end", Want: broken, Play: answersAndEnds("HTTP/1.1 200 OK\r\n")},
	}
}

// interim are answers before the answer, and those that would take the connection over.
func interim() []Behaviour {
	const early = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
	return []Behaviour{
		{ID: "H-05", Name: "flood of 103", Want: tooLarge, Play: floods("", early)},
		{ID: "H-05", Name: "flood of 100", Want: tooLarge, Play: floods("", "HTTP/1.1 100 Continue\r\n\r\n")},
		{ID: "H-05", Name: "endless headers of a 103", Want: tooLarge, Play: floods("HTTP/1.1 103 x\r\n", "X-Flood: xxxxxxxxxxxxxxxx\r\n")},
		{ID: "H-05", Name: "thousands of 103 before a success", Want: tooLarge, Play: answers(strings.Repeat(early, 5000) + okay)},
		{ID: "H-05", Name: "some of 1xx before a success", Want: delivered(204), Keeps: true, Play: answers("HTTP/1.1 100 x\r\n\r\n" + early + "HTTP/1.1 199 x\r\n\r\nHTTP/1.1 204 x\r\n\r\n")},
		{ID: "H-05", Name: "102 before an error", Want: retryable(500), Keeps: true, Play: answers("HTTP/1.1 102 x\r\n\r\n" + withLength("500 x", "no"))},
		{ID: "H-05", Name: "1xx and the end", Want: broken, Play: answersAndEnds(early)},
		{ID: "H-05", Name: "101 to a websocket", Want: switched, Play: answers("HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")},
		{ID: "H-05", Name: "101 to nothing", Want: switched, Play: answers("HTTP/1.1 101 x\r\n\r\n")},
		{ID: "H-05", Name: "101 to HTTP/2, with its first frame", Want: switched, Play: answers("HTTP/1.1 101 x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n" + settingsFrame)},
		{ID: "H-05", Name: "101 and a flood", Want: switched, Play: floods("HTTP/1.1 101 x\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", "x")},
		{ID: "H-05", Name: "200 that upgrades", Want: delivered(200), Keeps: true, Play: answers("HTTP/1.1 200 OK\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n")},
		{ID: "H-05", Name: "426", Want: rejected(426), Keeps: true, Play: answers("HTTP/1.1 426 x\r\nUpgrade: TLS/1.3, HTTP/2.0\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n")},
	}
}

var switched = Outcome{Verdict: "retryable", Status: 101, Class: "bad_response"}

// settingsFrame is how a server of HTTP/2 begins.
const settingsFrame = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
