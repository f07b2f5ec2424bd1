package queue_test

import (
	"errors"
	"testing"

	"github.com/posthaste-io/posthaste/queue"
)

func TestD02_ReceiptThatNamesAnotherPartitionIsRefused(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(1)...)
		leased := f.leaseOne(t, "orders")
		forged := leased.Receipt()
		forged.Partition = 7
		call := queue.SettleCall{Namespace: ns, Entries: []queue.SettleEntry{{Receipt: forged, Outcome: queue.Complete}}}
		if _, err := f.Settle(t.Context(), call); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("complete: got %v, want %v", err, queue.ErrNotFound)
		}
		extended, err := f.Extend(t.Context(), ns, "", []queue.ExtendEntry{{Receipt: forged}})
		if err != nil || extended[0].Status != queue.Gone {
			t.Errorf("extend: got %v, %v, want gone", extended, err)
		}
		call.Entries[0].Receipt = leased.Receipt()
		if _, err := f.Settle(t.Context(), call); err != nil {
			t.Errorf("the lease's own receipt: %v", err)
		}
	})
}
