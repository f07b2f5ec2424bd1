package client

import (
	"unicode/utf8"

	v1 "github.com/posthaste-io/posthaste/api/v1"
)

// wire is a creation.
func (s *Schedule) wire() *v1.Schedule {
	w := &v1.Schedule{
		Name: s.Name, Cron: s.Cron, Zone: s.Zone, QueueName: s.Queue, Item: s.Item.template(),
		ClocksForward: present(s.ClocksForward), ClocksBack: present(s.ClocksBack), Overlap: present(s.Overlap),
		Jitter: text(s.Jitter), StartAt: stamp(s.StartAt), EndAt: stamp(s.EndAt), Paused: s.Paused, Labels: s.Labels,
	}
	if m := s.Missed; m != (Missed{}) {
		w.Missed = &v1.Missed{Policy: m.Policy, Max: count(m.Max), Grace: text(m.Grace)}
	}
	return w
}

func (u *ScheduleUpdate) wire(name string) *v1.Schedule {
	w := &v1.Schedule{
		Name: name, Revision: u.Revision, Cron: u.Cron, Zone: u.Zone, QueueName: u.Queue,
		ClocksForward: present(u.ClocksForward), ClocksBack: present(u.ClocksBack), Overlap: present(u.Overlap),
		Jitter: presentText(u.Jitter), StartAt: presentStamp(u.StartAt), EndAt: presentStamp(u.EndAt), Labels: u.Labels,
	}
	if u.Item != nil {
		w.Item = u.Item.template()
	}
	if m := u.Missed; m != (MissedUpdate{}) {
		w.Missed = &v1.Missed{Policy: m.Policy, Max: count(m.Max), Grace: presentText(m.Grace)}
	}
	return w
}

// template is an item of a schedule: its payload is sent as text where it is text, in
// which the server fills in times.
func (it *Item) template() *v1.Produce {
	p := it.wire()
	if utf8.Valid(it.Payload) {
		p.Bytes, p.Utf8 = nil, string(it.Payload)
	}
	return p
}

func (p *PreviewParams) wire() *v1.PreviewRequest {
	return &v1.PreviewRequest{
		Name: p.Name, Cron: p.Cron, Zone: p.Zone, ClocksForward: p.ClocksForward, ClocksBack: p.ClocksBack,
		StartAt: stamp(p.StartAt), EndAt: stamp(p.EndAt), Count: count(p.Count), From: stamp(p.From),
	}
}

func scheduleOf(s *v1.Schedule) Schedule {
	return Schedule{
		Name: s.GetName(), Cron: s.GetCron(), Zone: s.GetZone(), Queue: s.GetQueueName(), Item: templateOf(s.GetItem()),
		ClocksForward: s.GetClocksForward(), ClocksBack: s.GetClocksBack(), Overlap: s.GetOverlap(),
		Missed: Missed{Policy: s.GetMissed().GetPolicy(), Max: int(s.GetMissed().GetMax()), Grace: span(s.GetMissed().GetGrace())},
		Jitter: span(s.GetJitter()), StartAt: instant(s.GetStartAt()), EndAt: instant(s.GetEndAt()), Paused: s.GetPaused(), Labels: s.GetLabels(),
		NextAt: instant(s.GetNextAt()), LastAt: instant(s.GetLastAt()), LastFiredAt: instant(s.GetLastFiredAt()), LastItemID: s.GetLastItemId(),
		LastError:   s.GetLastError(),
		MissedCount: int(s.GetMissedCount()), SkippedCount: int(s.GetSkippedCount()),
		CreatedAt: instant(s.GetCreatedAt()), UpdatedAt: instant(s.GetUpdatedAt()), Revision: s.GetRevision(),
	}
}

func templateOf(p *v1.Produce) Item {
	it := Item{
		Kind: p.GetKind(), Encoding: p.GetEncoding(), Reference: p.GetReference(), Payload: p.GetBytes(), Headers: p.GetHeaders(),
		MaxAttempts: int(p.GetMaxAttempts()), ExpireTimeout: span(p.GetExpireTimeout()), Target: targetOf(p.GetTarget()), OnDone: p.GetOnDone(), OrderingKey: p.GetOrderingKey(),
	}
	if p.GetBytes() == nil {
		it.Payload = []byte(p.GetUtf8())
	}
	return it
}
