package main

import (
	"context"
	"io"
	"log/slog"
	"time"
)

// newLogger returns a logger that writes lines of JSON, or text for people.
func newLogger(w io.Writer, format logFormat, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if format == logText {
		return slog.New(plainHandler{slog.NewTextHandler(w, o), nil})
	}
	return slog.New(plainHandler{slog.NewJSONHandler(w, o), nil})
}

// newGatheringLogger is newLogger for lines of JSON that go to w many at a time: a
// write for each cost a tenth of what a busy server does. flush writes what is left.
func newGatheringLogger(w io.Writer, level slog.Level) (log *slog.Logger, flush func()) {
	lines := &lineBuffer{w: w}
	h := slog.NewJSONHandler(lines, &slog.HandlerOptions{Level: level})
	return slog.New(plainHandler{h, lines.flush}), lines.flush
}

// plainHandler writes instants in UTC and durations as 1.5s, where slog
// would write local time and nanoseconds. It does so before the line is made, since
// a ReplaceAttr is asked for every attribute of every line.
type plainHandler struct {
	slog.Handler
	// flush, if not nil, is called after a line that somebody may have to act upon.
	flush func()
}

// Handle implements slog.Handler.
func (h plainHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Time = r.Time.UTC()
	odd := false
	r.Attrs(func(a slog.Attr) bool {
		odd = odd || isOdd(a)
		return !odd
	})
	if odd {
		plainly := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
		r.Attrs(func(a slog.Attr) bool {
			plainly.AddAttrs(plainAttr(a))
			return true
		})
		r = plainly
	}
	err := h.Handler.Handle(ctx, r)
	if h.flush != nil && r.Level >= slog.LevelWarn {
		h.flush()
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h plainHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	plainly := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		plainly[i] = plainAttr(a)
	}
	return plainHandler{h.Handler.WithAttrs(plainly), h.flush}
}

// WithGroup implements slog.Handler.
func (h plainHandler) WithGroup(name string) slog.Handler {
	return plainHandler{h.Handler.WithGroup(name), h.flush}
}

func isOdd(a slog.Attr) bool {
	return a.Value.Kind() == slog.KindTime || a.Value.Kind() == slog.KindDuration
}

func plainAttr(a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindTime:
		return slog.Time(a.Key, a.Value.Time().UTC())
	case slog.KindDuration:
		return slog.String(a.Key, a.Value.Duration().String())
	default:
		return a
	}
}

// announce logs whatever the level is, and at once: where the server listens must
// be known also when only errors are wanted.
func announce(log *slog.Logger, msg string, args ...any) {
	r := slog.NewRecord(time.Now(), slog.LevelInfo, msg, 0)
	r.Add(args...)
	if err := log.Handler().Handle(context.Background(), r); err != nil {
		log.Error("log line was lost", "line", msg, "error", err)
	}
	if h, ok := log.Handler().(plainHandler); ok && h.flush != nil {
		h.flush()
	}
}
