package webhooks

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"
)

func came() map[string]string {
	return map[string]string{
		"specversion": "1.0", "id": "é 1", "source": "/shop", "type": "order.paid", "subject": "s", "time": "2026-03-01T13:00:00.500+01:00",
		"dataschema": "https://example.com/s", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
}

func TestG09_AnEventThatCameIsSentAsItCame(t *testing.T) {
	t.Parallel()
	url, got := capture(t)
	if err := CheckAttributes(came()); err != nil {
		t.Fatal(err)
	}
	r := request(url)
	r.ContentType, r.CloudEvent = "", NewCloudEvent(came())
	want(t, newTestSender(t).Send(t.Context(), r), Delivered, 200, "")
	h := (<-got).Header
	for name, value := range map[string]string{
		"Ce-Id": "%C3%A9%201", "Ce-Time": "2026-03-01T13:00:00.500+01:00", "Ce-Dataschema": "https://example.com/s",
		"Ce-Traceparent": came()["traceparent"], "Webhook-Id": r.ID,
	} {
		if h.Get(name) != value {
			t.Errorf("%s: got %q, want %q", name, h.Get(name), value)
		}
	}
	if values, given := h["Content-Type"]; given {
		t.Errorf("Content-Type: got %q, and the event has none", values)
	}
	id, e, err := ReadCloudEvent(h)
	if err != nil || id != "é 1" || e.ID != id || e.DataSchema != "https://example.com/s" {
		t.Errorf("got %q, %+v, %v", id, e, err)
	}
	// A text that is not the time any more is not sent.
	e.Time = e.Time.Add(time.Second)
	if got := e.writtenTime(); got != "2026-03-01T12:00:01.5Z" {
		t.Errorf("got %s", got)
	}
}

func TestSplitHeaders_TakesAttributesOut(t *testing.T) {
	t.Parallel()
	headers := AttributeHeaders(came())
	headers["X-A"] = "1"
	attributes, rest := SplitHeaders(headers)
	all := came()
	delete(all, "type")
	if !maps.Equal(attributes, all) || !maps.Equal(rest, map[string]string{"X-A": "1"}) || len(headers) != len(all)+1 {
		t.Errorf("got %q and %q of %q", attributes, rest, headers)
	}
	if attributes, rest = SplitHeaders(rest); attributes != nil || len(rest) != 1 {
		t.Errorf("got %q and %q", attributes, rest)
	}
	if attributes, rest = SplitHeaders(AttributeHeaders(came())); len(attributes) != len(all) || rest != nil {
		t.Errorf("got %q and %q", attributes, rest)
	}
}

// All that is taken passes the check that comes before sending, and fits into headers.
func TestCheckAttributes_TakesNothingThatCannotBeSent(t *testing.T) {
	t.Parallel()
	a := came()
	for i := range 19 {
		a[strings.Repeat("x", 61-i)] = strings.Repeat("x", 600)
	}
	if err := CheckAttributes(a); err != nil {
		t.Fatal(err)
	}
	if err := CheckCloudEvent(NewCloudEvent(a)); err != nil {
		t.Error(err)
	}
	for name := range AttributeHeaders(a) {
		if len(name) > maxHeaderName || http.CanonicalHeaderKey(name) == name {
			t.Errorf("header %q", name)
		}
	}
	for _, at := range []string{"2026-03-01T8:00:00Z", "2026-03-01T08:00:00,5Z", "2026-03-01T08:00:00+24:00", "2026-03-01T08:00:00+01:60", "2026-03-01", "Z", ""} {
		a["time"] = at
		if err := CheckAttributes(a); err == nil {
			t.Errorf("time %q was taken", at)
		}
	}
}
