package badger

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// bridge passes Badger's warnings and errors on. What else it says is of no use to
// an operator.
//
// An error while the store is open is one of the disk: a table or the manifest could
// not be written. Badger would try again, and what it flushed once and was refused may
// be dropped by then; so the first one is passed on, to end the store.
type bridge struct {
	log     *slog.Logger
	trouble chan<- error // holds one
}

func (b bridge) tell(text string) {
	select {
	case b.trouble <- errors.New("badger: " + text):
	default: // there was one before
	}
}

// Errorf implements badger.Logger.
func (b bridge) Errorf(format string, args ...any) {
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	b.log.Error("badger", "message", text)
	b.tell(text)
}

// Warningf implements badger.Logger.
func (b bridge) Warningf(format string, args ...any) {
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	b.log.Warn("badger", "message", text)
	// A merge of tables that was refused is a warning only.
	if strings.Contains(text, "doCompact") || strings.Contains(text, "Compact FAILED") {
		b.tell(text)
	}
}

// Infof implements badger.Logger.
func (b bridge) Infof(string, ...any) {}

// Debugf implements badger.Logger.
func (b bridge) Debugf(string, ...any) {}
