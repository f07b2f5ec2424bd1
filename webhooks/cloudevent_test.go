package webhooks

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestG09_BinaryModeSaysItAllInHeaders(t *testing.T) {
	t.Parallel()
	url, got := capture(t)
	r := request(url)
	r.ContentType = "application/json"
	r.CloudEvent = &CloudEvent{
		Source: "/queues/orders", Type: "order.created", Subject: "Euro € 😀",
		Time:       time.Date(2026, 3, 1, 13, 0, 0, 500_000_000, time.FixedZone("", 3600)),
		Extensions: map[string]string{"partitionkey": `a "b" 100%`, "empty": ""},
	}
	want(t, newTestSender(t).Send(t.Context(), r), Delivered, 200, "")
	req := <-got
	wanted := map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": r.ID, "Ce-Source": "/queues/orders", "Ce-Type": "order.created",
		"Ce-Subject": "Euro%20%E2%82%AC%20%F0%9F%98%80", "Ce-Time": "2026-03-01T12:00:00.5Z",
		"Ce-Partitionkey": "a%20%22b%22%20100%25", "Content-Type": "application/json",
	}
	for name, value := range wanted {
		if v := req.Header.Values(name); len(v) != 1 || v[0] != value {
			t.Errorf("%s: got %q, want %q", name, v, value)
		}
	}
	for name := range req.Header {
		if _, known := wanted[name]; strings.HasPrefix(name, "Ce-") && !known {
			t.Errorf("header %s that nobody asked for", name)
		}
	}
	id, e, err := ReadCloudEvent(req.Header)
	delete(r.CloudEvent.Extensions, "empty")
	if err != nil || id != r.ID || e.Source != r.CloudEvent.Source || e.Type != r.CloudEvent.Type || e.Subject != r.CloudEvent.Subject ||
		!e.Time.Equal(r.CloudEvent.Time) || !maps.Equal(e.Extensions, r.CloudEvent.Extensions) {
		t.Errorf("ReadCloudEvent: got %q, %+v, %v", id, e, err)
	}
}

func TestG09_HeadersAreDecodedOneWayOnly(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"Euro%20%E2%82%AC%20%F0%9F%98%80": "Euro € 😀",
		"%e2%82%ac":                       "€",
		"plain text":                      "plain text",
		"%22":                             `"`,
		"%25E2":                           "%E2",
		`"quoted \"text\" \\ %20"`:        `quoted "text" \  `,
		"":                                "",
		`""`:                              "",
	} {
		if got, err := ParseCloudEventHeader(value); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", value, got, err, want)
		}
	}
	for _, value := range []string{
		"%C0%A0",       // a space in two bytes
		"%E0%80%AF",    // a slash in three
		"%ED%A0%80",    // half of a pair
		"%F4%90%80%80", // beyond Unicode
		"%C3", "%80", "%", "%2", "%2G", "%G2", "%\x10\x10", "%-1", `"open`, `"a"b`, `"a\`,
	} {
		if got, err := ParseCloudEventHeader(value); err == nil {
			t.Errorf("%q: got %q, want an error", value, got)
		}
	}
}

func FuzzParseCloudEventHeader(f *testing.F) {
	f.Add("Euro € 😀")
	f.Add(`"%C0%A0\`)
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := ParseCloudEventHeader(text); err == nil && !utf8.ValidString(got) {
			t.Errorf("%q: got %q", text, got)
		}
		encoded := encodeAttribute(text)
		if err := checkHeaderValue(encoded); err != nil && len(encoded) <= maxHeaderValue {
			t.Errorf("%q: encoded as %q: %v", text, encoded, err)
		}
		if got, err := ParseCloudEventHeader(encoded); err != nil || got != strings.ToValidUTF8(text, "\uFFFD") {
			t.Errorf("%q: encoded as %q, decoded as %q, %v", text, encoded, got, err)
		}
	})
}

func TestCheckCloudEvent_RefusesWhatIsNoEvent(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry"
	for name, e := range map[string]CloudEvent{
		"no source":          {Type: canary},
		"no type":            {Source: canary},
		"long subject":       {Source: "s", Type: "t", Subject: strings.Repeat(canary, maxAttribute)},
		"upper-case name":    {Source: "s", Type: "t", Extensions: map[string]string{"Key": canary}},
		"dash in a name":     {Source: "s", Type: "t", Extensions: map[string]string{"a-b": canary}},
		"line break":         {Source: "s", Type: "t", Extensions: map[string]string{"a\r\nx": canary}},
		"no name":            {Source: "s", Type: "t", Extensions: map[string]string{"": canary}},
		"long name":          {Source: "s", Type: "t", Extensions: map[string]string{strings.Repeat("x", 62): canary}},
		"long value":         {Source: "s", Type: "t", Extensions: map[string]string{"x": strings.Repeat(canary, maxAttribute)}},
		"an id of its own":   {Source: "s", Type: "t", Extensions: map[string]string{"id": canary}},
		"its content's type": {Source: "s", Type: "t", Extensions: map[string]string{"datacontenttype": canary}},
	} {
		if err := CheckCloudEvent(&e); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: got %v", name, err)
		}
		r := request("http://127.0.0.1:1/")
		r.CloudEvent = &e
		want(t, newTestSender(t).Send(t.Context(), r), Rejected, 0, ClassInvalidRequest)
	}
}

func TestReadCloudEvent_RefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	event := func(change func(http.Header)) http.Header {
		h := http.Header{"Ce-Specversion": {"1.0"}, "Ce-Id": {"1"}, "Ce-Source": {"s"}, "Ce-Type": {"t"}}
		change(h)
		return h
	}
	if _, e, err := ReadCloudEvent(event(func(http.Header) {})); err != nil || !e.Time.IsZero() || len(e.Extensions) > 0 {
		t.Errorf("the least: got %+v, %v", e, err)
	}
	for name, h := range map[string]http.Header{
		"no id":           event(func(h http.Header) { h.Del("Ce-Id") }),
		"another version": event(func(h http.Header) { h.Set("Ce-Specversion", "0.3") }),
		"two sources":     event(func(h http.Header) { h.Add("Ce-Source", "t") }),
		"overlong":        event(func(h http.Header) { h.Set("Ce-X", "%C0%A0") }),
		"no time":         event(func(h http.Header) { h.Set("Ce-Time", "yesterday") }),
	} {
		if _, e, err := ReadCloudEvent(h); err == nil {
			t.Errorf("%s: got %+v", name, e)
		}
	}
}
