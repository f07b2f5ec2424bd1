package badger

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
)

// bridge passes Badger's warnings and errors on. What else it says is of no use to
// an operator.
type bridge struct {
	log *slog.Logger
	// failure is what Badger reported when its value log could not be synced: to whoever
	// wrote it returns success.
	failure atomic.Pointer[error]
}

// err is not nil once a sync failed.
func (b *bridge) err() error {
	if err := b.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// syncMessage begins what Badger logs then.
const syncMessage = "Error while curlf sync"

// Errorf implements badger.Logger.
func (b *bridge) Errorf(format string, args ...any) {
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	b.log.Error("badger", "message", text)
	if strings.HasPrefix(text, syncMessage) {
		err := errors.New(text)
		b.failure.Store(&err)
	}
}

// Warningf implements badger.Logger.
func (b *bridge) Warningf(format string, args ...any) {
	b.log.Warn("badger", "message", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Infof implements badger.Logger.
func (b *bridge) Infof(string, ...any) {}

// Debugf implements badger.Logger.
func (b *bridge) Debugf(string, ...any) {}
