package harness

import (
	"bytes"
	"io"
	"sync"
)

// maxOutput bounds what is kept of a program's output: the head, where it says how
// it started, and the tail, where it says how it ended.
const maxOutput = 1 << 20

// output keeps the lines that a program wrote and tells about each.
type output struct {
	mu      sync.Mutex
	head    bytes.Buffer
	tail    bytes.Buffer
	dropped bool
	changed chan struct{}
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.head.Len() < maxOutput {
		o.head.Write(p)
	} else {
		o.tail.Write(p)
		if over := o.tail.Len() - 2*maxOutput; over > 0 {
			o.tail.Next(over + maxOutput)
			o.dropped = true
		}
	}
	close(o.changed)
	o.changed = make(chan struct{})
	return len(p), nil
}

// String returns what was kept.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dropped {
		return o.head.String() + "\n[…]\n" + o.tail.String()
	}
	return o.head.String() + o.tail.String()
}

// more returns a channel that is closed at the next write.
func (o *output) more() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changed
}

var _ io.Writer = (*output)(nil)
