package dispatcher

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

var update = flag.Bool("update", false, "rewrite testdata/decide.golden")

// The table shows what every status and every class of failure means under every
// policy that makes a difference. Equal lines of neighbouring statuses are one line.
func TestDecide_Table(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for p, policy := range policies() {
		for _, it := range situations() {
			if p > 0 && !it.telling {
				continue // no policy makes a difference here
			}
			fmt.Fprintf(&out, "## %s, %s\n", policy.name, it.name)
			for _, answer := range answers() {
				fmt.Fprintf(&out, "%s:\n", answer.name)
				writeRanges(&out, func(status int) string {
					got := webhooks.Classify(status, answer.header, false, time.Time{})
					res := webhooks.Result{
						Verdict: got.Verdict, Status: status, Class: webhooks.ClassStatus,
						RetryAfter: got.RetryAfter, Never: got.Never,
					}
					return line(decide(&res, it.facts, &policy.Policy, 0.5), &res)
				})
			}
			fmt.Fprintln(&out, "no status:")
			for _, res := range failures() {
				fmt.Fprintf(&out, "  %-20s %s\n", res.Class, line(decide(&res, it.facts, &policy.Policy, 0.5), &res))
			}
			fmt.Fprintln(&out)
		}
	}
	const golden = "testdata/decide.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != string(want) {
		gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
		for i := range min(len(gotLines), len(wantLines)) {
			if gotLines[i] != wantLines[i] {
				t.Fatalf("line %d\ngot  %s\nwant %s\nrun with -update to accept", i+1, gotLines[i], wantLines[i])
			}
		}
		t.Fatalf("%d lines, want %d; run with -update to accept", len(gotLines), len(wantLines))
	}
}

type namedPolicy struct {
	name string
	subscriptions.Policy
}

func policies() []namedPolicy {
	buries := subscriptions.DefaultPolicy()
	buries.BuryOn = []int32{301, 410, 422, 429, 503}
	listed := subscriptions.DefaultPolicy()
	listed.Schedule = []time.Duration{0, time.Minute}
	listed.GiveUpAfter = 0
	return []namedPolicy{
		{"default policy", subscriptions.DefaultPolicy()},
		{"bury_on 301 410 422 429 503", buries},
		{"schedule 0s 1m, no give_up_after", listed},
	}
}

type situation struct {
	name string
	// telling: worth a look under every policy.
	telling bool
	facts
}

func situations() []situation {
	const old = 8 * 24 * time.Hour
	return []situation{
		{"first attempt", true, facts{}},
		{"first attempt of an old item", false, facts{age: old}},
		{"third attempt of an old item", true, facts{attempts: 2, age: old}},
		{"old item that was only ever throttled", false, facts{failed: true, age: old}},
		{"in a dead-letter queue", true, facts{attempts: 40, age: old, dead: true}},
		{"while stopping", false, facts{stopping: true}},
		{"to its own target", false, facts{own: true}},
	}
}

type answer struct {
	name   string
	header http.Header
}

func answers() []answer {
	return []answer{
		{"plain", http.Header{}},
		{"with retry-after 100s", http.Header{"Retry-After": {"100"}}},
		{"with retry-after 10^12s", http.Header{"Retry-After": {"1000000000000"}}},
		{"with posthaste-retry never", http.Header{"Posthaste-Retry": {"never"}}},
	}
}

func failures() []webhooks.Result {
	var all []webhooks.Result
	for _, class := range []string{
		webhooks.ClassTimeout, webhooks.ClassTLSTimeout, webhooks.ClassTLS, webhooks.ClassDNS, webhooks.ClassRefused,
		webhooks.ClassReset, webhooks.ClassUnreachable, webhooks.ClassResetAfterWrite, webhooks.ClassClosedBeforeWrite,
		webhooks.ClassBadResponse, webhooks.ClassTooLargeHeaders, webhooks.ClassAuth, classItemFailed, classPanic,
	} {
		all = append(all, webhooks.Result{Verdict: webhooks.Retryable, Class: class})
	}
	return append(all,
		webhooks.Result{Verdict: webhooks.Blocked, Class: webhooks.ClassBlocked},
		webhooks.Result{Verdict: webhooks.Rejected, Class: webhooks.ClassInvalidRequest},
		webhooks.Result{Verdict: webhooks.Aborted, Class: webhooks.ClassCanceled},
	)
}

func writeRanges(out *strings.Builder, of func(status int) string) {
	start := 100
	for status := 100; status <= 599; status++ {
		if status < 599 && of(status) == of(status+1) {
			continue
		}
		span := fmt.Sprint(start)
		if status > start {
			span = fmt.Sprintf("%d-%d", start, status)
		}
		fmt.Fprintf(out, "  %-20s %s\n", span, of(status))
		start = status + 1
	}
}

func line(d decision, res *webhooks.Result) string {
	parts := []string{res.Verdict.String() + " ->", d.outcome.String()}
	if d.outcome == queue.Retry || d.outcome == queue.Release {
		parts = append(parts, "in "+d.delay.String())
	}
	if d.outcome == queue.Bury {
		parts = append(parts, "("+d.reason+")")
	}
	if d.pause > 0 {
		parts = append(parts, "lane waits "+d.pause.String())
	}
	if d.disable {
		parts = append(parts, "disable")
	}
	return strings.Join(append(parts, "endpoint "+healthOf(res).String()), " ")
}

func (h health) String() string {
	return map[health]string{silent: "silent", well: "well", ill: "ill"}[h]
}

// What must hold whatever the numbers are.
func TestDecide_Promises(t *testing.T) {
	t.Parallel()
	for _, policy := range policies() {
		for _, it := range situations() {
			for _, answer := range answers() {
				for status := 100; status <= 599; status++ {
					for _, rnd := range []float64{0, 0.5, 1 - 1e-9} {
						got := webhooks.Classify(status, answer.header, false, time.Time{})
						res := webhooks.Result{Verdict: got.Verdict, Status: status, RetryAfter: got.RetryAfter, Never: got.Never}
						d := decide(&res, it.facts, &policy.Policy, rnd)
						where := fmt.Sprintf("%s, %s, %s, %d", policy.name, it.name, answer.name, status)
						checkPromises(t, where, d, &res, it.facts)
					}
				}
			}
		}
	}
}

func checkPromises(t *testing.T, where string, d decision, res *webhooks.Result, it facts) {
	t.Helper()
	if (d.outcome == queue.Complete) != (res.Status >= 200 && res.Status <= 299) {
		t.Errorf("%s: completes only 2xx, got %v", where, d.outcome)
	}
	if it.dead && d.outcome == queue.Bury {
		t.Errorf("%s: buries in a dead-letter queue", where)
	}
	if d.outcome == queue.Bury && d.reason == "" {
		t.Errorf("%s: buries without a reason", where)
	}
	if waits := d.outcome == queue.Retry || d.outcome == queue.Release; waits && !d.disable && d.delay < res.RetryAfter {
		t.Errorf("%s: comes back after %v, asked for %v", where, d.delay, res.RetryAfter)
	}
	if d.outcome == queue.Release && d.delay > maxDelay || d.pause > maxPause {
		t.Errorf("%s: waits %v, lane %v", where, d.delay, d.pause)
	}
}
