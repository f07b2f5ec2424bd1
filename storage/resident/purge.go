package resident

import (
	"context"
	"slices"

	"github.com/posthaste-io/posthaste/queue"
)

// Purge implements [queue.Store].
func (s *Store) Purge(ctx context.Context, req queue.PurgeRequest) (queue.PurgeAnswer, error) {
	if len(req.Keys) > 0 {
		return s.purgeKeys(ctx, req)
	}
	// All of it is found before any of it ends: what takes the place of a head by that was
	// not asked for, and may stand where the list has been.
	var answer queue.PurgeAnswer
	var keys []queue.Key
	list := queue.ListRequest{Queue: req.Queue, Partition: req.Partition, States: req.States}
	for {
		list.Limit = min(chunk, req.Limit-len(keys))
		page, err := s.ListItems(ctx, list)
		if err != nil {
			return answer, err
		}
		for i := range page.Items {
			keys = append(keys, page.Items[i].Key)
		}
		answer.More = page.Next != ""
		if !answer.More || len(keys) >= req.Limit {
			break
		}
		list.Cursor = page.Next
	}
	for part := range slices.Chunk(keys, chunk) {
		req.Keys, req.Limit = part, len(part)
		done, err := s.purgeKeys(ctx, req)
		answer.Purged += done.Purged
		if err != nil {
			return answer, err
		}
	}
	return answer, nil
}

// purgeKeys purges items by key; of those that a list by state found, only such
// as are still in one of the states.
func (s *Store) purgeKeys(ctx context.Context, req queue.PurgeRequest) (queue.PurgeAnswer, error) {
	var answer queue.PurgeAnswer
	now, err := s.begin(ctx, writes)
	if err != nil {
		return answer, err
	}
	for _, key := range req.Keys {
		sl, err := s.summon(key, now)
		if err != nil {
			return answer, s.abandon(err)
		}
		if sl == 0 {
			continue
		}
		it := s.view(s.entries.get(sl))
		if req.Queue != 0 && len(req.States) > 0 && !slices.Contains(req.States, it.State(instant(now))) {
			continue
		}
		if answer.Purged == req.Limit {
			answer.More = true
			break
		}
		s.lift(sl)
		s.record(queue.Record{
			Type: queue.EndingRecord, Key: key, Delivery: it.Deliveries,
			Next: queue.StepCancel, Verdict: req.Reason,
		}, now)
		s.erase(sl, now)
		s.seal()
		answer.Purged++
	}
	return answer, s.leave(ctx)
}
