package schedules

import (
	"bytes"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/posthaste-io/posthaste/queue"
)

// item is what is produced for a time, with what stands for times and for the name replaced.
func (s *Schedule) item(nominal, fired time.Time) queue.ProduceItem {
	in := strings.NewReplacer(
		"{{nominal_at}}", nominal.UTC().Format(time.RFC3339),
		// Of one length, so that what was taken once is not too long later.
		"{{fired_at}}", fired.UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
		"{{schedule}}", s.Name,
	)
	it := s.Item
	it.Reference = in.Replace(it.Reference)
	if len(it.Headers) > 0 {
		it.Headers = make(map[string]string, len(s.Item.Headers))
		for name, value := range s.Item.Headers {
			it.Headers[name] = in.Replace(value)
		}
	}
	if utf8.Valid(it.Payload) && bytes.Contains(it.Payload, []byte("{{")) {
		it.Payload = []byte(in.Replace(string(it.Payload)))
	}
	return it
}

// atItem gives an error about a call's only item the path that a schedule has for it.
func atItem(err error) error {
	if invalid, ok := errors.AsType[*queue.InvalidError](err); ok {
		return &queue.InvalidError{Field: strings.Replace(invalid.Field, "items[0]", "item", 1), Reason: invalid.Reason}
	}
	if large, ok := errors.AsType[*queue.TooLargeError](err); ok {
		at := *large
		at.Field = strings.Replace(large.Field, "items[0]", "item", 1)
		return &at
	}
	return err
}
