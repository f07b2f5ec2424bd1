package queue

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Done tells how an item ended. As JSON it is the payload of an item on the queue that
// [Content.OnDone], or the subscription's, names, or in the queues of that topic. That item
// is written in the transaction that ends the other one, once; its kind is [DoneKind], its
// encoding application/json, and it has the other one's reference and trace.
//
// An item ends when it is completed or buried. What becomes of it in the dead-letter
// queue is told by a subscription there; and after a redrive it ends anew. What is
// cancelled is not told.
type Done struct {
	ItemID string `json:"item_id"`
	// QueueName is the queue on which the item ended.
	QueueName string `json:"queue_name"`
	Kind      string `json:"kind,omitempty"`
	Reference string `json:"reference,omitempty"`
	Encoding  string `json:"encoding,omitempty"`
	// Outcome is [DoneCompleted] or [DoneBuried].
	Outcome string `json:"outcome"`
	// Reason says why it was buried: max_attempts, expired, poison, or a consumer's words.
	Reason string `json:"reason,omitempty"`
	// Subscription is empty where no push ended the item.
	Subscription string `json:"subscription,omitempty"`
	// Status and Error are those of the newest attempt.
	Status int32  `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
	// Response is the head of the endpoint's answer, or the result that came with a
	// completion, at most [MaxResponse] bytes; where it is text, it is in ResponseText
	// instead. ResponseCut says that one call ended so many items that it is shorter.
	Response     []byte `json:"response,omitempty"`
	ResponseText string `json:"response_text,omitempty"`
	ResponseCut  bool   `json:"response_cut,omitempty"`
	// Attempts is what the item used up of its budget, Deliveries how often it was given
	// out in all.
	Attempts   int32 `json:"attempts"`
	Deliveries int32 `json:"deliveries"`
	// DeadQueue is where it was buried.
	DeadQueue string `json:"dead_queue,omitempty"`
}

// The words of [Done].
const (
	DoneKind      = "item.done"
	DoneCompleted = "completed"
	DoneBuried    = "buried"

	doneEncoding = "application/json"
)

// notice is an end that is to be told.
type notice struct {
	// item is as it was before its end, without its payload.
	item Item
	// from is the queue on which it ends, onDone the one that is told.
	from   *knownQueue
	onDone string
	// id is that of the item that tells it: made before the first try.
	id ID
}

func newNotice(it *Item, from *knownQueue, onDone string) *notice {
	n := &notice{item: *it, from: from, onDone: onDone, id: NewID()}
	n.item.Payload = nil
	return n
}

// end is how the item of a notice ends: by a settlement, after an answer, in dead if it is
// not completed.
func (n *notice) end(s *Settlement, dead *knownQueue, answer *Record) Done {
	it := &n.item
	d := Done{
		ItemID: it.ID.String(), QueueName: n.from.name,
		Kind: it.Kind, Reference: it.Reference, Encoding: it.Encoding,
		Outcome: DoneCompleted, Attempts: it.Attempts, Deliveries: it.Deliveries,
	}
	d.Subscription, d.Status, d.Error = answer.Subscription, answer.Status, answer.Error
	d.Response = answer.Response
	if s.Outcome == Complete {
		return d
	}
	d.Outcome, d.Reason, d.DeadQueue = DoneBuried, s.Reason, dead.name
	last := it.Last
	if s.Last != (Last{}) {
		last = s.Last
	}
	d.Status, d.Error = cmp.Or(d.Status, last.Status), cmp.Or(d.Error, last.Error)
	if s.Outcome == Retry {
		d.Attempts++ // the one that reached the limit
	}
	return d
}

// shorten leaves at most limit bytes of the response, and makes a text of it if it is one.
func (d *Done) shorten(limit int) {
	if len(d.Response) > limit {
		d.Response, d.ResponseCut = d.Response[:limit], true
	}
	if isText(d.Response) {
		d.Response, d.ResponseText = nil, string(d.Response)
	}
}

// isText says whether bytes are UTF-8 of which JSON makes something readable.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return utf8.Valid(b)
}

// tell makes the item that tells of an end.
func (n *notice) tell(d *Done, to *knownQueue) (NewItem, error) {
	var payload bytes.Buffer
	text := json.NewEncoder(&payload)
	text.SetEscapeHTML(false)
	if err := text.Encode(d); err != nil {
		return NewItem{}, fmt.Errorf("end of item %s: %w", d.ItemID, err)
	}
	return NewItem{
		Content: Content{
			Kind: DoneKind, Encoding: doneEncoding, Reference: n.item.Reference,
			Trace: n.item.Trace, Hop: n.item.Hop + 1,
			Payload: bytes.TrimSuffix(payload.Bytes(), []byte("\n")),
		},
		ID: n.id, Queue: to.number, ExpireTTL: to.settings().ExpireTTL,
	}, nil
}

// mostResponses is what the responses that a telling call writes may add up to, in bytes:
// stores bound a transaction, and what else is in it needs as much again.
const mostResponses = 3 << 20

// responseLimit is how much of each response a call may write, where it tells of ends. It
// is shorter than [MaxResponse] for large calls alone. Results that are kept are kept
// whole, and what tells of them is cut.
func responseLimit(entries []SettleEntry, targets []target) int {
	// In halves: a response weighs half as much again where it is in JSON.
	room, sum, parts := 2*mostResponses, 0, 0
	tells := false
	for i := range entries {
		e := &entries[i]
		size, weight := len(e.Result), 0
		switch {
		case e.Record != nil:
			size = len(e.Record.Response)
			if !e.Unlogged {
				weight = 2
			}
		case targets[i].record != nil:
			room -= 2 * size
		}
		if e.tells() {
			tells = true
			weight += 3
		}
		sum += weight * size
		parts += weight
	}
	if !tells || sum <= room {
		return MaxResponse
	}
	return min(max(room, 0)/parts, MaxResponse)
}
