package client

import (
	"context"
	"iter"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// inject adds the trace that ctx carries, if it does, so that pushes continue it.
func inject(ctx context.Context, h http.Header) {
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
}

// text writes a duration for the wire; 0 is left out.
func text(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// span reads a duration of the server's, which writes none that cannot be read.
func span(text string) time.Duration {
	d, _ := time.ParseDuration(text) // the empty text is none
	return d
}

// stamp leaves the zero time out.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func instant(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// pages walks a list: next returns a page and the cursor of the one after it, which is
// empty at the end. An error is yielded once, and ends the walk.
func pages[T any](next func(cursor string) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			page, after, err := next(cursor)
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, it := range page {
				if !yield(it, nil) {
					return
				}
			}
			if after == "" {
				return
			}
			cursor = after
		}
	}
}
