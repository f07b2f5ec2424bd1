package hostile

import "strings"

// statuses are status lines that are odd, or lie.
func statuses() []Behaviour {
	line := func(text string) func(*Conn) { return answers(text + "\r\nContent-Length: 0\r\n\r\n") }
	nonsense := func(status int) Outcome {
		return Outcome{Verdict: "retryable", Status: status, Class: "bad_response"}
	}
	return []Behaviour{
		{ID: "H-08", Name: "status 000", Want: nonsense(0), Keeps: true, Play: line("HTTP/1.1 000 x")},
		{ID: "H-08", Name: "status 099", Want: nonsense(99), Keeps: true, Play: line("HTTP/1.1 099 x")},
		{ID: "H-08", Name: "status 600", Want: nonsense(600), Keeps: true, Play: line("HTTP/1.1 600 x")},
		{ID: "H-08", Name: "status 999", Want: nonsense(999), Keeps: true, Play: line("HTTP/1.1 999 x")},
		{ID: "H-08", Name: "status 20", Want: broken, Play: line("HTTP/1.1 20 x")},
		{ID: "H-08", Name: "status 2000", Want: broken, Play: line("HTTP/1.1 2000 x")},
		{ID: "H-08", Name: "status abc", Want: broken, Play: line("HTTP/1.1 abc x")},
		{ID: "H-08", Name: "status -20", Want: broken, Play: line("HTTP/1.1 -20 x")},
		{ID: "H-08", Name: "status +20", Want: nonsense(20), Keeps: true, Play: line("HTTP/1.1 +20 x")},
		{ID: "H-08", Name: "status 0x1", Want: broken, Play: line("HTTP/1.1 0x1 x")},
		{ID: "H-08", Name: "status in wide digits", Want: broken, Play: line("HTTP/1.1 ２００ x")},
		{ID: "H-08", Name: "status and reason in one", Want: broken, Play: line("HTTP/1.1 200OK")},
		{ID: "H-08", Name: "no status", Want: broken, Play: line("HTTP/1.1 ")},
		{ID: "H-08", Name: "no reason", Want: delivered(200), Keeps: true, Play: line("HTTP/1.1 200")},
		{ID: "H-08", Name: "empty reason", Want: delivered(200), Keeps: true, Play: line("HTTP/1.1 200 ")},
		{ID: "H-11", Name: "NUL, escapes and broken UTF-8 in the reason", Want: retryable(500), Keeps: true, Play: line("HTTP/1.1 500 \x00\x1b[31m\xff\xc3(")},
		{ID: "H-11", Name: "long reason", Want: rejected(404), Keeps: true, Play: line("HTTP/1.1 404 " + strings.Repeat("no ", 20_000))},
		{ID: "H-08", Name: "HTTP/1.0", Want: delivered(200), Play: answersAndEnds("HTTP/1.0 200 OK\r\n\r\nbye")},
		{ID: "H-08", Name: "HTTP/1.0 with chunks", Want: delivered(200), Play: answersAndEnds("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n")},
		{ID: "H-08", Name: "lower case", Want: broken, Play: line("http/1.1 200 OK")},
		{ID: "H-08", Name: "version without a point", Want: broken, Play: line("HTTP/1 200 OK")},
		{ID: "H-08", Name: "no version", Want: broken, Play: line("HTTP 200 OK")},
		{ID: "H-08", Name: "version in letters", Want: broken, Play: line("HTTP/x.y 200 OK")},
		{ID: "H-08", Name: "space in front", Want: broken, Play: line(" HTTP/1.1 200 OK")},
		{ID: "H-08", Name: "empty line in front", Want: broken, Play: line("\r\nHTTP/1.1 200 OK")},
		{ID: "C-03", Name: "gone", Want: Outcome{Verdict: "gone", Status: 410, Class: "status"}, Keeps: true, Play: line("HTTP/1.1 410 x")},
		{ID: "H-08", Name: "408 in time", Want: retryable(408), Keeps: true, Play: line("HTTP/1.1 408 x")},
		{ID: "H-08", Name: "431 with an excuse", Want: rejected(431), Play: line("HTTP/1.1 431 x\r\nConnection: close")},
	}
}

// notHTTP are answers in another language.
func notHTTP() []Behaviour {
	banner := func(text string) func(*Conn) {
		return func(c *Conn) { // speaks first, as these do
			c.Say(text)
			c.Request()
			c.Close()
		}
	}
	return []Behaviour{
		{ID: "H-08", Name: "HTTP/0.9", Want: broken, Play: answersAndEnds("<html>hello</html>")},
		{ID: "H-08", Name: "HTTP/0.9 of many lines", Want: broken, Play: answersAndEnds("<html>\nhello: you\n\n</html>\n")},
		{ID: "H-08", Name: "noise", Want: broken, Play: answersAndEnds("\x00\xff\x1b[31m\r\n\r\n")},
		{ID: "H-08", Name: "SSH", Want: broken, Unread: true, Play: banner("SSH-2.0-OpenSSH_9.6\r\n")},
		{ID: "H-08", Name: "SMTP", Want: broken, Unread: true, Play: banner("220 mail.example ESMTP\r\n")},
		{ID: "H-08", Name: "FTP", Want: broken, Unread: true, Play: banner("220-hello\r\n220 ready\r\n")},
		{ID: "H-08", Name: "Redis", Want: broken, Unread: true, Play: banner("-ERR unknown command 'POST'\r\n")},
		{ID: "H-08", Name: "MySQL", Want: broken, Unread: true, Play: banner("\x4a\x00\x00\x00\x0a8.0.36\x00\n")},
		{ID: "H-08", Name: "alert of TLS", Want: broken, Unread: true, Play: banner("\x15\x03\x01\x00\x02\x02\x46")},
		{ID: "H-08", Name: "HTTP/2", Want: broken, Play: answersAndEnds("\x00\x00\x12\x04\x00\x00\x00\x00\x00" + strings.Repeat("\x00", 18))},
		{ID: "H-08", Name: "Shoutcast", Want: broken, Play: answersAndEnds("ICY 200 OK\r\nicy-name: x\r\n\r\n")},
		{ID: "H-08", Name: "our own request", Want: broken, Play: answersAndEnds("POST /hook HTTP/1.1\r\nHost: x\r\n\r\n")},
	}
}
