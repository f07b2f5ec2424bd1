package badger

import (
	"fmt"
	"log/slog"
	"strings"
)

// bridge passes Badger's warnings and errors on. What else it says is of no use to
// an operator.
type bridge struct{ log *slog.Logger }

// Errorf implements badger.Logger.
func (b bridge) Errorf(format string, args ...any) {
	b.log.Error("badger", "message", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Warningf implements badger.Logger.
func (b bridge) Warningf(format string, args ...any) {
	b.log.Warn("badger", "message", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Infof implements badger.Logger.
func (b bridge) Infof(string, ...any) {}

// Debugf implements badger.Logger.
func (b bridge) Debugf(string, ...any) {}
