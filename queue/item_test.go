package queue_test

import (
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func TestItem_StateIsDerived(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for _, test := range []struct {
		item queue.Item
		want queue.State
		word string
	}{
		{queue.Item{AvailableAt: now}, queue.Ready, "ready"},
		{queue.Item{AvailableAt: now.Add(-1), Deliveries: 1}, queue.Ready, "ready"},
		{queue.Item{AvailableAt: now.Add(1)}, queue.Scheduled, "scheduled"},
		{queue.Item{AvailableAt: now.Add(1), Deliveries: 1}, queue.Retrying, "retrying"},
		{queue.Item{AvailableAt: now.Add(1), Held: true}, queue.Leased, "leased"},
		{queue.Item{AvailableAt: now, Held: true}, queue.Lapsed, "lapsed"},
		{queue.Item{AvailableAt: queue.Forever}, queue.Behind, "behind"},
	} {
		if got := test.item.State(now); got != test.want || got.String() != test.word {
			t.Errorf("%+v: got %s, want %s", test.item, got, test.word)
		}
	}
}

func TestItem_ExpiresAtItsTime(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for _, test := range []struct {
		at   time.Time
		want bool
	}{{time.Time{}, false}, {now.Add(1), false}, {now, true}} {
		it := queue.Item{ExpiresAt: test.at}
		if got := it.Expired(now); got != test.want {
			t.Errorf("expires at %v: got %v, want %v", test.at, got, test.want)
		}
	}
}

func TestContent_SizeCountsAllOfIt(t *testing.T) {
	t.Parallel()
	c := queue.Content{
		Kind: "1", Encoding: "2", Reference: "3", OrderingKey: "4", SourceID: "5", Trace: "6", OnDone: "7",
		Headers: map[string]string{"8": "9"}, Target: &queue.Target{URL: "a", Method: "b"}, Payload: []byte("c"),
	}
	if got, want := c.Size(), 12; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

// A word is the wire's, so each has one, and no other value has any.
func TestEnums_HaveTheWordsOfTheWire(t *testing.T) {
	t.Parallel()
	for value, want := range map[interface{ String() string }]string{
		queue.Complete: "complete", queue.Retry: "retry", queue.Release: "release", queue.Bury: "bury", queue.Outcome(0): "invalid",
		queue.AttemptRecord: "attempt", queue.LapseRecord: "lapse", queue.EndingRecord: "ending", queue.RecordType(0): "invalid",
		queue.StepComplete: "complete", queue.StepRetry: "retry", queue.StepRelease: "release", queue.StepBury: "bury",
		queue.StepHold: "hold", queue.StepCancel: "cancel", queue.Step(0): "none",
		queue.State(0): "invalid",
	} {
		if got := value.String(); got != want {
			t.Errorf("%#v: got %s, want %s", value, got, want)
		}
	}
}
