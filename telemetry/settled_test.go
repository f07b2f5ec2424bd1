package telemetry

import (
	"testing"

	"github.com/posthaste-io/posthaste/queue"
)

func TestStore_WhatTheSweepBuriesEndsNoLease(t *testing.T) {
	t.Parallel()
	m := newStoreMetrics()
	settled := run{counts: m.settled}
	m.countSettled(
		&queue.Settlement{Key: queue.Key{Queue: 7}, Guard: queue.NotLive, Outcome: queue.Bury, Reason: queue.ReasonExpired},
		&queue.Settled{Status: queue.Applied}, &settled,
	)
	settled.end()
	m.settled.each(func(k byQueue, n int64) { t.Errorf("settled %+v: got %d, want none", k, n) })
	if n := m.buried.at(byQueue{7, queue.ReasonExpired}).Load(); n != 1 {
		t.Errorf("buried: got %d, want 1", n)
	}
}
