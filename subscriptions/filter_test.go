package subscriptions

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func mustCompile(t testing.TB, f Filter) *Matcher {
	t.Helper()
	m, err := CompileFilter(f)
	if err != nil {
		t.Fatalf("%+v: %v", f, err)
	}
	return m
}

// takes asks about one item, of which nothing is kept.
func takes(m *Matcher, c *queue.Content) (bool, error) { return m.Match(NewCandidate(c)) }

func TestMatcher_Kinds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		kinds string // separated by spaces
		kind  string
		want  bool
	}{
		{"", "", true},
		{"", "order.created", true},
		{"*", "", true},
		{"order", "", false},
		{"order.created", "order.created", true},
		{"order.created", "order.created2", false},
		{"order.created", "ORDER.created", false},
		{"a b order.created", "order.created", true},
		{"a b *.x", "order.created", false},
		{"order.*", "order.created", true},
		{"order.*", "order.item.added", true},
		{"order.*", "order.", true},
		{"order.*", "order", false},
		{"order.*", "reorder.created", false},
		{"*created", "created", true},
		{"**", "x", true},
		{"a**b", "ab", true},
		{"a*a", "a", false}, // the ends do not share a character
		{"a*a", "aa", true},
		{"*aba*", "xabay", true},
		{"*ab*ab*", "xaby", false},
		{"*ab*ab*", "abab", true},
		{"a*b*c", "a.c.b.b.c", true},
		{"a*b*c", "acb", false},
		{"*a*b", "ab.a", false},
		{"a.?", "a.b", false},
		{"a.?", "a.?", true},
		{"[ab]", "a", false},
		{"grüße.*", "grüße.ö", true},
	}
	for _, tt := range tests {
		m := mustCompile(t, Filter{Kinds: strings.Fields(tt.kinds)})
		if got, err := takes(m, &queue.Content{Kind: tt.kind}); got != tt.want || err != nil {
			t.Errorf("%q of %q: got %v, %v, want %v", tt.kinds, tt.kind, got, err, tt.want)
		}
	}
}

func TestCompileFilter_RefusesKinds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		f    Filter
		want string
	}{
		{Filter{Kinds: make([]string, 101)}, "filter.kinds: has 101 entries; want at most 100"},
		{Filter{Kinds: []string{"a", ""}}, "filter.kinds[1]: is empty"},
		{Filter{Kinds: []string{strings.Repeat("a", 256)}}, "filter.kinds[0]: is longer than 255 bytes"},
		{Filter{Kinds: []string{"\xff"}}, "filter.kinds[0]: is not UTF-8"},
		{Filter{Kinds: []string{" a"}}, "filter.kinds[0]: has spaces"},
		{Filter{Kinds: []string{"a\x01b"}}, "filter.kinds[0]: has a control character"},
		{Filter{CEL: "true", OnError: "retry"}, `filter.on_error: "retry" is not one of deliver, skip`},
		{Filter{OnError: OnErrorSkip}, "filter.on_error: is about expressions"},
		{Filter{CEL: strings.Repeat(" ", 4097)}, "filter.cel: has 4097 bytes"},
		{Filter{CEL: "'\xff' == kind"}, "filter.cel: is not UTF-8"},
	}
	for _, tt := range tests {
		_, err := CompileFilter(tt.f)
		if _, ok := errors.AsType[*queue.InvalidError](err); !ok || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%.80v: got %v, want %s…", tt.f, err, tt.want)
		}
	}
	if _, err := CompileFilter(Filter{Kinds: []string{strings.Repeat("a", 255)}, CEL: "true", OnError: wordDeliver}); err != nil {
		t.Errorf("the longest kind: %v", err)
	}
}

func TestMatcher_AsksKindsFirst(t *testing.T) {
	t.Parallel()
	m := mustCompile(t, Filter{Kinds: []string{"order.*"}, CEL: "payload.total > 100"})
	c := NewCandidate(&queue.Content{Kind: "user.created", Payload: []byte(`{"total": 200}`)})
	if got, err := m.Match(c); got || err != nil || c.payload != nil {
		t.Errorf("another kind: got %v, %v, and payload %v", got, err, c.payload)
	}
	c = NewCandidate(&queue.Content{Kind: "order.created", Payload: []byte(`{"total": 200}`)})
	if got, err := m.Match(c); !got || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

// What expressions do not read is not made, and what several read is made once.
func TestCandidate_ParsesPayloadOnceIfAtAll(t *testing.T) {
	t.Parallel()
	c := NewCandidate(&queue.Content{Kind: "a", Payload: []byte(`{"n": 1}`)})
	for _, text := range []string{"kind == 'a'", "kind == 'b' && payload.n == 1", "size(headers) == 0"} {
		if _, err := mustCompile(t, Filter{CEL: text}).Match(c); err != nil || c.payload != nil {
			t.Errorf("%s: %v, and payload %v", text, err, c.payload)
		}
	}
	m := mustCompile(t, Filter{CEL: "payload.n == 1"})
	for range 3 {
		if got, err := m.Match(c); !got || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
		c.content.Payload = []byte(`{"n": 2}`) // would be seen if it were read again
	}
}

func TestMatcher_OnError(t *testing.T) {
	t.Parallel()
	for onError, want := range map[OnError]bool{OnErrorDeliver: true, wordDeliver: true, OnErrorSkip: false} {
		m := mustCompile(t, Filter{CEL: "payload.secret == payload[payload.secret]", OnError: onError})
		got, err := takes(m, &queue.Content{Payload: []byte(`{"secret": "canary"}`)})
		if got != want || err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: got %v, %v", onError, got, err)
		}
	}
}

