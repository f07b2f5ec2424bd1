package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// later completes the items that the development endpoint keeps, with their receipts
// alone.
type later struct {
	cl   *client.Client
	term *terminal
	// items are those that are kept from now on; nobody takes them once ended is closed.
	items chan keptItem
	ended chan struct{}
	// kept counts those that have not been completed.
	kept atomic.Int64
}

// keptItem is an item and until when it is to be held.
type keptItem struct {
	id, receipt     string
	deadline, until time.Time
}

func newLater(cl *client.Client, term *terminal) *later {
	return &later{cl: cl, term: term, items: make(chan keptItem), ended: make(chan struct{})}
}

// keep hands an item over.
func (l *later) keep(k keptItem) {
	l.kept.Add(1)
	select {
	case l.items <- k:
	case <-l.ended:
	}
}

// run completes items until ctx ends.
func (l *later) run(ctx context.Context) {
	defer l.cl.Close()
	var running sync.WaitGroup
	defer running.Wait()
	defer close(l.ended)
	for {
		select {
		case k := <-l.items:
			running.Go(func() { l.complete(ctx, k) })
		case <-ctx.Done():
			return
		}
	}
}

func (l *later) complete(ctx context.Context, k keptItem) {
	err := l.hold(ctx, k)
	if err == nil && ctx.Err() == nil {
		err = l.cl.Complete(ctx, k.receipt)
	}
	if ctx.Err() != nil {
		return // it is given up
	}
	text := l.term.paint(green, "completed")
	if err != nil {
		text = l.term.paint(red, "not completed") + ": " + excerpt([]byte(err.Error()), 400)
	} else {
		l.kept.Add(-1)
	}
	l.term.printf("%s  %s %s\n\n", time.Now().Format("15:04:05.000"), excerpt([]byte(k.id), 200), text)
}

// leastExtend is how near a deadline may be for which it is too late to extend.
const leastExtend = time.Second

// hold waits until it is time. A lease that would be over before is extended when half of
// its time is: by then the server, which extends it once it has read the answer, has.
func (l *later) hold(ctx context.Context, k keptItem) error {
	for k.until.After(k.deadline.Add(-leastExtend)) {
		if !wait(ctx, time.Until(k.deadline)/2) {
			return nil
		}
		results, err := l.cl.Extend(ctx, time.Until(k.until)+time.Minute, k.receipt)
		switch {
		case err != nil:
			return err
		case len(results) != 1 || !results[0].OK():
			return &client.Error{Method: "queue.extend", CodeText: client.CodeStaleLease, Message: "somebody else has the item, or it has ended"}
		}
		k.deadline = results[0].LeaseDeadline
	}
	wait(ctx, time.Until(k.until))
	return nil
}
