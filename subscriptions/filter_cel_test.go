package subscriptions

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func TestMatcher_CEL(t *testing.T) {
	t.Parallel()
	tests := []struct {
		cel, payload string
		want         string // true, false, or the end of an error
	}{
		// What a payload is.
		{"payload == null", "", "true"},
		{"payload == null", "null", "true"},
		{"payload == null", "hello", "true"},
		{"payload == null", `{"a": 1} x`, "true"},
		{"payload == null", `{"a": 1`, "true"},
		{"payload == null", `{}`, "false"},
		{"payload == 'x'", ` "x" `, "true"},
		{"payload == true", "true", "true"},
		{"payload[1] == 2", "[1, 2]", "true"},
		{"payload == {'a': [1, 2.5, null]}", `{"a": [1.0, 2.5, null]}`, "true"},
		{"payload.a == '\\ufffd'", "{\"a\": \"\xff\"}", "true"},
		{"payload.a == 2", `{"a": 1, "a": 2}`, "true"},
		{"has(payload.a)", "hello", "false"},
		{"has(payload.a)", `{"a": null}`, "true"},
		{"has(payload.a.b)", `{}`, "no such key: a"},
		{"has(payload.a) && has(payload.a.b)", `{}`, "false"},
		{"payload.?a.?b.orValue(7) == 7", `{}`, "true"},
		{"payload.?a.?b.orValue(7) == 7", "hello", "true"},
		{"payload.?a.?b.orValue(7) == 7", `{"a": {"b": 8}}`, "false"},
		{"payload.a && true", `{"a": 1}`, "no such overload"},
		{"payload.a && true", `{"a": true}`, "true"},
		// Numbers.
		{"payload.n > 100", `{"n": 101}`, "true"},
		{"payload.n > 100", `{"n": 100.5}`, "true"},
		{"payload.n > 100", `{"n": 1e3}`, "true"},
		{"payload.n > 100.5", `{"n": 101}`, "true"},
		{"payload.n == 1", `{"n": 1.0}`, "true"},
		{"payload.n in [1, 2]", `{"n": 2.0}`, "true"},
		{"payload.n == 9223372036854775807", `{"n": 9223372036854775807}`, "true"},
		{"payload.n == 9223372036854775807", `{"n": 9223372036854775806}`, "false"},
		{"payload.n == 18446744073709551615u", `{"n": 18446744073709551615}`, "true"},
		{"payload.n > 18446744073709551615u", `{"n": 18446744073709551616000}`, "true"},
		{"payload.n > 1e308", `{"n": 1e999}`, "true"},
		{"payload.n < -1e308", `{"n": -1e999}`, "true"},
		{"payload.n == 0", `{"n": 1e-999}`, "true"},
		{"payload.n + 1 == 3", `{"n": 2}`, "true"},
		{"payload.n + 1 == 3", `{"n": 2.0}`, "no such overload"},
		{"payload.n + 1 == 3", `{"n": 9223372036854775807}`, "integer overflow"},
		{"payload.n / 0 == 3", `{"n": 1}`, "division by zero"},
		{"payload.n > 100", `{"n": "200"}`, "no such overload"},
		{"int(payload.n) > 100", `{"n": "200"}`, "true"},
		{"int(payload.n) > 100", `{"n": "canary"}`, "type conversion error"},
		// What is false or true whatever the other side is.
		{"payload.x == 1 || kind == 'order.created'", `{}`, "true"},
		{"kind == 'order.created' || payload.x == 1", `{}`, "true"},
		{"payload.x == 1 && kind == 'other'", `{}`, "false"},
		// The rest of an item.
		{"reference == 'INV-1' && encoding == 'application/json'", "", "true"},
		{"headers['x-tenant'] == 'acme' && headers.accept == '*/*'", "", "true"},
		{"headers['none'] == ''", "", "no such key: none"},
		{"'x-tenant' in headers && !('none' in headers)", "", "true"},
		{"headers.all(name, name.matches('^[a-z-]+$'))", "", "true"},
		{"matches(kind, 'created$') && kind.contains('.') && size(kind) == 13", "", "true"},
		{"payload.s.matches('^a+$')", `{"s": "aaa"}`, "true"},
		{"payload.s.matches('^a+$')", `{"s": 1}`, "no such overload"},
		// Macros.
		{"payload.l.exists(x, x == 2) && payload.l.all(x, x > 0) && payload.l.exists_one(x, x == 1)", `{"l": [1, 2]}`, "true"},
		{"payload.l.filter(x, x > 1).map(x, x * 2) == [4]", `{"l": [1, 2]}`, "true"},
		{"payload.m.exists(k, payload.m[k] == 2)", `{"m": {"a": 1, "b": 2}}`, "true"},
		{"timestamp(payload.t).getHours() == 12", `{"t": "2026-01-01T12:00:00Z"}`, "true"},
		{"timestamp(payload.t).getHours('Europe/Berlin') == 13", `{"t": "2026-01-01T12:00:00Z"}`, "true"},
	}
	for _, tt := range tests {
		got, err := takes(mustCompile(t, Filter{CEL: tt.cel, OnError: OnErrorSkip}), sample(tt.payload))
		switch {
		case tt.want == "true" || tt.want == "false":
			if err != nil || got != (tt.want == "true") {
				t.Errorf("%s of %s: got %v, %v, want %s", tt.cel, tt.payload, got, err, tt.want)
			}
		case err == nil || got || !strings.HasSuffix(err.Error(), ": "+tt.want):
			t.Errorf("%s of %s: got %v, %v, want %s", tt.cel, tt.payload, got, err, tt.want)
		}
	}
}

