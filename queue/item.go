package queue

import (
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Item is one entry of a queue: its content, which never changes, and its state,
// which the store alone changes. Instants are UTC with microseconds.
type Item struct {
	Key
	Content

	Partition int32
	// Seq is the order of arrival in the store; bury and redrive give a new one.
	Seq uint64

	CreatedAt time.Time
	UpdatedAt time.Time
	// FirstDueAt is when the item was first due, whatever retries and releases made
	// of it; a redrive sets it anew. What counts the time since then, such as giving
	// up, counts from here.
	FirstDueAt time.Time
	// DueAt is where the item stands by right: release returns to it.
	DueAt time.Time
	// AvailableAt is where it stands now; the deadline while it is held.
	AvailableAt time.Time
	// Held says that a lease was given out and not yet settled; it may have lapsed.
	Held  bool
	Token Token
	// Owner is who holds it, for people to read; at most 255 bytes.
	Owner string
	// LapseCounts says whether the lease, should it lapse, costs an attempt (a pull
	// consumer was given its chance) or a recovery (our own process died).
	LapseCounts bool
	// Generation counts redrives.
	Generation int32

	// Deliveries counts leases and is never reset.
	Deliveries int32
	// Attempts is the used budget: outcomes that counted.
	Attempts int32
	// Recoveries counts lapses in a row without an outcome.
	Recoveries int32
	// MaxAttempts is the item's own limit: 0 takes its queue's or subscription's,
	// -1 is no limit.
	MaxAttempts int32
	// ExpiresAt is zero for an item that does not expire.
	ExpiresAt time.Time

	Last Last
	// Dead is set while the item is in a dead-letter queue.
	Dead *Dead
}

// Content is what a producer gave. It is written once.
type Content struct {
	// Kind, Encoding and Reference are the producer's, at most 255 bytes of UTF-8 each.
	Kind      string
	Encoding  string
	Reference string
	// OrderingKey makes the queue strict for items that share it.
	OrderingKey string
	// SourceID is the id that an imported item had where it came from.
	SourceID string
	// Headers are sent with a push, over the subscription's own.
	Headers map[string]string
	// Trace is the producer's W3C traceparent, or empty.
	Trace string
	// Hop counts the pushes that led to this item, so that a loop ends.
	Hop int32
	// Target is the item's own endpoint, or nil.
	Target *Target
	// OnDone names the queue that is told of the end; see [Done].
	OnDone  string
	Payload []byte
}

// Target is an endpoint that an item brings along.
type Target struct {
	URL     string
	Method  string
	Timeout time.Duration
}

// Host is where the target's requests go: the host in lower case and the port, however
// they are spelled. It is empty for a URL that has none.
func (t *Target) Host() string {
	u, err := url.Parse(t.URL)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	} else if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		port = strconv.FormatUint(n, 10)
	}
	return net.JoinHostPort(strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), port)
}

// Size is what the content adds to an answer, in bytes; budgets count it.
func (c *Content) Size() int {
	n := len(c.Payload) + len(c.Kind) + len(c.Encoding) + len(c.Reference) +
		len(c.OrderingKey) + len(c.SourceID) + len(c.Trace) + len(c.OnDone)
	for k, v := range c.Headers {
		n += len(k) + len(v)
	}
	if c.Target != nil {
		n += len(c.Target.URL) + len(c.Target.Method)
	}
	return n
}

// Last is what the newest outcome that was not a success said.
type Last struct {
	// Status is the HTTP status, 0 if there was none.
	Status int32
	// Error is valid UTF-8 without NUL, at most [MaxLastError] bytes.
	Error string
}

// MaxLastError bounds [Last.Error], in bytes.
const MaxLastError = 500

// Dead says why an item is in a dead-letter queue, and what it had used up.
type Dead struct {
	// From is the queue that buried it.
	From       Number
	Reason     string
	At         time.Time
	Status     int32
	Attempts   int32
	Recoveries int32
}

// State is derived from an item and the store's now.
type State int

// The states of a living item; see the table in the package comment.
const (
	Ready State = iota + 1
	Scheduled
	Retrying
	Leased
	Lapsed
	Behind
)

// String returns the word that the wire uses.
func (s State) String() string {
	switch s {
	case Ready:
		return "ready"
	case Scheduled:
		return "scheduled"
	case Retrying:
		return "retrying"
	case Leased:
		return "leased"
	case Lapsed:
		return "lapsed"
	case Behind:
		return "behind"
	default:
		return "invalid"
	}
}

// Forever is the position of items that stand behind another of their ordering
// key: later than any time that a client can name, exact in every store.
var Forever = time.Date(294247, 1, 1, 0, 0, 0, 0, time.UTC)

// State says where the item is at the store's time now.
func (it *Item) State(now time.Time) State {
	switch due := !it.AvailableAt.After(now); {
	case it.Held && due:
		return Lapsed
	case it.Held:
		return Leased
	case due:
		return Ready
	case it.AvailableAt.Equal(Forever):
		return Behind
	case it.Deliveries > 0 && !it.AvailableAt.Equal(it.FirstDueAt): // not redriven for later
		return Retrying
	default:
		return Scheduled
	}
}

// Expired says whether the item is past its expiry at the store's time now.
func (it *Item) Expired(now time.Time) bool {
	return !it.ExpiresAt.IsZero() && !it.ExpiresAt.After(now)
}

// Receipt returns the text-able proof of the item's newest lease. It says that somebody
// is told of the end where the item itself says so.
func (it *Item) Receipt() Receipt {
	return Receipt{Key: it.Key, Partition: it.Partition, Token: it.Token, Notify: it.ownOnDone() != ""}
}

// ownOnDone is the queue that the item itself has told of its end, or empty. That of an
// item in a dead-letter queue was told already.
func (it *Item) ownOnDone() string {
	if it.Dead != nil {
		return ""
	}
	return it.OnDone
}
