package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

func TestPrintable_LetsNothingMoveTheCursor(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                 "",
		"plain ünïcode 日本": "plain ünïcode 日本",
		"a\tb\nc\rd":       `a\tb\nc\rd`,
		"\x1b[31mred":      `\u001b[31mred`,
		"\u202etxt.exe":    `\u202etxt.exe`,
		"\xff\xfe ok":      `\xff\xfe ok`,
		"\U000e0041":       `\U000e0041`,
	} {
		if got := printable(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestExcerpt_CutsBetweenCharacters(t *testing.T) {
	t.Parallel()
	if got := excerpt([]byte("äöü"), 3); got != "ä … (6 bytes)" {
		t.Errorf("got %q", got)
	}
	if got := excerpt([]byte("äöü"), 6); got != "äöü" {
		t.Errorf("got %q", got)
	}
}

func TestShortSpan_HasTwoUnitsAtMost(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                               "0s",
		time.Microsecond:                "<1ms",
		1500 * time.Microsecond:         "2ms",
		1540 * time.Millisecond:         "1.5s",
		10 * time.Second:                "10s",
		59*time.Second + 900*1e6:        "1m",
		time.Minute + 5*time.Second:     "1m5s",
		10 * time.Minute:                "10m",
		time.Hour:                       "1h",
		25 * time.Hour:                  "1d1h",
		240 * time.Hour:                 "10d",
		-3 * time.Second:                "-3s",
		26*time.Hour + 59*time.Minute:   "1d2h",
		time.Hour + 10*time.Minute + 99: "1h10m",
	} {
		if got := shortSpan(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

func TestTable_AlignsByWidthAndNotByBytesOrPaint(t *testing.T) {
	t.Parallel()
	rows := newTable("name", ">n", "state")
	rows.add(cell{text: "日本"}, cell{text: "7"}, cell{"bad", red})
	rows.add(cell{text: "x\ny"}, cell{"1000", yellow}, cell{})
	want := "NAME     N  STATE\n日本     7  bad\nx\\ny  1000\n"
	if got := onScreen(t, false, rows.print); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	painted := onScreen(t, true, rows.print)
	if !strings.Contains(painted, "\x1b[31mbad\x1b[0m") || !strings.Contains(painted, "\x1b[1mNAME\x1b[0m") {
		t.Errorf("got %q, want it painted", painted)
	}
	var plainly strings.Builder
	for rest := painted; rest != ""; {
		head, tail, found := strings.Cut(rest, "\x1b[")
		plainly.WriteString(head)
		if rest = ""; found {
			_, rest, _ = strings.Cut(tail, "m")
		}
	}
	if plainly.String() != want {
		t.Errorf("without its paint it is\n%s\nwant\n%s", plainly.String(), want)
	}
}

func TestTable_IsTabsAndNoHeadOffTheTerminal(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	c := newConsole(Streams{Out: &b})
	rows := newTable("name", ">n")
	rows.add(cell{"a\tb", red}, cell{text: "1"})
	if err := rows.print(c); err != nil {
		t.Fatal(err)
	}
	if err := c.flush(); err != nil {
		t.Fatal(err)
	}
	if want := "a\\tb\t1\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestTop_ShowsQueuesRatesAndLanes(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	before := &snapshot{at: at.Add(-2 * time.Second), queues: []counted{{name: "orders", Stats: client.Stats{Total: 100}}}}
	now := &snapshot{
		at: at,
		queues: []counted{
			{name: "new", settings: client.Queue{Pause: "lease"}},
			{name: "orders", Stats: client.Stats{Total: 60, Leased: 10, Scheduled: 20, Behind: 4, Capped: true, Failing: 3, MeanAge: 90 * time.Second, LeaseWaiting: 2}},
		},
		subscriptions: []client.Subscription{
			{Name: "shop", Queue: "orders", State: "active", Lane: &client.Lane{
				Window: 32, InFlight: 4, Breaker: "open", Lag: 3 * time.Second, LastError: "status: 503\x1b", LastErrorAt: at.Add(-time.Minute),
				BreakerUntil: at.Add(20 * time.Second), RateUntil: at.Add(time.Second), Deferred: 7,
				Hosts: []client.HostLane{
					{Host: "a.example:443", Window: 8, InFlight: 8, Breaker: "closed", PausedUntil: at.Add(time.Minute)},
					{Host: "b.example\x1b", Window: 1, Breaker: "half-open", LastError: "refused", LastErrorAt: at.Add(-time.Second)},
				},
			}},
			{Name: "zoo", Queue: "new", State: "disabled", Reason: "410 Gone"},
		},
	}
	f := &topCommand{Every: time.Second, connection: connection{URL: "http://x"}}
	got := onScreen(t, false, func(c *console) error { return f.print(c, now, before) })
	want := `QUEUE   READY  SCHEDULED  BEHIND  LEASED  FAILING  TOTAL  MEAN AGE  CONSUMERS  READY/S  TOTAL/S  PAUSED
new         0          0       0       0        0      0                                         lease
orders     26        20+      4+      10        3     60     1m30s          2      -37      -20

SUBSCRIPTION       QUEUE   STATE     PUSHING  WINDOW  BREAKER    WAITS      DEFERRED  LAG  LAST ERROR
shop               orders  active          4      32  open       probe 20s         7   3s  1m ago: status: 503\u001b
  a.example:443                            8       8  closed     asked 1m
  b.example\u001b                          0       1  half-open                            1s ago: refused
zoo                new     disabled                                                        410 Gone
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestJSON_OnATerminalHasNothingThatItObeys(t *testing.T) {
	t.Parallel()
	v := map[string]string{"a": "ü \u009b31m\u202e\U000e0041\x7f\x1b"}
	got := onScreen(t, false, func(c *console) error { return c.object(v) })
	if want := `{"a":"ü \u009b31m\u202e\udb40\udc41\u007f\u001b"}` + "\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var back map[string]string
	if err := json.Unmarshal([]byte(got), &back); err != nil || back["a"] != v["a"] {
		t.Errorf("it reads back as %q, %v", back["a"], err)
	}
}

func TestRefusal_NamesFieldAndRequest(t *testing.T) {
	t.Parallel()
	err := explain(t.Context(), partly(3, "moved", &client.Error{
		Method: "queue.redrive", Status: 400, CodeText: "invalid", Message: "limit: want 1 or more\x1b",
		Details: map[string]string{"field": "filter.kind"}, RequestID: "r-1", Tries: 1, Uncertain: true,
	}))
	want := "3 items moved; then: queue.redrive: invalid: limit: want 1 or more\\u001b\n  field: filter.kind\n  request id: r-1\n" +
		"  note: it may have been done all the same"
	if err.Error() != want {
		t.Errorf("got\n%s\nwant\n%s", err, want)
	}
	if !client.Is(err, "invalid") {
		t.Error("the client's error is not in the chain")
	}
}

func TestExitStatus_TellsRefusalsFromServersThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want int
	}{
		{&client.Error{Status: 404, CodeText: "not_found"}, exitFailed},
		{&client.Error{Status: 409, CodeText: "stale_lease"}, exitFailed},
		{&client.Error{Status: 500, CodeText: "internal"}, exitFailed},
		{&client.Error{Status: 404}, exitUnreached},
		{&client.Error{Status: 503, CodeText: "shutting_down"}, exitUnreached},
		{&client.Error{Status: 429, CodeText: "overloaded"}, exitUnreached},
		{&client.Error{Err: errOutput}, exitUnreached},
		{errOutput, exitFailed},
		{usagef("x"), exitUsage},
		{nothingf("x"), exitNothing},
	} {
		got := explain(t.Context(), tt.err).(*statusError).ExitStatus()
		if got != tt.want {
			t.Errorf("%v: got %d, want %d", tt.err, got, tt.want)
		}
	}
}