func sample(payload string) *queue.Content {
	return &queue.Content{
		Kind: "order.created", Reference: "INV-1", Encoding: "application/json",
		Headers: map[string]string{"X-Tenant": "acme", "accept": "*/*"}, Payload: []byte(payload),
	}
}

func TestCompileFilter_SaysWhereAndWhatToDo(t *testing.T) {
	t.Parallel()
	tests := []struct{ cel, want string }{
		{"   ", "line 1, column 4: ends where a value has to stand; write what"},
		{"kind ==", "line 1, column 8: ends where a value has to stand; write what"},
		{"// nothing", "line 1, column 11: ends where a value has to stand"},
		{"kind == 'é' && zz", "line 1, column 16: zz is not known; there are kind, reference, encoding, headers and payload"},
		{"kind\n ==\n  3", "line 2, column 2: == does not take (string, int); convert one with string(…)"},
		{"(kind == 'a'", "line 1, column 13: ')' is missing"},
		{`kind == "a`, "line 1, column 9: a text does not end"},
		{`'\q' == kind`, "line 1, column 1: a text does not end, or has a backslash that stands for nothing"},
		{"kind == 'a' & true", "line 1, column 13: & is no operator; write && for and"},
		{"kind == 'a' | true", "line 1, column 13: | is no operator; write || for or"},
		{"kind == 'a' and true", "line 1, column 13: and is no operator; write && for and"},
		{"kind =~ 'x'", "line 1, column 6: =~ is no operator; write kind.matches("},
		{"kind == 'a';", "line 1, column 12: ; does not belong into an expression"},
		{"kind == 'a' true", "line 1, column 13: true stands where an operator or the end has to"},
		{"kind == 'a' ? true", "line 1, column 19: a ? needs a second value"},
		{"kind.foo()", "line 1, column 9: foo is no function; there are size,"},
		{"kind.startsWith(1)", "line 1, column 16: startsWith does not take (int) on a value of type string; convert"},
		{"kind == 'a' || 3", "line 1, column 16: gives a value of type int where true or false has to stand"},
		{"has(payload)", "line 1, column 5: has takes a field"},
		{"99999999999999999999 == payload.x", "line 1, column 1: the number does not fit into 64 bits"},
		{"kind", "line 1, column 1: gives a value of type string; want true or false"},
		{"payload.paid", "line 1, column 1: gives something of which only the payload decides"},
		{"kind.matches('[')", "line 1, column 14: missing closing ]"},
		{"kind.matches('(?=a)')", "line 1, column 14: invalid or unsupported Perl syntax: `(?=`; want a pattern of RE2"},
		{"matches(kind, kind)", "line 1, column 15: the pattern of matches is computed; want a text in quotes"},
		{"payload.l.exists(x, kind.matches(x))", "line 1, column 34: the pattern of matches is computed"},
		{"kind.matches('(a{60}|b{60}){10}')", "line 1, column 14: the pattern has 1"},
		{"headers['X'] == ''", "line 1, column 9: names of headers are in lower case here, however they were sent; write 'x'"},
		{"headers.X == ''", "line 1, column 8: names of headers are in lower case"},
		{"headers[?'X'].orValue('') == ''", "line 1, column 10: names of headers are in lower case"},
		{"'X' in headers", "line 1, column 1: names of headers are in lower case"},
		{strings.Repeat("(", 60) + "true" + strings.Repeat(")", 60), "line 1, column 1: is too large, or nested too deeply; want at most 50 levels"},
		{"payload.all(x, payload.all(y, payload.all(z, x + y + z > 0)))", "line 1, column 1: costs too much"},
		{strings.Repeat("payload.all(x,", 30) + "true" + strings.Repeat(")", 30), "line 1, column 1: costs too much"},
	}
	for _, tt := range tests {
		_, err := CompileFilter(Filter{CEL: tt.cel})
		if e, ok := errors.AsType[*queue.InvalidError](err); !ok || e.Field != "filter.cel" || !strings.HasPrefix(e.Reason, tt.want) {
			t.Errorf("%s:\ngot  %v\nwant %s…", tt.cel, err, tt.want)
		}
	}
}

