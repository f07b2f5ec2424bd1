package storagetest

import (
	"context"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// The comparison is worth what it catches: each of these stores is a Model with
// one bug, of a kind that stores have had.
func TestCompareSequence_CatchesPlantedBugs(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(*Model) storage.Backend{
		"complete ignores the token":           func(m *Model) storage.Backend { return ignoresToken{m} },
		"retry forgets the attempt":            func(m *Model) storage.Backend { return forgetsAttempt{m} },
		"lapse is not counted":                 func(m *Model) storage.Backend { return forgivesLapses{m} },
		"release goes to the tail":             func(m *Model) storage.Backend { return releasesToTail{m} },
		"mismatch inserts all the same":        func(m *Model) storage.Backend { return insertsMismatch{m} },
		"lease hands out a held item":          func(m *Model) storage.Backend { return leasesHeld{m} },
		"expiry is kept on bury":               func(m *Model) storage.Backend { return keepsExpiry{m} },
		"half of a bad group is applied":       func(m *Model) storage.Backend { return splitsGroups{m} },
		"the sweep stops at its first page":    func(m *Model) storage.Backend { return sweepsOnePage{m} },
		"due time of a lapsed item is the old": func(m *Model) storage.Backend { return keepsPlaceOfLapsed{m} },
		"a bury writes no record":              func(m *Model) storage.Backend { return buriesSilently{m} },
		"extend shortens":                      func(m *Model) storage.Backend { return shortens{m} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := Harness{Open: func(now func() time.Time) (storage.Backend, error) { return plant(NewModel(now)), nil }}
			for seed := range uint64(10) {
				if err := compareSequence(t.Context(), h, seed, sequenceSteps); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("10 sequences found nothing")
		})
	}
}

// Without a bug the same sequences find nothing.
func TestCompareSequence_PassesTheModel(t *testing.T) {
	t.Parallel()
	h := Harness{Open: func(now func() time.Time) (storage.Backend, error) { return NewModel(now), nil }}
	for seed := range uint64(10) {
		if err := compareSequence(t.Context(), h, seed, sequenceSteps); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// before changes each entry of a settling call before the model sees it.
func before(groups []queue.SettleGroup, change func(*queue.Settlement)) []queue.SettleGroup {
	changed := make([]queue.SettleGroup, len(groups))
	for i, group := range groups {
		for _, s := range group.Entries {
			change(&s)
			changed[i].Entries = append(changed[i].Entries, s)
		}
	}
	return changed
}

type ignoresToken struct{ *Model }

func (b ignoresToken) Settle(ctx context.Context, groups []queue.SettleGroup) (queue.SettleAnswer, error) {
	return b.Model.Settle(ctx, before(groups, func(s *queue.Settlement) {
		if it, found := b.items[s.Key]; found && s.Outcome == queue.Complete {
			s.Token = it.Token
		}
	}))
}

type forgetsAttempt struct{ *Model }

func (b forgetsAttempt) Settle(ctx context.Context, groups []queue.SettleGroup) (queue.SettleAnswer, error) {
	answer, err := b.Model.Settle(ctx, groups)
	for i, group := range groups {
		for j, s := range group.Entries {
			it, found := b.items[s.Key]
			if found && s.Outcome == queue.Retry && answer.Groups[i][j].Status == queue.Applied {
				it.Attempts--
			}
		}
	}
	return answer, err
}

type forgivesLapses struct{ *Model }

func (b forgivesLapses) Lease(ctx context.Context, calls []queue.LeaseCall) (queue.LeaseAnswer, error) {
	owed := map[queue.Key]counters{}
	for key, it := range b.items {
		owed[key] = countersOf(*it)
	}
	answer, err := b.Model.Lease(ctx, calls)
	for _, call := range answer.Calls {
		for _, items := range call.Takers {
			for i := range items {
				it := b.items[items[i].Key]
				it.Attempts, it.Recoveries = owed[it.Key][1], owed[it.Key][2]
				items[i].Attempts, items[i].Recoveries = it.Attempts, it.Recoveries
			}
		}
	}
	return answer, err
}

type releasesToTail struct{ *Model }

func (b releasesToTail) Settle(ctx context.Context, groups []queue.SettleGroup) (queue.SettleAnswer, error) {
	return b.Model.Settle(ctx, before(groups, func(s *queue.Settlement) {
		if s.Outcome == queue.Release && s.Delay == 0 {
			s.Delay = time.Microsecond // Soon, and so now.
		}
	}))
}

type insertsMismatch struct{ *Model }

func (b insertsMismatch) Produce(ctx context.Context, groups []queue.ProduceGroup) (queue.ProduceAnswer, error) {
	answer, err := b.Model.Produce(ctx, groups)
	for i, result := range answer.Groups {
		if result.Err == nil {
			continue
		}
		for _, item := range groups[i].Items {
			b.insert(item, answer.Now)
		}
	}
	return answer, err
}

type leasesHeld struct{ *Model }

func (b leasesHeld) Lease(ctx context.Context, calls []queue.LeaseCall) (queue.LeaseAnswer, error) {
	for _, it := range b.items {
		if isLive(it, b.clock()) && it.Deliveries == 3 {
			it.AvailableAt = it.DueAt
		}
	}
	return b.Model.Lease(ctx, calls)
}

type keepsExpiry struct{ *Model }

func (b keepsExpiry) Settle(ctx context.Context, groups []queue.SettleGroup) (queue.SettleAnswer, error) {
	expiries := map[queue.Key]time.Time{}
	for key, it := range b.items {
		expiries[key] = it.ExpiresAt
	}
	answer, err := b.Model.Settle(ctx, groups)
	for _, it := range b.items {
		if it.Dead != nil && it.Dead.At.Equal(answer.Now) {
			it.ExpiresAt = expiries[queue.Key{ID: it.ID, Queue: it.Dead.From, Home: it.Home}]
		}
	}
	return answer, err
}

type splitsGroups struct{ *Model }

func (b splitsGroups) Settle(ctx context.Context, groups []queue.SettleGroup) (queue.SettleAnswer, error) {
	answer, err := b.Model.Settle(ctx, make([]queue.SettleGroup, len(groups)))
	for i, group := range groups {
		for _, s := range group.Entries {
			one, err := b.Model.Settle(ctx, []queue.SettleGroup{{Entries: []queue.Settlement{s}}})
			if err != nil {
				return answer, err
			}
			answer.Groups[i] = append(answer.Groups[i], one.Groups[0][0])
		}
	}
	return answer, err
}

type sweepsOnePage struct{ *Model }

func (b sweepsOnePage) Sweep(ctx context.Context, req queue.SweepRequest) (queue.SweepPage, error) {
	page, err := b.Model.Sweep(ctx, req)
	page.Next = ""
	return page, err
}

type keepsPlaceOfLapsed struct{ *Model }

func (b keepsPlaceOfLapsed) Lease(ctx context.Context, calls []queue.LeaseCall) (queue.LeaseAnswer, error) {
	places := map[queue.Key]time.Time{}
	for key, it := range b.items {
		places[key] = it.DueAt
	}
	answer, err := b.Model.Lease(ctx, calls)
	for _, call := range answer.Calls {
		for _, items := range call.Takers {
			for i := range items {
				items[i].DueAt = places[items[i].Key]
				b.items[items[i].Key].DueAt = items[i].DueAt
			}
		}
	}
	return answer, err
}

type buriesSilently struct{ *Model }

func (b buriesSilently) Settle(ctx context.Context, groups []queue.SettleGroup) (queue.SettleAnswer, error) {
	return b.Model.Settle(ctx, before(groups, func(s *queue.Settlement) {
		if s.Outcome == queue.Bury {
			s.Record = nil
		}
	}))
}

type shortens struct{ *Model }

func (b shortens) Extend(ctx context.Context, entries []queue.Extension) (queue.ExtendAnswer, error) {
	for _, e := range entries {
		if it, found := b.items[e.Key]; found && it.Token == e.Token && isLive(it, b.clock()) {
			it.AvailableAt = b.latest
		}
	}
	return b.Model.Extend(ctx, entries)
}
