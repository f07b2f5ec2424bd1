package subscriptions

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// FuzzFilter holds that any filter compiles or is refused with a field, that any item is
// judged without a panic and in bounded time, and that errors are short and one line.
func FuzzFilter(f *testing.F) {
	for _, seed := range [][3]string{
		{"order.*", "payload.total > 100", `{"total": 100.5}`},
		{"*", "payload.items.exists(i, i.sku == 'A-1' && i.quantity > 2)", `{"items": [{"sku": "A-1", "quantity": 3}]}`},
		{"", "headers[?'x-tenant'].orValue('') == 'acme' || kind.matches('^(a|b)+$')", `[[[1e999]]]`},
		{"a*b", "payload.all(x, payload.map(y, string(y) + x).size() in [1, 2u, 3.0])", `["a", {"b": null}]`},
		{"", "timestamp(payload.t).getHours('+01:00') == duration('1h').getHours() ? true : payload == {'a': [b'x']}", `{"t": "2026-01-01T00:00:00Z"}`},
		{"", "payload.?a[?0].optMap(v, v == 1).orValue(true) && type(payload) != int && dyn(1) == 1u", `{"a": [1]}`},
	} {
		f.Add(seed[0], seed[1], []byte(seed[2]))
	}
	// Some hundred times what it takes: other tests may have the processor.
	const most = 5 * time.Second
	f.Fuzz(func(t *testing.T, kind, cel string, payload []byte) {
		start := time.Now()
		filter := Filter{CEL: cel, OnError: OnErrorSkip}
		if kind != "" {
			filter.Kinds = []string{kind}
		}
		m, err := CompileFilter(filter)
		if took := time.Since(start); took > most {
			t.Errorf("compiling took %v", took)
		}
		if err != nil {
			if e, ok := errors.AsType[*queue.InvalidError](err); !ok || !strings.HasPrefix(e.Field, "filter.") || len(e.Reason) > 500 {
				t.Errorf("refused with %v", err)
			}
			return
		}
		start = time.Now()
		c := NewCandidate(&queue.Content{Kind: kind, Headers: map[string]string{"X-Tenant": "acme"}, Payload: payload})
		first, err := m.Match(c)
		if took := time.Since(start); took > most {
			t.Errorf("matching took %v", took)
		}
		if err != nil && (first || len(err.Error()) > 200 || strings.Contains(err.Error(), "\n")) {
			t.Errorf("got %v, %v", first, err)
		}
	})
}
