package dispatcher

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestD01_AbortLeavesTheNextPushOfTheWorkerAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		p := &push{received: time.Now()}
		p.begin(cancel)
		p.drop()
		p.abort(errLeaseLost)
		p.hold(time.Now().Add(leaseTTL))
		<-time.After(2 * leaseTTL) // a bubble's clock jumps
		if err := context.Cause(ctx); err != nil {
			t.Errorf("a push that was over cancelled its worker: %v", err)
		}

		q := &push{received: time.Now()}
		q.begin(cancel)
		<-time.After(leaseTTL)
		if err := context.Cause(ctx); err != errLeaseEnding {
			t.Errorf("cause after the lease's end: %v", err)
		}
		q.drop()
	})
}