// hostile are payloads of a megabyte that ask for as much as they can.
var hostile = map[string]string{
	"wide": `{"s":"` + strings.Repeat("x", 700_000) + `","l":[` + strings.Repeat(`"x",`, 1000) + `1],"b":[[` + strings.Repeat("0,", 90_000) + `0]]}`,
	"deep": strings.Repeat("[", 1_000_000), "objects": "[" + strings.Repeat("{},", 333_000) + "1]",
	"digits": `{"n":` + strings.Repeat("9", 900_000) + `}`, "quotes": `"` + strings.Repeat(`\"`, 499_000), "escapes": strings.Repeat(`\`, 1_000_000),
	"99 levels": strings.Repeat("[", 99) + strings.Repeat("]", 99),
}

// nested binds a value to a, another made of it to b, and so on to m, and asks about that.
func nested(of, what string) string {
	text, end := "[[0]].exists(a, ", ")"
	last := "a"
	for name := 'b'; name <= 'm'; name++ {
		text += "[" + fmt.Sprintf(of, last) + "].exists(" + string(name) + ", "
		end += ")"
		last = string(name)
	}
	return text + fmt.Sprintf(what, last) + end
}

// Each of these would take seconds, or gigabytes, without the limits. The bounds here are
// a count of steps and of allocations, not of time, which other tests share.
func TestMatcher_HostilePayloadsEnd(t *testing.T) {
	t.Parallel()
	tests := []struct {
		payload, cel string
		want         error // nil: it has a value
	}{
		{"deep", "payload != null", errPayload},
		{"objects", "payload != null", errPayload},
		{"quotes", "payload == null", nil},
		{"escapes", "payload == null", nil},
		{"digits", "payload.n > 100", nil},
		{"99 levels", "payload == payload", nil},
		{"wide", "payload.s.contains('y')", nil},
		{"wide", "payload.b != []", nil},
		{"wide", "payload.s.matches('(x+x+)+y')", errLongMatch},
		{"wide", "payload.l.all(x, payload.s.matches('a'))", errLongMatch},
		{"wide", strings.Repeat("payload.s + ", 40) + "'' == ''", errCost},
		{"wide", "payload.l.map(x, payload.s + 'a').size() == 0", errCost},
		{"wide", "payload.l.all(x, payload.s.size() > 0)", errCost},
		{"wide", "payload.l.all(x, payload.s < payload.s + 'a')", errCost},
		{"wide", strings.Repeat("payload.b == payload.b && ", 150) + "true", errCost},
		{"wide", "payload.l.all(x, payload.b == payload.b)", errCost},
		{"wide", "payload.b in [payload.b, payload.b]", errCost},
		{"wide", "payload.l.all(x, x in payload.l + [1])", errCost},
		{"wide", "payload.l.all(x, payload.l.all(y, x == y || y == 1 || x == 1))", errCost},
		{"wide", "payload.l.map(x, payload.l.map(y, y)).size() == 0", errCost},
		{"wide", "payload.l.all(x, timestamp('2026-01-01T00:00:00Z').getHours('Europe/Berlin') == 1)", errCost},
		// Values that share their parts are small to make, and endless to walk through.
		{"wide", nested("[%[1]s,%[1]s,%[1]s,%[1]s,%[1]s,%[1]s,%[1]s,%[1]s]", "%[1]s == %[1]s"), errCost},
		{"wide", nested("[%[1]s,%[1]s,%[1]s,%[1]s,%[1]s,%[1]s,%[1]s,%[1]s]", "%[1]s != %[1]s"), errCost},
		{"wide", nested("[%[1]s,%[1]s,%[1]s,%[1]s,%[1]s,%[1]s,%[1]s,%[1]s]", "%[1]s in [%[1]s]"), errCost},
		{"wide", nested("%[1]s + %[1]s", "0 in %[1]s"), nil},
		{"wide", nested("%[1]s + %[1]s", "%[1]s.size() == 4096"), nil},
		{"wide", "payload.l.all(x, (payload.l + payload.l).size() > 0)", errCost},
		{"wide", "payload.l.all(x, optional.of(payload.b) == optional.of(payload.b))", errCost},
		{"wide", "payload.l.all(x, !(payload.s in ['a', 'b']))", errCost},
	}
	for _, tt := range tests {
		m := mustCompile(t, Filter{CEL: tt.cel})
		m.expr.timeout = time.Hour
		if _, err := takes(m, &queue.Content{Payload: []byte(hostile[tt.payload])}); !errors.Is(err, tt.want) {
			t.Errorf("%s of %.60s: got %v, want %v", tt.payload, tt.cel, err, tt.want)
		}
	}
}

func TestCandidate_HeadersOfTwoSpellings(t *testing.T) {
	t.Parallel()
	for range 20 { // maps have no order
		got := lowerNames(map[string]string{"X-a": "second", "X-A": "first", "b": "b"})
		if len(got) != 2 || got["x-a"] != "first" || got["b"] != "b" {
			t.Fatalf("got %v", got)
		}
	}
}
