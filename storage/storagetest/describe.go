package storagetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// describe writes an item down to its last field, so that two can be compared
// and a difference read. Empty and missing bytes and headers are the same.
func describe(it queue.Item) string {
	return fmt.Sprintf("%s token=%d/%d seq=%d %s", describeFree(it), it.Token.Counter, it.Token.Random, it.Seq, describeContent(it.Content))
}

// describeFree leaves out what a store chooses: the token and the seq; and the
// content, which not every verb reads. Who held an item that is not held, and on
// what terms, is nobody's business.
func describeFree(it queue.Item) string {
	holder := "free"
	if it.Held {
		holder = fmt.Sprintf("held by %q, lapse counts %v", it.Owner, it.LapseCounts)
	}
	dead := "no"
	if d := it.Dead; d != nil {
		dead = fmt.Sprintf("{from=%d %q at=%s status=%d att=%d rec=%d}", d.From, d.Reason, clockTime(d.At), d.Status, d.Attempts, d.Recoveries)
	}
	return fmt.Sprintf("%s q=%d home=%d p=%d avail=%s due=%s first=%s created=%s updated=%s %s gen=%d del=%d att=%d rec=%d max=%d exp=%s last=%d:%q dead=%s",
		it.ID, it.Queue, it.Home, it.Partition, clockTime(it.AvailableAt), clockTime(it.DueAt), clockTime(it.FirstDueAt), clockTime(it.CreatedAt), clockTime(it.UpdatedAt),
		holder, it.Generation, it.Deliveries, it.Attempts, it.Recoveries, it.MaxAttempts, clockTime(it.ExpiresAt), it.Last.Status, it.Last.Error, dead)
}

func describeContent(c queue.Content) string {
	var headers []string
	for name, value := range c.Headers {
		headers = append(headers, fmt.Sprintf("%q=%q", name, value))
	}
	slices.Sort(headers)
	target := "no"
	if c.Target != nil {
		target = fmt.Sprintf("%+v", *c.Target)
	}
	return fmt.Sprintf("kind=%q enc=%q ref=%q key=%q source=%q headers=[%s] trace=%q hop=%d target=%s done=%q payload=%q",
		c.Kind, c.Encoding, c.Reference, c.OrderingKey, c.SourceID, strings.Join(headers, " "), c.Trace, c.Hop, target, c.OnDone, c.Payload)
}

func describeRecord(r queue.Record) string {
	return fmt.Sprintf("%s at=%s %s q=%d home=%d delivery=%d next=%s/%s sub=%q started=%s took=%s %q status=%d error=%q response=%q node=%q",
		r.Type, clockTime(r.At), r.Key.ID, r.Key.Queue, r.Key.Home, r.Delivery, r.Next, clockTime(r.NextAt), r.Subscription,
		clockTime(r.StartedAt), r.Duration, r.Verdict, r.Status, r.Error, r.Response, r.Node)
}

// clockTime tells a time by how long after [Start] it is, which is easier to read
// in a sequence of calls than a date.
func clockTime(t time.Time) string {
	switch {
	case t.IsZero():
		return "never"
	case t.Equal(queue.Forever):
		return "forever"
	default:
		return t.Sub(Start).String()
	}
}

// firstDifference shows where two long texts part: the words of the first line
// that is not the same, or the whole lines where these are of another make.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		a, b := "(nothing)", "(nothing)"
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a == b {
			continue
		}
		if words := differentWords(a, b); words != "" {
			return fmt.Sprintf("line %d: %s\n in  %s", i+1, words, b)
		}
		return fmt.Sprintf("line %d\n got %s\nwant %s", i+1, a, b)
	}
	return "no difference"
}

func differentWords(got, want string) string {
	g, w := strings.Fields(got), strings.Fields(want)
	if len(g) != len(w) || len(g) == 0 || g[0] != w[0] {
		return ""
	}
	var words []string
	for i := range g {
		if g[i] != w[i] {
			words = append(words, fmt.Sprintf("got %s, want %s", g[i], w[i]))
		}
	}
	return strings.Join(words, "; ")
}
