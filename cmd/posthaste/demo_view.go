package main

import (
	"fmt"
	"strings"
	"time"
)

// demoView shows what happens, a line an event.
type demoView struct {
	term  *terminal
	start time.Time
}

func (v *demoView) say(format string, args ...any) {
	v.term.printf(format+"\n", args...)
}

func (v *demoView) head() {
	v.say("%s", v.term.paint(dim, fmt.Sprintf("%7s  %-8s %-10s %-8s %-6s %s", "time", "what", "item", "attempt", "answer", "what follows")))
}

// line shows one event. Columns are padded before they are painted, so that codes do
// not count.
func (v *demoView) line(at time.Time, what, item, attempt, answer string, c colour, follows string) {
	line := fmt.Sprintf("%6.2fs  %-8s %-10s %-8s %s %s", at.Sub(v.start).Seconds(), what, item, attempt,
		v.term.paint(c, fmt.Sprintf("%-6s", answer)), follows)
	v.say("%s", strings.TrimRight(line, " "))
}

func (v *demoView) summary(s summary) {
	lost := v.term.paint(green, "0")
	if len(s.lost) > 0 {
		lost = v.term.paint(red, fmt.Sprint(len(s.lost)))
	}
	v.say("\n%s", v.term.paint(bold, "Every item, counted outside the store"))
	v.say("  produced   %3d", s.produced)
	v.say("  delivered  %3d   by push, %d of them retried", s.delivered, s.retried)
	v.say("  pulled     %3d   leased and completed by a consumer", s.pulled)
	v.say("  buried     %3d   in the dead-letter queue, with the reason", s.buried)
	v.say("  lost       %3s", lost)
	v.say("  from produce (or due time) to delivery:")
	v.say("    first attempt    p50 %-9s p99 %-9s of %d", short(percentile(s.first, 50)), short(percentile(s.first, 99)), len(s.first))
	v.say("    with the retried p50 %-9s p99 %-9s of %d", short(percentile(s.all, 50)), short(percentile(s.all, 99)), len(s.all))
}
