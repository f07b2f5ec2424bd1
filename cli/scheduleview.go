package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

type scheduleView struct {
	Name          string            `json:"name"`
	Cron          string            `json:"cron"`
	Zone          string            `json:"zone"`
	QueueName     string            `json:"queue_name"`
	Item          templateView      `json:"item"`
	ClocksForward string            `json:"clocks_forward"`
	ClocksBack    string            `json:"clocks_back"`
	Missed        missedView        `json:"missed"`
	Overlap       string            `json:"overlap"`
	Jitter        span              `json:"jitter,omitempty"`
	StartAt       time.Time         `json:"start_at,omitzero"`
	EndAt         time.Time         `json:"end_at,omitzero"`
	Paused        bool              `json:"paused"`
	Labels        map[string]string `json:"labels,omitempty"`
	NextAt        time.Time         `json:"next_at,omitzero"`
	LastAt        time.Time         `json:"last_at,omitzero"`
	LastFiredAt   time.Time         `json:"last_fired_at,omitzero"`
	LastItemID    string            `json:"last_item_id,omitempty"`
	LastError     string            `json:"last_error,omitempty"`
	MissedCount   int               `json:"missed_count"`
	SkippedCount  int               `json:"skipped_count"`
	CreatedAt     time.Time         `json:"created_at,omitzero"`
	UpdatedAt     time.Time         `json:"updated_at,omitzero"`
	Revision      string            `json:"revision,omitempty"`
}

// templateView is what a schedule produces.
type templateView struct {
	Kind      string `json:"kind,omitempty"`
	Encoding  string `json:"encoding,omitempty"`
	Reference string `json:"reference,omitempty"`
	payload
	Headers       map[string]string `json:"headers,omitempty"`
	MaxAttempts   int               `json:"max_attempts,omitempty"`
	ExpireTimeout span              `json:"expire_timeout,omitempty"`
	Target        *targetView       `json:"target,omitempty"`
	OnDone        string            `json:"on_done,omitempty"`
}

type missedView struct {
	Policy string `json:"policy"`
	Max    int    `json:"max,omitempty"`
	Grace  span   `json:"grace,omitempty"`
}

type triggeredView struct {
	ItemID    string `json:"item_id"`
	Duplicate bool   `json:"duplicate"`
}

type fireView struct {
	At    time.Time `json:"at"`
	Local string    `json:"local"`
	Note  string    `json:"note,omitempty"`
}

func scheduleViewOf(s client.Schedule) scheduleView {
	return scheduleView{
		Name: s.Name, Cron: s.Cron, Zone: s.Zone, QueueName: s.Queue, Item: templateViewOf(&s.Item),
		ClocksForward: s.ClocksForward, ClocksBack: s.ClocksBack, Missed: missedView{s.Missed.Policy, s.Missed.Max, span(s.Missed.Grace)},
		Overlap: s.Overlap, Jitter: span(s.Jitter), StartAt: s.StartAt, EndAt: s.EndAt, Paused: s.Paused, Labels: s.Labels,
		NextAt: s.NextAt, LastAt: s.LastAt, LastFiredAt: s.LastFiredAt, LastItemID: s.LastItemID,
		LastError: s.LastError, MissedCount: s.MissedCount, SkippedCount: s.SkippedCount, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Revision: s.Revision,
	}
}

func templateViewOf(it *client.Item) templateView {
	v := templateView{
		Kind: it.Kind, Encoding: it.Encoding, Reference: it.Reference, payload: payloadOf(it.Payload), Headers: it.Headers,
		MaxAttempts: it.MaxAttempts, ExpireTimeout: span(it.ExpireTimeout), OnDone: it.OnDone,
	}
	if t := it.Target; t != nil {
		v.Target = new(targetView{t.URL, t.Method, span(t.Timeout)})
	}
	return v
}

// scheduleState says and paints whether it fires.
func scheduleState(s client.Schedule) cell {
	switch {
	case s.Paused:
		return cell{"paused", yellow}
	case s.NextAt.IsZero():
		return cell{"over", dim}
	default:
		return cell{"active", green}
	}
}

func scheduleRecord(s client.Schedule, now time.Time) *record {
	r := new(record)
	r.paint("schedule", s.Name, bold)
	r.set("queue", s.Queue)
	r.set("cron", s.Cron)
	r.set("zone", s.Zone)
	state := scheduleState(s)
	r.paint("state", state.text, state.colour)
	r.paint("next", when(s.NextAt, now), bold)
	r.set("last", lastText(s, now))
	r.set("last item", s.LastItemID)
	r.paint("missed", count(s.MissedCount), yellow)
	r.paint("error", s.LastError, red)
	r.paint("skipped", count(s.SkippedCount), yellow)
	r.set("starts", when(s.StartAt, now))
	r.set("ends", when(s.EndAt, now))
	r.set("clocks forward", s.ClocksForward)
	r.set("clocks back", s.ClocksBack)
	r.set("missed times", missedText(s.Missed))
	r.set("overlap", s.Overlap)
	r.set("jitter", spanText(s.Jitter))
	for name, value := range sorted(s.Labels) {
		r.set("label", name+"="+value)
	}
	r.template(&s.Item)
	r.set("created", when(s.CreatedAt, now))
	r.set("updated", when(s.UpdatedAt, now))
	r.set("revision", s.Revision)
	return r
}

// lastText says for which time it fired last, and how late that was where people care.
func lastText(s client.Schedule, now time.Time) string {
	text := when(s.LastAt, now)
	if late := s.LastFiredAt.Sub(s.LastAt); text != "" && late >= time.Second {
		text += ", fired " + shortSpan(late) + " later"
	}
	return text
}

// missedText says a policy in words.
func missedText(m client.Missed) string {
	text := m.Policy
	if m.Policy == "all" {
		text = fmt.Sprintf("all, up to %d", m.Max)
	}
	if m.Grace > 0 {
		text += ", not over " + shortSpan(m.Grace) + " late"
	}
	return text
}

// template adds what is produced.
func (r *record) template(it *client.Item) {
	r.set("kind", it.Kind)
	r.set("encoding", it.Encoding)
	r.set("reference", it.Reference)
	for name, value := range sorted(it.Headers) {
		r.set("header", name+": "+value)
	}
	if it.MaxAttempts != 0 {
		r.set("max attempts", limit(it.MaxAttempts))
	}
	r.set("expires after", spanText(it.ExpireTimeout))
	if t := it.Target; t != nil {
		r.set("target", strings.TrimSpace(t.Method+" "+t.URL))
	}
	r.set("on done", it.OnDone)
	r.set("payload", excerpt(it.Payload, shownPayload))
}
