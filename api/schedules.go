package api

import (
	"context"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/schedules"
)

// scheduleMethods are refused by a server that keeps no schedules.
var scheduleMethods = []string{
	"schedules.create", "schedules.list", "schedules.info", "schedules.update", "schedules.delete",
	"schedules.pause", "schedules.resume", "schedules.trigger", "schedules.preview",
}

func (s *Server) scheduleRoutes() {
	if s.schedules == nil {
		s.unsupported(scheduleMethods)
		return
	}
	queues := func(q *v1.Schedule) names {
		return append(ifNamed("queue_name", q.GetQueueName()), ifNamed("item.on_done", q.GetItem().GetOnDone())...)
	}
	whole := func(name string, do func(context.Context, *call, *v1.Schedule) (*v1.Schedule, error)) {
		register(s, method[*v1.Schedule, *v1.Schedule]{
			name: "schedules." + name, bytes: s.limits.ItemCall,
			noun: "schedule", target: (*v1.Schedule).GetName, also: queues,
			do: do,
		})
	}
	whole("create", s.createSchedule)
	whole("update", s.updateSchedule)

	named := func(name string, do func(context.Context, queue.Namespace, string) (schedules.Schedule, error)) {
		register(s, method[*v1.ScheduleRequest, *v1.Schedule]{
			name: "schedules." + name, bytes: s.limits.Call,
			noun: "schedule", target: (*v1.ScheduleRequest).GetName,
			do: func(ctx context.Context, c *call, q *v1.ScheduleRequest) (*v1.Schedule, error) {
				return shownSchedule(do(ctx, c.namespace, q.GetName()))
			},
		})
	}
	named("info", s.schedules.Get)
	named("pause", s.schedules.Pause)
	named("resume", s.schedules.Resume)

	register(s, method[*v1.ScheduleRequest, *v1.Reply]{
		name: "schedules.delete", bytes: s.limits.Call,
		noun: "schedule", target: (*v1.ScheduleRequest).GetName,
		do: func(ctx context.Context, c *call, q *v1.ScheduleRequest) (*v1.Reply, error) {
			return done(s.schedules.Delete(ctx, c.namespace, q.GetName()))
		},
	})
	register(s, method[*v1.SchedulesListRequest, *v1.SchedulesListReply]{
		name: "schedules.list", bytes: s.limits.Call,
		noun: "schedule", target: noTarget[*v1.SchedulesListRequest], optional: true,
		do: s.listSchedules,
	})
	register(s, method[*v1.TriggerRequest, *v1.TriggerReply]{
		name: "schedules.trigger", bytes: s.limits.Call,
		noun: "schedule", target: (*v1.TriggerRequest).GetName, keyed: true,
		do: s.triggerSchedule,
	})
	register(s, method[*v1.PreviewRequest, *v1.PreviewReply]{
		name: "schedules.preview", bytes: s.limits.Call,
		noun: "schedule", target: (*v1.PreviewRequest).GetName, optional: true,
		do: s.previewSchedule,
	})
}

func (s *Server) createSchedule(ctx context.Context, c *call, q *v1.Schedule) (*v1.Schedule, error) {
	change, err := scheduleChange(q)
	if err != nil {
		return nil, err
	}
	if q.GetRevision() != "" {
		return nil, queue.Invalid("revision", "is for updates; a new schedule has none")
	}
	if isMaskedItem(change.Item) {
		if err := unmaskItem(change.Item, new(queue.ProduceItem)); err != nil {
			return nil, err
		}
	}
	return shownSchedule(s.schedules.Create(ctx, schedules.CreateParams{
		Namespace: c.namespace, Name: q.GetName(), Paused: q.GetPaused(), Change: change,
	}))
}

func (s *Server) updateSchedule(ctx context.Context, c *call, q *v1.Schedule) (*v1.Schedule, error) {
	change, err := scheduleChange(q)
	if err != nil {
		return nil, err
	}
	params := schedules.UpdateParams{
		Namespace: c.namespace, Name: q.GetName(), Change: change,
		Complete: func(kept *schedules.Schedule, change *schedules.Change) error {
			return completeSchedule(c, q, kept, change)
		},
	}
	if params.Revision, err = revision(q.GetRevision()); err != nil {
		return nil, err
	}
	return shownSchedule(s.schedules.Update(ctx, params))
}

// completeSchedule refuses an update of who may not produce to the schedule's queue, and one
// that would begin a pause without saying so in its name, and gives it the values that its
// masks stand for. What info answered may be sent back.
func completeSchedule(c *call, q *v1.Schedule, kept *schedules.Schedule, change *schedules.Change) error {
	if err := c.allow(kept.Queue); err != nil {
		return err
	}
	if q.GetPaused() && !kept.Paused {
		return queue.Invalid("paused", "is changed by schedules.pause and schedules.resume")
	}
	if !isMaskedItem(change.Item) {
		return nil
	}
	if change.Queue != nil && *change.Queue != kept.Queue {
		return queue.Invalid("item", "has %s, and queue_name is another than that for which the kept values were given; give the values", mask)
	}
	item := *change.Item
	if item.Target != nil {
		item.Target = new(*item.Target)
	}
	change.Item = &item
	return unmaskItem(change.Item, &kept.Item)
}

// listSchedules reads in steps: schedules have payloads, and a page that is large enough
// ends early rather than fill the memory.
func (s *Server) listSchedules(ctx context.Context, c *call, q *v1.SchedulesListRequest) (*v1.SchedulesListReply, error) {
	after := q.GetCursor()
	limit, err := namePage(q.GetLimit(), "cursor", after)
	if err != nil {
		return nil, err
	}
	p, size := new(v1.SchedulesListReply), 0
	for {
		step := min(limit-len(p.Items), listStep)
		// One more than wanted: that it is there says that the list goes on.
		found, err := s.schedules.List(ctx, c.namespace, after, step+1)
		if err != nil {
			return nil, err
		}
		for i := range found[:min(step, len(found))] {
			sched := &found[i]
			if err := c.hold(sched.Item.Size()); err != nil {
				return nil, err
			}
			size += sched.Item.Size()
			p.Items = append(p.Items, schedule(sched))
			after = sched.Name
		}
		c.items = len(p.Items)
		if len(found) <= step {
			return p, nil
		}
		if len(p.Items) == limit || size > listBytes {
			p.Cursor = after
			return p, nil
		}
	}
}

func (s *Server) triggerSchedule(ctx context.Context, c *call, q *v1.TriggerRequest) (*v1.TriggerReply, error) {
	produced, err := s.schedules.Trigger(ctx, schedules.TriggerParams{
		Namespace: c.namespace, Name: q.GetName(), Key: c.key, Allow: c.allow,
	})
	if err != nil {
		return nil, c.keyPath(err, make([]queue.ProduceItem, 1))
	}
	c.items = 1
	return &v1.TriggerReply{ItemId: produced.ID.String(), Duplicate: produced.Duplicate}, nil
}

func (s *Server) previewSchedule(ctx context.Context, c *call, q *v1.PreviewRequest) (*v1.PreviewReply, error) {
	params, err := previewParams(q)
	if err != nil {
		return nil, err
	}
	params.Namespace = c.namespace
	fires, err := s.schedules.Preview(ctx, params)
	if err != nil {
		return nil, err
	}
	return &v1.PreviewReply{Fires: shownFires(fires)}, nil
}
