package subscriptions

import (
	"encoding/json"
	"testing"

	"github.com/posthaste-io/posthaste/queue"
)

// What a topic keeps of a filter judges as the filter does, and several share what they read
// of an item.
func TestFilter_OfATopicJudgesAsItSays(t *testing.T) {
	t.Parallel()
	filters := []Filter{
		{Kinds: []string{"order.*"}},
		{CEL: "payload.total > 100"},
		{Kinds: []string{"order.*"}, CEL: "payload.total > 100", OnError: OnErrorSkip},
	}
	if raw := (Filter{}).raw(); raw != nil {
		t.Errorf("a filter that takes everything is kept as %s", raw)
	}
	for _, item := range []queue.Content{
		{Kind: "order.paid", Payload: []byte(`{"total":150}`)},
		{Kind: "order.paid", Payload: []byte(`{"total":50}`)},
		{Kind: "shop.opened", Payload: []byte(`{"total":150}`)},
		{Kind: "order.paid", Payload: []byte(`{}`)},
	} {
		shared := &queue.Candidate{Content: &item}
		for i, f := range filters {
			raw := f.raw()
			m, err := CompileTopicFilter(raw)
			if err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			own, err := CompileFilter(f)
			if err != nil {
				t.Fatal(err)
			}
			want, wantErr := own.Match(NewCandidate(&item))
			if got, err := m.Match(shared); got != want || (err != nil) != (wantErr != nil) {
				t.Errorf("filter %d of %s: got %v, %v, want %v, %v", i, item.Payload, got, err, want, wantErr)
			}
		}
	}
	for _, raw := range []string{`{`, `{"cel":"1 +"}`, `{"cel":7}`} {
		if m, err := CompileTopicFilter(json.RawMessage(raw)); err == nil {
			t.Errorf("%s is read as %v", raw, m)
		}
	}
}

// A filter is the topic's to keep from the answer to a creation or a change on.
func TestService_FilterReachesTheTopic(t *testing.T) {
	t.Parallel()
	s, k := setup(t)
	p := CreateParams{Namespace: 1, Name: "billing", Topic: "events", Change: Change{URL: new("https://example.com/"), Filter: &Filter{Kinds: []string{"order.*"}}}}
	if _, err := s.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	kept := func() string { return string(k.filters["events~billing"]) }
	if got := kept(); got != `{"kinds":["order.*"]}` {
		t.Errorf("created: the topic keeps %s", got)
	}
	for _, tt := range []struct {
		change Change
		want   string
	}{
		{Change{Filter: &Filter{CEL: "kind == 'x'", OnError: OnErrorSkip}}, `{"cel":"kind == 'x'","on_error":"skip"}`},
		{Change{MaxInFlight: new(5)}, `{"cel":"kind == 'x'","on_error":"skip"}`},
		{Change{Filter: &Filter{}}, ``},
	} {
		if _, err := s.Update(t.Context(), UpdateParams{Namespace: 1, Name: "billing", Change: tt.change}); err != nil {
			t.Fatal(err)
		}
		if got := kept(); got != tt.want {
			t.Errorf("after %+v the topic keeps %s, want %s", tt.change.Filter, got, tt.want)
		}
	}
}
