package postgres

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/posthaste-io/posthaste/queue"
)

// The verbs make no row that nothing would find again; nor can anybody else.
func TestD08_RowsThatNobodyWouldFindAreRefused(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q := queue.NewNumber(1, 1)
	w.fill(q, 1, w.clock(), "", "")
	w.fill(q, 1, w.clock(), "held, counter", "true, 1")
	const notNull, check = "23502", "23514"
	for name, test := range map[string]struct{ text, state string }{
		"held without a token":         {`update {s}.items set held = true, counter = 0 where not held`, check},
		"held without a deadline":      {`update {s}.items set available_at = null where held`, notNull},
		"held for ever":                {`update {s}.items set available_at = 'infinity' where held`, check},
		"held at the end of time":      {`update {s}.items set available_at = '294247-01-01 00:00:00+00' where held`, check},
		"neither held nor not":         {`update {s}.items set held = null`, notNull},
		"never due":                    {`update {s}.items set available_at = 'infinity' where not held`, check},
		"due before all time":          {`update {s}.items set available_at = '-infinity'`, check},
		"behind nothing":               {`update {s}.items set available_at = '294247-01-01 00:00:00+00' where not held`, check},
		"behind another, and held too": {`update {s}.items set available_at = '294247-01-01 00:00:00+00', ordering_key = 'k' where held`, check},
	} {
		_, err := w.pool().Exec(t.Context(), w.store.text(test.text))
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != test.state {
			t.Errorf("%s: got %v, want the state %s", name, err, test.state)
		}
	}
	// What waits behind another of its ordering key is found by that.
	w.exec(`update {s}.items set available_at = '294247-01-01 00:00:00+00', ordering_key = 'k' where not held`)
}
