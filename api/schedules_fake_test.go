package api_test

import (
	"context"
	"maps"
	"slices"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/cron"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/schedules"
)

// scheds keeps schedules in a map and remembers what it was asked.
type scheds struct {
	kept      map[string]schedules.Schedule
	created   schedules.CreateParams
	updated   schedules.UpdateParams
	previewed schedules.PreviewParams
	triggered schedules.TriggerParams
	fires     []cron.Fire
	// lists counts the pages that were read.
	lists int
	err   error
}

var _ api.Schedules = (*scheds)(nil)

func newScheds() *scheds { return &scheds{kept: make(map[string]schedules.Schedule)} }

func (s *scheds) Create(_ context.Context, p schedules.CreateParams) (schedules.Schedule, error) {
	s.created = p
	sched := schedules.Schedule{Namespace: p.Namespace, Name: p.Name, Paused: p.Paused, Revision: 1}
	if p.Item != nil {
		sched.Item = *p.Item
	}
	s.kept[p.Name] = sched
	return sched, s.err
}

func (s *scheds) Get(_ context.Context, _ queue.Namespace, name string) (schedules.Schedule, error) {
	sched, ok := s.kept[name]
	if !ok {
		return sched, queue.ErrNotFound
	}
	return sched, s.err
}

func (s *scheds) List(_ context.Context, _ queue.Namespace, after string, limit int) ([]schedules.Schedule, error) {
	s.lists++
	var found []schedules.Schedule
	for _, name := range slices.Sorted(maps.Keys(s.kept)) {
		if name > after && len(found) < limit {
			found = append(found, s.kept[name])
		}
	}
	return found, s.err
}

func (s *scheds) Update(ctx context.Context, p schedules.UpdateParams) (schedules.Schedule, error) {
	sched, err := s.Get(ctx, p.Namespace, p.Name)
	if err != nil {
		return sched, err
	}
	if err := p.Complete(&sched, &p.Change); err != nil {
		return sched, err
	}
	p.Complete = nil // funcs cannot be compared
	s.updated = p
	return sched, nil
}

func (s *scheds) Delete(_ context.Context, _ queue.Namespace, name string) error {
	delete(s.kept, name)
	return s.err
}

func (s *scheds) pause(ctx context.Context, ns queue.Namespace, name string, paused bool) (schedules.Schedule, error) {
	sched, err := s.Get(ctx, ns, name)
	if err != nil {
		return sched, err
	}
	sched.Paused = paused
	s.kept[name] = sched
	return sched, nil
}

func (s *scheds) Pause(ctx context.Context, ns queue.Namespace, name string) (schedules.Schedule, error) {
	return s.pause(ctx, ns, name, true)
}

func (s *scheds) Resume(ctx context.Context, ns queue.Namespace, name string) (schedules.Schedule, error) {
	return s.pause(ctx, ns, name, false)
}

// triggeredID is the item that every trigger makes.
var triggeredID = queue.NewID()

func (s *scheds) Trigger(ctx context.Context, p schedules.TriggerParams) (queue.Produced, error) {
	sched, err := s.Get(ctx, p.Namespace, p.Name)
	if err != nil {
		return queue.Produced{}, err
	}
	if err := p.Allow(sched.Queue); err != nil {
		return queue.Produced{}, err
	}
	again := p.Key != "" && p.Key == s.triggered.Key
	s.triggered = p
	return queue.Produced{ID: triggeredID, Duplicate: again}, s.err
}

func (s *scheds) Preview(_ context.Context, p schedules.PreviewParams) ([]cron.Fire, error) {
	s.previewed = p
	return s.fires, s.err
}
