package recorder

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// Recorder appends events. Safe for concurrent use.
type Recorder struct {
	began time.Time

	mu  sync.Mutex // guards the lines below; stamps are taken under it, so that the order of lines is the order of time
	out *bufio.Writer
	enc *json.Encoder
	seq uint64
	ops uint64
	err error
}

// New returns a recorder that appends to w.
func New(w io.Writer) *Recorder {
	out := bufio.NewWriterSize(w, 64<<10)
	return &Recorder{began: time.Now(), out: out, enc: json.NewEncoder(out)}
}

// Invoke writes the invocation of a new operation and returns its number; call
// it before anything is sent.
func (r *Recorder) Invoke(client string, verb Verb, queue string, items ...Item) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops++
	r.append(Event{Op: r.ops, Client: client, Verb: verb, Phase: Invoked, Queue: queue, Items: items})
	return r.ops
}

// End writes how an operation ended; call it after the answer was read whole.
// Op, Client, Verb, Phase and what the answer said are the caller's.
func (r *Recorder) End(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.append(e)
}

// Note writes an event that needs no second one, such as a kill.
func (r *Recorder) Note(client string, verb Verb, queue, detail string, items ...Item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops++
	r.append(Event{Op: r.ops, Client: client, Verb: verb, Phase: OK, Queue: queue, Detail: detail, Items: items})
}

// Flush hands everything to the writer and returns the first error that any
// event met: a history with a hole proves nothing.
func (r *Recorder) Flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	return r.out.Flush()
}

func (r *Recorder) append(e Event) {
	now := time.Now()
	r.seq++
	e.Seq, e.Mono, e.Wall = r.seq, now.Sub(r.began).Nanoseconds(), now.UnixMicro()
	if err := r.enc.Encode(e); err != nil && r.err == nil {
		r.err = fmt.Errorf("history, line %d: %w", r.seq, err)
	}
}

// Read returns the events that a recorder wrote.
func Read(from io.Reader) ([]Event, error) {
	var events []Event
	dec := json.NewDecoder(bufio.NewReaderSize(from, 64<<10))
	for {
		var e Event
		switch err := dec.Decode(&e); {
		case err == io.EOF:
			return events, nil
		case err != nil:
			return nil, fmt.Errorf("history, line %d: %w", len(events)+1, err)
		case e.Seq != uint64(len(events))+1:
			return nil, fmt.Errorf("history, line %d: has number %d", len(events)+1, e.Seq)
		}
		events = append(events, e)
	}
}

// Hash names a payload in the history.
func Hash(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:12])
}