func TestMatcher_IsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	m := mustCompile(t, Filter{Kinds: []string{"order.*", "x"}, CEL: "payload.items.exists(i, i.n == 7) && headers['a'] == 'b' && kind.matches('^o')"})
	shared := NewCandidate(&queue.Content{Kind: "order.created", Headers: map[string]string{"A": "b"}, Payload: []byte(`{"items": [{"n": 1}, {"n": 7}]}`)})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				c := shared
				if i%2 == 0 {
					c = NewCandidate(shared.content)
				}
				if got, err := m.Match(c); !got || err != nil {
					t.Errorf("got %v, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

// An error that several evaluations meet is not theirs together: each says where it met it.
func TestMatcher_ErrorsAreNotShared(t *testing.T) {
	t.Parallel()
	first := mustCompile(t, Filter{CEL: "payload.s.matches('^a')"})
	second := mustCompile(t, Filter{CEL: "kind == 'x' ||\n payload.s.matches('^a')"})
	for what, payload := range map[string]string{"a number": `{"s": 1}`, "too much": strings.Repeat("[", 200)} {
		shared := NewCandidate(&queue.Content{Payload: []byte(payload)})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 50 {
					for m, place := range map[*Matcher]string{first: "line 1, column ", second: "line 2, column "} {
						if _, err := m.Match(shared); err == nil || !strings.Contains(err.Error(), place) {
							t.Errorf("%s: got %v, want it at %s…", what, err, place)
						}
					}
				}
			})
		}
		wg.Wait()
	}
}

func TestCheckFilter_IsForTopics(t *testing.T) {
	t.Parallel()
	some, bad := Filter{Kinds: []string{"a"}}, Filter{CEL: "kind"}
	for _, tt := range []struct {
		f       Filter
		ofTopic bool
		want    string
	}{
		{Filter{}, false, ""},
		{Filter{}, true, ""},
		{some, true, ""},
		{some, false, "filter: is for subscriptions of topics; what the only subscription of a queue does not take would go to nobody"},
		{bad, true, "filter.cel: line 1, column 1: gives a value of type string"},
	} {
		err := checkFilter(tt.f, tt.ofTopic)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%+v of topic %v: got %v, want %q", tt.f, tt.ofTopic, err, tt.want)
		}
	}
}

func TestService_RefusesFiltersOfQueues(t *testing.T) {
	t.Parallel()
	s, kit := setup(t)
	p := params("billing", "orders")
	p.Filter = &Filter{Kinds: []string{"a"}}
	if _, err := s.Create(t.Context(), p); err == nil || !strings.Contains(err.Error(), "filter: is for subscriptions of topics") || len(kit.made) != 0 {
		t.Errorf("create: %v, and made %v", err, kit.made)
	}
	p.Filter = &Filter{}
	if _, err := s.Create(t.Context(), p); err != nil {
		t.Errorf("create with none: %v", err)
	}
	_, err := s.Update(t.Context(), UpdateParams{Namespace: queue.DefaultNamespace, Name: "billing", Change: Change{Filter: &Filter{CEL: "true"}}})
	if err == nil || !strings.Contains(err.Error(), "filter: is for subscriptions of topics") {
		t.Errorf("update: %v", err)
	}
}

func TestDocument_KeepsFilters(t *testing.T) {
	t.Parallel()
	want := Subscription{Name: "a", Filter: Filter{Kinds: []string{"order.*"}, CEL: "true", OnError: OnErrorSkip}}
	doc := toDocument(&want)
	text, err := json.Marshal(doc)
	if err != nil || !strings.Contains(string(text), `"filter":{"kinds":["order.*"],"cel":"true","on_error":"skip"}`) {
		t.Errorf("got %s, %v", text, err)
	}
	var back Document
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if got := back.open(1); !reflect.DeepEqual(got.Filter, want.Filter) {
		t.Errorf("got %+v, want %+v", got.Filter, want.Filter)
	}
	clone := want.Clone()
	clone.Filter.Kinds[0] = "x"
	if want.Filter.Kinds[0] != "order.*" {
		t.Error("a change of the copy changed the original")
	}
	doc = toDocument(&Subscription{})
	if text, err = json.Marshal(doc); err != nil || strings.Contains(string(text), "filter") {
		t.Errorf("without one: %s, %v", text, err)
	}
	if got := doc.open(1); !got.Filter.IsZero() {
		t.Errorf("without one: got %+v", got.Filter)
	}
}

