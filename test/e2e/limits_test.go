package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/test/harness"
)

// smallest are the least that each flag takes, after those that have to be as small. A
// bound is for what callers ask; what the server does for itself has to go on under it.
var smallest = []string{
	"--max-items=1",
	"--max-pushes=1",
	"--max-payload=2",
	"--max-payload=2 --max-call=256kB",
	"--max-payload=2 --max-call=256kB --max-body-memory=512kB",
	"--max-answer-memory=160MB",
	"--max-connections=1",
	"--max-waiting=1",
	"--max-polls=1",
	"--keep-records=1m",
	"--window=1",
}

func TestLimits_TheSmallestOfEachStillPushesAndPulls(t *testing.T) {
	t.Parallel()
	for _, flags := range smallest {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t)
			server := harness.Start(t, harness.Options{Store: "badger:data", Args: slices.Concat(strings.Fields(flags), loopback)})
			c := newClient(t, server.URL)
			c.subscribe("pushed", r.URL, nil)
			for i := range 40 {
				c.produce("pushed", object{"utf8": fmt.Sprint(i)})
			}
			for range 40 {
				r.next()
			}
			eventually(t, "an empty queue", func() bool { return c.stats("pushed").Total == 0 })

			c.call("queues.create", object{"queue_name": "pulled"}, nil)
			for i := range 3 {
				c.produce("pulled", object{"utf8": fmt.Sprint(i)})
			}
			if listed := c.items("pulled"); len(listed) != 3 {
				t.Errorf("listed %d items, want 3", len(listed))
			}
			for range 3 {
				it := c.lease("pulled", 1)[0]
				c.call("queue.complete", object{"receipts": []string{it.Receipt}}, nil)
			}
		})
	}
}
