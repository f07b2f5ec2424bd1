package hostile

import (
	"slices"
	"strconv"
	"time"
)

// Behaviour is what an endpoint does to a request, and what must come of it.
type Behaviour struct {
	// ID is the threat, such as H-01; Name says in words what is done.
	ID, Name string
	// Want is the attempt's outcome, OverTLS the one over TLS if it is another.
	Want    Outcome
	OverTLS *Outcome
	// Classes are others that the outcome may have, where what the kernel tells first
	// decides.
	Classes []string
	// OnlyTLS is for what has no equivalent without; Play then gets the connection before
	// its handshake.
	OnlyTLS bool
	// Slow behaviours end with the sender's patience and not before: give it little.
	Slow bool
	// Keeps says that the connection is fit for another request.
	Keeps bool
	// Spoils says that it looks fit until it is looked at again, as it is before it is used.
	Spoils bool
	// Unread says that the request is not read, or perhaps not before the attempt ends.
	Unread bool
	// Body is the size of the request's body that the behaviour needs, 0 for any.
	Body int
	// Play runs for the connection, and again for each request on one that was kept.
	Play func(*Conn)
	// HTTP2 is what it does instead where the request came in HTTP/2.
	HTTP2 *HTTP2
}

// Outcome is what an attempt must come to, in the words of the journal.
type Outcome struct {
	Verdict string
	// Status is 0 if none came, Class empty for what was delivered.
	Status     int
	Class      string
	RetryAfter time.Duration
}

// Over returns what must come of it over TLS or without.
func (b *Behaviour) Over(tls bool) Outcome {
	if tls && b.OverTLS != nil {
		return *b.OverTLS
	}
	return b.Want
}

// Fits says whether a class is one that the outcome may have.
func (b *Behaviour) Fits(tls bool, class string) bool {
	return class == b.Over(tls).Class || slices.Contains(b.Classes, class)
}

// String returns the id and the name.
func (b *Behaviour) String() string { return b.ID + " " + b.Name }

// Corpus returns all behaviours of HTTP/1, over TCP and TLS.
func Corpus() []Behaviour {
	return slices.Concat(bodies(), framing(), slowness(), heads(), interim(), statuses(), notHTTP(),
		connections(), temptations(), waits(), handshakes())
}

func delivered(status int) Outcome { return Outcome{Verdict: "delivered", Status: status} }

func rejected(status int) Outcome {
	return Outcome{Verdict: "rejected", Status: status, Class: "status"}
}

func retryable(status int) Outcome {
	return Outcome{Verdict: "retryable", Status: status, Class: "status"}
}

// failed is an attempt to which no status came.
func failed(class string) Outcome { return Outcome{Verdict: "retryable", Class: class} }

// Outcomes that many have.
var (
	broken   = failed("bad_response")
	tooLarge = failed("too_large_headers")
	timedOut = failed("timeout")
	cutOff   = failed("reset_after_write")
)

const (
	okay  = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	limit = 64 << 10 // of an answer's headers, and of its body
)

// answers reads the request, says a text, and listens on.
func answers(text string) func(*Conn) {
	return func(c *Conn) {
		if c.Request() {
			c.Say(text)
		}
	}
}

// answersAndEnds reads the request, says a text, and closes.
func answersAndEnds(text string) func(*Conn) {
	return func(c *Conn) {
		if c.Request() {
			c.Say(text)
		}
		c.Close()
	}
}

// withLength is a whole answer.
func withLength(status, body string) string {
	return "HTTP/1.1 " + status + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}
