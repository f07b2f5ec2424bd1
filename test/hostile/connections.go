package hostile

import "time"

// connections are those that end when they should not, or do not when they should.
func connections() []Behaviour {
	const large = 32 << 20                    // more than buffers on the way hold
	closed := []string{"closed_before_write"} // where its end was seen before anything was written
	refusal := withLength("413 x", "too much")
	return []Behaviour{
		{ID: "H-07", Name: "closed at once", Want: cutOff, Classes: closed, Unread: true, Play: func(c *Conn) { c.Close() }},
		{ID: "H-07", Name: "reset at once", Want: cutOff, Classes: append(closed, "connection_reset"), Unread: true, Play: func(c *Conn) { c.Reset() }},
		{ID: "H-07", Name: "no answer", Want: cutOff, Play: answersAndEnds("")},
		{ID: "H-07", Name: "reset instead of an answer", Want: cutOff, Play: func(c *Conn) { c.Request(); c.Reset() }},
		{ID: "H-07", Name: "reset midway of the request", Want: cutOff, Unread: true, Body: large, Play: func(c *Conn) { c.Nibble(); c.Reset() }},
		{ID: "H-07", Name: "closed midway of the request", Want: cutOff, Unread: true, Body: large, Play: func(c *Conn) { c.Nibble(); c.Close() }},
		{ID: "H-07", Name: "half closed", Want: cutOff, Play: func(c *Conn) {
			c.Request()
			c.HalfClose()
			c.Hang()
		}},
		{ID: "H-07", Name: "half closed before the request", Want: cutOff, Classes: closed, Unread: true, Play: func(c *Conn) {
			c.HalfClose()
			c.Request()
			c.Hang()
		}},
		{ID: "H-07", Name: "cut in the status line", Want: broken, Play: answersAndEnds("HTTP/1.1 2")},
		{ID: "H-07", Name: "cut in the headers", Want: broken, Play: answersAndEnds("HTTP/1.1 200 OK\r\nX: ")},
		{ID: "H-07", Name: "half closed behind the answer", Want: delivered(200), Spoils: true, Play: func(c *Conn) {
			answers(okay)(c)
			c.HalfClose()
		}},
		{ID: "D-11", Name: "closed behind the answer", Want: delivered(200), Play: answersAndEnds(okay)},
		{ID: "D-11", Name: "closed while idle", Want: delivered(200), Spoils: true, Play: func(c *Conn) {
			if c.Request() && c.Say(okay) && c.Pause(slight) {
				c.Close()
			}
		}},
		{ID: "D-11", Name: "reset while idle", Want: delivered(200), Spoils: true, Play: func(c *Conn) {
			if c.Request() && c.Say(okay) && c.Pause(slight) {
				c.Reset()
			}
		}},
		{ID: "D-11", Name: "says that it closes, and does not", Want: delivered(200), Play: answers("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")},
		{ID: "D-11", Name: "says that it keeps, under HTTP/1.0", Want: delivered(200), Keeps: true, Play: answers("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n")},
		{ID: "D-11", Name: "keeps for no time at all", Want: delivered(200), Keeps: true, Play: answers("HTTP/1.1 200 OK\r\nKeep-Alive: timeout=0, max=0\r\nContent-Length: 0\r\n\r\n")},
		{ID: "H-07", Name: "answers before it is asked", Want: delivered(200), Keeps: true, Play: func(c *Conn) {
			c.Say(okay)
			c.Request()
		}},
		{ID: "H-07", Name: "refuses before it has read", Want: rejected(413), Unread: true, Body: large, Play: func(c *Conn) {
			c.Nibble()
			c.Say(refusal)
			c.Pause(slight)
			c.Close()
		}},
		{ID: "H-07", Name: "refuses and never reads", Want: rejected(413), Unread: true, Body: large, Play: func(c *Conn) {
			c.Nibble()
			c.Say(refusal)
			c.Pause(time.Second)
		}},
		{ID: "H-07", Name: "succeeds before it has read", Want: delivered(200), Unread: true, Body: large, Play: func(c *Conn) {
			c.Nibble()
			c.Say(okay)
			c.Pause(time.Second)
		}},
		{ID: "H-07", Name: "fails before it has read, and half closes", Want: retryable(503), Unread: true, Body: large, Play: func(c *Conn) {
			c.Nibble()
			c.Say(withLength("503 x", ""))
			c.HalfClose()
			c.Pause(time.Second)
		}},
		{ID: "D-11", Name: "asks to repeat the request", Want: rejected(421), Keeps: true, Play: answers(withLength("421 Misdirected Request", ""))},
		{ID: "D-11", Name: "too early", Want: retryable(425), Keeps: true, Play: answers(withLength("425 x", ""))},
	}
}
