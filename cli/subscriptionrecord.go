package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

func subscriptionRecord(s client.Subscription, now time.Time) *record {
	r := new(record)
	r.paint("subscription", s.Name, bold)
	r.set("queue", s.Queue)
	r.set("topic", s.Topic)
	switch {
	case s.URL != "":
		r.set("url", s.Method+" "+s.URL)
	case !s.AllowTarget:
		r.set("url", "none, it is pulled from "+s.Queue)
	}
	if s.AllowTarget {
		r.set("targets", "items may bring their own")
	}
	for name, value := range sorted(s.Headers) {
		r.set("header", name+": "+value)
	}
	r.paint("state", s.State, stateCell(s.State).colour)
	r.paint("reason", s.Reason, red)
	r.set("disabled", when(s.DisabledAt, now))
	r.paint("failing since", when(s.FailingSince, now), yellow)
	r.paint("secret", s.Secret, bold)
	for _, until := range s.OldSecretsUntil {
		r.set("old secret until", when(until, now))
	}
	r.set("auth", authText(s.Auth))
	r.set("timeout", spanText(s.Timeout))
	r.set("max in flight", strconv.Itoa(s.MaxInFlight))
	r.set("rate", perPeriod(s.Rate).String())
	r.set("retry", retryText(s.Retry))
	if s.HTTP2 {
		r.set("http", "HTTP/2")
	}
	if s.Format != "plain" {
		r.set("format", s.Format)
	}
	if s.Defer {
		r.set("defer", fmt.Sprintf("up to %s, %s at a time", shortSpan(s.DeferTimeout), plural(s.MaxDeferred, "item")))
	}
	r.set("batch", batchText(s.Batch))
	if s.Log != "all" {
		r.set("log", s.Log)
	}
	r.set("on done", s.OnDone)
	r.set("kinds", strings.Join(s.Filter.Kinds, " "))
	r.set("filter", s.Filter.CEL)
	r.lane(s.Lane, now)
	r.set("created", when(s.CreatedAt, now))
	r.set("updated", when(s.UpdatedAt, now))
	r.set("revision", s.Revision)
	return r
}

// lane adds what pushes do now.
func (r *record) lane(l *client.Lane, now time.Time) {
	if l == nil {
		return
	}
	r.set("pushing", fmt.Sprintf("%d of %d", l.InFlight, l.Window))
	r.set("deferred", count(l.Deferred))
	r.paint("breaker", l.Breaker, breakerColour(l.Breaker))
	r.set("breaker until", when(l.BreakerUntil, now))
	r.set("waits until", when(l.PausedUntil, now))
	r.set("rate until", when(l.RateUntil, now))
	r.set("lag", shortSpan(l.Lag))
	r.paint("last error", l.LastError, red)
	r.set("last error at", when(l.LastErrorAt, now))
	for _, h := range l.Hosts {
		parts := []string{h.Host, fmt.Sprintf("pushing %d of %d", h.InFlight, h.Window), "breaker " + h.Breaker}
		if waits := waitsText(h.BreakerUntil, h.PausedUntil, h.RateUntil, now); waits != "" {
			parts = append(parts, "waits: "+waits)
		}
		if h.LastError != "" {
			parts = append(parts, ago(h.LastErrorAt, now)+": "+h.LastError)
		}
		r.paint("host", strings.Join(parts, "; "), breakerColour(h.Breaker))
	}
}

// waitsText says what a lane waits for: of several the one that lasts longest.
func waitsText(breaker, asked, rate, now time.Time) string {
	text, last := "", now
	for _, each := range []struct {
		what  string
		until time.Time
	}{{"rate", rate}, {"asked", asked}, {"probe", breaker}} {
		if each.until.After(last) {
			text, last = each.what+" "+shortSpan(each.until.Sub(now)), each.until
		}
	}
	return text
}

// authText says by what requests authenticate, and nothing secret.
func authText(a *client.Auth) string {
	if a == nil {
		return ""
	}
	var parts []string
	switch {
	case a.Basic != nil:
		parts = append(parts, "basic as "+a.Basic.Username)
	case a.Bearer != "":
		parts = append(parts, "bearer")
	case a.OAuth2 != nil:
		parts = append(parts, "OAuth2 as "+a.OAuth2.ClientID+" by "+a.OAuth2.TokenURL)
	}
	if a.ClientCertificate != "" {
		parts = append(parts, "client certificate")
	}
	if a.RootCAs != "" {
		parts = append(parts, "own root certificates")
	}
	return strings.Join(parts, "; ")
}

func batchText(b *client.Batch) string {
	if b == nil {
		return ""
	}
	text := fmt.Sprintf("up to %s or %d bytes as %s", plural(b.MaxItems, "item"), b.MaxBytes, cmp.Or(b.Encoding, "json"))
	if b.MaxWait > 0 {
		text += ", waiting " + shortSpan(b.MaxWait)
	}
	return text
}

func breakerColour(state string) colour {
	if state == "open" {
		return red
	}
	return plain
}

// retryText says a policy in words.
func retryText(p client.RetryPolicy) string {
	parts := []string{limit(p.MaxAttempts) + " attempts"}
	if p.MaxAttempts == -1 {
		parts[0] = "any number of attempts"
	}
	if len(p.Schedule) > 0 {
		waits := make([]string, len(p.Schedule))
		for i, wait := range p.Schedule {
			waits[i] = shortSpan(wait)
		}
		parts = append(parts, "after "+strings.Join(waits, ", "))
	} else if p.MinBackoff > 0 {
		parts = append(parts, fmt.Sprintf("after %s, times %v, up to %s", shortSpan(p.MinBackoff), p.Multiplier, shortSpan(p.MaxBackoff)))
	}
	if p.GiveUpAfter != nil && *p.GiveUpAfter > 0 {
		parts = append(parts, "given up after "+shortSpan(*p.GiveUpAfter))
	}
	if len(p.BuryOn) > 0 {
		parts = append(parts, "buried at once on "+strings.Trim(fmt.Sprint(p.BuryOn), "[]"))
	}
	if p.DisableAfter != nil && *p.DisableAfter > 0 {
		parts = append(parts, "disabled after "+shortSpan(*p.DisableAfter)+" of failures")
	}
	return strings.Join(parts, "; ")
}