// The page on filters is held to what it says.
func TestDocs_Filters(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for head, rows := range pageTables(t, "../docs/filters.md") {
		for _, row := range rows {
			seen[head]++
			switch head {
			case "kinds | takes | leaves":
				m := mustCompile(t, Filter{Kinds: ticked(row[0])})
				checkTaken(t, m, row[1], kindItem, true)
				checkTaken(t, m, row[2], kindItem, false)
			case "expression | takes | leaves":
				m := mustCompile(t, Filter{CEL: ticked(row[0])[0]})
				checkTaken(t, m, row[1], jsonItem, true)
				checkTaken(t, m, row[2], jsonItem, false)
			case "cel | is refused with":
				if _, err := CompileFilter(Filter{CEL: ticked(row[0])[0]}); err == nil || err.Error() != ticked(row[1])[0] {
					t.Errorf("%s: got %v", row[0], err)
				}
			case "expression | item | why":
				_, err := takes(mustCompile(t, Filter{CEL: ticked(row[0])[0]}), jsonItem(t, ticked(row[1])[0]))
				if err == nil || !strings.HasSuffix(err.Error(), ": "+ticked(row[2])[0]) {
					t.Errorf("%s of %s: got %v", row[0], row[1], err)
				}
			}
		}
	}
	if seen["kinds | takes | leaves"] < 5 || seen["expression | takes | leaves"] < 10 || seen["cel | is refused with"] < 5 || seen["expression | item | why"] < 5 {
		t.Errorf("tables were not found: %v", seen)
	}
}

func checkTaken(t *testing.T, m *Matcher, cell string, item func(*testing.T, string) *queue.Content, want bool) {
	t.Helper()
	for _, text := range ticked(cell) {
		if got, err := takes(m, item(t, text)); got != want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
}

func kindItem(_ *testing.T, text string) *queue.Content { return &queue.Content{Kind: text} }

func jsonItem(t *testing.T, text string) *queue.Content {
	t.Helper()
	var it struct {
		Kind, Reference, Encoding, UTF8 string
		Headers                         map[string]string
		Payload                         json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &it); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if it.UTF8 != "" {
		it.Payload = []byte(it.UTF8)
	}
	return &queue.Content{Kind: it.Kind, Reference: it.Reference, Encoding: it.Encoding, Headers: it.Headers, Payload: it.Payload}
}

// pageTables returns the rows of a page's tables by their heads.
func pageTables(t *testing.T, page string) map[string][][]string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	tables, head := map[string][][]string{}, ""
	for line := range strings.Lines(strings.ReplaceAll(string(text), `\|`, "\x00")) {
		line, isRow := strings.CutPrefix(strings.TrimSpace(line), "|")
		cells := strings.Split(strings.TrimSuffix(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.ReplaceAll(strings.TrimSpace(cells[i]), "\x00", "|")
		}
		switch {
		case !isRow:
			head = ""
		case head == "":
			head = strings.Join(cells, " | ")
		case !strings.HasPrefix(cells[0], "--"):
			tables[head] = append(tables[head], cells)
		}
	}
	return tables
}

// ticked returns what stands between backticks.
func ticked(cell string) []string {
	var all []string
	for i, part := range strings.Split(cell, "`") {
		if i%2 == 1 {
			all = append(all, part)
		}
	}
	return all
}

func BenchmarkMatch(b *testing.B) {
	content := &queue.Content{Kind: "order.created", Payload: []byte(`{"id":"o-1","customer":{"country":"DE","vip":true},"total":120.5,"items":[{"sku":"A-1","quantity":3}]}`)}
	for _, bb := range []struct {
		name string
		f    Filter
	}{
		{"kinds", Filter{Kinds: []string{"user.*", "*.failed", "order.*"}}},
		{"kind-expression", Filter{CEL: "kind == 'order.created'"}},
		{"payload", Filter{CEL: "payload.total > 100 && payload.customer.country == 'DE'"}},
		{"exists", Filter{CEL: "payload.items.exists(i, i.sku == 'A-1')"}},
	} {
		m := mustCompile(b, bb.f)
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = takes(m, content)
			}
		})
		b.Run(bb.name+"/parsed", func(b *testing.B) {
			c := NewCandidate(content)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = m.Match(c)
			}
		})
	}
	b.Run("compile", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			mustCompile(b, Filter{CEL: "payload.total > 100 && payload.customer.country == 'DE'"})
		}
	})
	b.Run("parse-1MB", func(b *testing.B) {
		payload := []byte("[" + strings.Repeat(`{"sku":"A-1","qty":3},`, 33_000) + "1]")
		b.ReportAllocs()
		b.SetBytes(int64(len(payload)))
		for b.Loop() {
			readPayload(payload)
		}
	})
}

func TestMatcher_EndsInTime(t *testing.T) {
	t.Parallel()
	m := mustCompile(t, Filter{CEL: "payload.all(x, x > 0)"})
	m.expr.timeout = -time.Second
	got, err := takes(m, &queue.Content{Payload: []byte("[" + strings.Repeat("1,", 100) + "1]")})
	if !got || !errors.Is(err, errTime) {
		t.Errorf("got %v, %v", got, err)
	}
}
