package hostile

import (
	"fmt"
	"time"
)

// temptations ask for another request than the one that was made.
func temptations() []Behaviour {
	to := func(status int, location string) Behaviour {
		return Behaviour{
			ID: "N-08", Name: fmt.Sprintf("%d to %s", status, location), Want: rejected(status), Keeps: true,
			Play: answers(fmt.Sprintf("HTTP/1.1 %d x\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", status, location)),
		}
	}
	list := []Behaviour{
		to(307, "http://169.254.169.254/latest/meta-data/"),
		to(302, "http://[fd00:ec2::254]/"),
		to(308, "https://example.com/"),
		to(301, "http://127.0.0.1:22/"),
		to(303, "file:///etc/passwd"),
		to(307, "gopher://127.0.0.1:6379/_FLUSHALL"),
		to(300, "/hook"),
		to(305, "http://127.0.0.1:3128/"),
		to(304, "/hook"),
		to(307, "//[::1"),
		to(302, ""),
	}
	elsewhere := func(id, name, format string, want Outcome) Behaviour {
		return Behaviour{ID: id, Name: name, Want: want, Keeps: true, Play: func(c *Conn) {
			if c.Request() {
				c.Say(fmt.Sprintf(format, c.Elsewhere()) + "\r\nContent-Length: 0\r\n\r\n")
			}
		}}
	}
	for _, status := range []int{301, 302, 303, 307, 308} {
		list = append(list, elsewhere("N-08", fmt.Sprintf("%d to another host", status), fmt.Sprintf("HTTP/1.1 %d x\r\nLocation: http://%%s/", status), rejected(status)))
	}
	const challenge = "HTTP/1.1 401 x\r\nWWW-Authenticate: "
	return append(list,
		elsewhere("N-08", "Refresh to another host", "HTTP/1.1 200 OK\r\nRefresh: 0; url=http://%s/", delivered(200)),
		elsewhere("N-10", "another service for the same", "HTTP/1.1 200 OK\r\nAlt-Svc: http/1.1=\"%[1]s\"; ma=60, h2=\"%[1]s\"", delivered(200)),
		Behaviour{ID: "N-10", Name: "challenge of Basic", Want: rejected(401), Keeps: true, Play: answers(challenge + "Basic realm=x\r\nContent-Length: 0\r\n\r\n")},
		Behaviour{ID: "N-10", Name: "challenges of Digest, Negotiate and NTLM", Want: rejected(401), Keeps: true, Play: answers(challenge + "Digest nonce=x\r\nWWW-Authenticate: Negotiate\r\nWWW-Authenticate: NTLM\r\nContent-Length: 0\r\n\r\n")},
		Behaviour{ID: "N-10", Name: "challenge of a proxy", Want: rejected(407), Keeps: true, Play: answers("HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n")},
		Behaviour{ID: "N-10", Name: "cookies", Want: delivered(200), Keeps: true, Play: answers("HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n")},
		Behaviour{ID: "H-05", Name: "keeps the lease of an item it has no receipt of", Want: delivered(202), Keeps: true, Play: answers("HTTP/1.1 202 x\r\nposthaste-lease: keep\r\nContent-Length: 0\r\n\r\n")},
	)
}

// waits are what endpoints ask for with Retry-After, mostly nonsense.
func waits() []Behaviour {
	const day = 24 * time.Hour
	ask := func(status int, value string, want Outcome) Behaviour {
		return Behaviour{
			ID: "C-02", Name: fmt.Sprintf("%d, later: %.24q", status, value), Want: want, Keeps: true,
			Play: answers(fmt.Sprintf("HTTP/1.1 %d x\r\nRetry-After: %s\r\nContent-Length: 0\r\n\r\n", status, value)),
		}
	}
	throttled := func(status int, after time.Duration) Outcome {
		return Outcome{Verdict: "throttled", Status: status, Class: "status", RetryAfter: after}
	}
	return []Behaviour{
		ask(429, "999999999999", throttled(429, day)),
		ask(429, "1"+fmt.Sprintf("%0400d", 0), throttled(429, day)),
		ask(503, "86400", throttled(503, day)),
		ask(429, "-1", throttled(429, 0)),
		ask(429, "0", throttled(429, 0)),
		ask(429, "soon", throttled(429, 0)),
		ask(429, "1e9", throttled(429, 0)),
		ask(429, "Inf", throttled(429, 0)),
		ask(429, "0x10", throttled(429, 0)),
		ask(429, "Wed, 21 Oct 2015 07:28:00 GMT", throttled(429, 0)),
		ask(429, "\xff\xfe", throttled(429, 0)),
		ask(503, "NaN", retryable(503)),
		ask(503, "", retryable(503)),
	}
}
