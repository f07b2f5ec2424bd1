package crash_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/posthaste-io/posthaste/test/recorder"
)

// poison is the kind of items that the receiver does not take.
const poison = "poison"

// producer makes items of every kind, each with bytes of its own.
type producer struct {
	name   string
	rnd    *rand.Rand
	client *client
	run    *run
	made   int
}

// work produces until the context ends.
func (p *producer) work(ctx context.Context) {
	for ctx.Err() == nil {
		queueName := pullQueue
		if p.rnd.IntN(2) == 0 {
			queueName = pushQueue
		}
		request := produceRequest{QueueName: queueName}
		count := 1
		if p.rnd.IntN(4) == 0 {
			count = 2 + p.rnd.IntN(18)
		}
		keyed, delay := p.rnd.IntN(3) == 0, time.Duration(0)
		if p.rnd.IntN(6) == 0 {
			delay = time.Duration(200+p.rnd.IntN(1500)) * time.Millisecond
		}
		var asked []recorder.Item
		for range count {
			item, said := p.make(keyed)
			p.postpone(&item, &said, delay)
			request.Items = append(request.Items, item)
			asked = append(asked, said)
		}
		p.send(ctx, request, asked, keyed)
		pause(ctx, time.Duration(5+p.rnd.IntN(25))*time.Millisecond)
	}
}

// make returns an item and what the history says of it.
func (p *producer) make(keyed bool) (produceItem, recorder.Item) {
	p.made++
	// Any bytes at all, after a head that makes them unique.
	payload := fmt.Appendf(nil, "%s/%d\x00", p.name, p.made)
	size := p.rnd.IntN(200)
	if p.rnd.IntN(50) == 0 {
		size = 20_000
	}
	for range size {
		payload = append(payload, byte(p.rnd.Uint32()))
	}
	item := produceItem{Bytes: payload}
	said := recorder.Item{Payload: recorder.Hash(payload)}
	if p.rnd.IntN(60) == 0 {
		item.Kind = poison
	}
	if keyed {
		item.IdempotencyKey = p.name + "-" + strconv.Itoa(p.made)
		said.Key = item.IdempotencyKey
	}
	return item, said
}

// postpone makes an item due later, by a delay or by an instant.
func (p *producer) postpone(item *produceItem, said *recorder.Item, delay time.Duration) {
	switch {
	case delay == 0:
	case p.rnd.IntN(2) == 0:
		item.Delay, said.Delay = delay.String(), delay.Nanoseconds()
	default:
		due := time.Now().Add(delay).UTC().Truncate(time.Microsecond)
		item.EnqueueAt, said.Due = due.Format(time.RFC3339Nano), due.UnixMicro()
	}
}

// send makes the call. With keys it is repeated until its outcome is known, and
// sometimes once more; without, a repeat could make a second item.
func (p *producer) send(ctx context.Context, request produceRequest, asked []recorder.Item, keyed bool) {
	for again := true; again && ctx.Err() == nil; {
		op := p.run.history.Invoke(p.name, recorder.Produce, request.QueueName, asked...)
		var reply produceReply
		phase, err := p.client.call(ctx, "queue.produce", request, &reply)
		told := make([]recorder.Item, 0, len(reply.Items))
		for _, item := range reply.Items {
			told = append(told, recorder.Item{ID: item.ItemID, Duplicate: item.Duplicate})
		}
		p.run.end(p.name, recorder.Produce, request.QueueName, op, phase, err, told...)
		if phase == recorder.OK {
			p.run.acked.Add(int64(len(told)))
			again = keyed && p.rnd.IntN(6) == 0
		} else {
			again = keyed
		}
	}
}
