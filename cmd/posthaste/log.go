package main

import (
	"context"
	"io"
	"log/slog"
	"time"
)

// newLogger returns a logger that writes lines of JSON, or text for people.
func newLogger(w io.Writer, format logFormat, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: plainly}
	if format == logText {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

// plainly writes instants in UTC and durations as 1.5s, where slog would write
// local time and nanoseconds.
func plainly(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindTime:
		return slog.Time(a.Key, a.Value.Time().UTC())
	case slog.KindDuration:
		return slog.String(a.Key, a.Value.Duration().String())
	default:
		return a
	}
}

// announce logs whatever the level is: where the server listens must be known also
// when only errors are wanted.
func announce(log *slog.Logger, msg string, args ...any) {
	r := slog.NewRecord(time.Now(), slog.LevelInfo, msg, 0)
	r.Add(args...)
	if err := log.Handler().Handle(context.Background(), r); err != nil {
		log.Error("log line was lost", "line", msg, "error", err)
	}
}
