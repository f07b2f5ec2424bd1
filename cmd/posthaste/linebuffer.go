package main

import (
	"io"
	"sync"
	"time"
)

const (
	// lineDelay is how long a line may wait for others: what kill -9 costs of the log.
	lineDelay = 100 * time.Millisecond
	// lineBytes are written without waiting.
	lineBytes = 32 << 10
)

// lineBuffer gathers lines and writes them together. Safe for concurrent use; each
// Write must be whole lines.
type lineBuffer struct {
	w io.Writer

	mu    sync.Mutex
	lines []byte
	// waiting says that a flush will come by itself.
	waiting bool
}

// Write implements io.Writer. A line that could not be written is lost, as it would
// be without the buffer.
func (b *lineBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, line...)
	switch {
	case len(b.lines) >= lineBytes:
		return len(line), b.write()
	case !b.waiting:
		b.waiting = true
		time.AfterFunc(lineDelay, b.flush)
	}
	return len(line), nil
}

// flush writes what waits.
func (b *lineBuffer) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = false
	_ = b.write() // there is no log to tell that the log cannot be written
}

func (b *lineBuffer) write() error {
	if len(b.lines) == 0 {
		return nil
	}
	_, err := b.w.Write(b.lines)
	b.lines = b.lines[:0]
	return err
}
