package recorder

// Verb is what an operation does.
type Verb string

// The verbs. Post is a request that reached a receiver: its invocation is the
// arrival, its end the answer. Found is what an inspection saw after the drain.
// Start, Kill and Stop are what the test did to a process. Outage is written when a
// database that was away is back.
const (
	Produce  Verb = "produce"
	Lease    Verb = "lease"
	Complete Verb = "complete"
	Retry    Verb = "retry"
	Release  Verb = "release"
	Bury     Verb = "bury"
	Extend   Verb = "extend"
	Post     Verb = "post"
	Found    Verb = "found"
	Start    Verb = "start"
	Kill     Verb = "kill"
	Stop     Verb = "stop"
	Outage   Verb = "outage"
)

// Phase says which of an operation's events it is.
type Phase string

// The phases.
const (
	Invoked Phase = "invoke"
	OK      Phase = "ok"
	Fail    Phase = "fail"
	Unknown Phase = "unknown"
)

// Event is one line of the history.
type Event struct {
	// Seq counts lines from 1; Mono (nanoseconds since the recorder was made) never
	// falls from one line to the next.
	Seq  uint64 `json:"seq"`
	Mono int64  `json:"mono_ns"`
	// Wall is the clock's time in microseconds since 1970.
	Wall int64 `json:"wall_us"`
	// Op joins the events of one operation.
	Op     uint64 `json:"op"`
	Client string `json:"client"`
	Verb   Verb   `json:"verb"`
	Phase  Phase  `json:"phase"`
	Queue  string `json:"queue,omitempty"`
	Items  []Item `json:"items,omitempty"`
	// Detail is for people.
	Detail string `json:"detail,omitempty"`
}

// Item is what an event says of one item. Which fields are set depends on the
// verb: a producer knows the payload before it knows the id.
type Item struct {
	ID string `json:"id,omitempty"`
	// Payload is [Hash] of the bytes.
	Payload string `json:"payload,omitempty"`
	// Key is the idempotency key that a producer sent.
	Key       string `json:"key,omitempty"`
	Duplicate bool   `json:"duplicate,omitempty"`
	// Delay, in nanoseconds, is how much later than now a producer or a settlement
	// asked the item to be available; Due the same as an instant, in microseconds
	// since 1970.
	Delay int64 `json:"delay_ns,omitempty"`
	Due   int64 `json:"due_us,omitempty"`
	// Counter is the one in the receipt.
	Counter uint64 `json:"counter,omitempty"`
	// Delivery is the number of the lease, as the server told it.
	Delivery int32 `json:"delivery,omitempty"`
	// Granted and Deadline bound a lease by the store's clock, in microseconds since
	// 1970. Granted is the deadline less what was asked for.
	Granted  int64 `json:"granted_us,omitempty"`
	Deadline int64 `json:"deadline_us,omitempty"`
	// Status is what a receiver answered.
	Status int32 `json:"status,omitempty"`
}
