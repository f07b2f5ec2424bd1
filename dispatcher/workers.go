package dispatcher

import (
	"context"
	"time"
)

// workerIdle is how long a worker waits for its next push before it ends.
const workerIdle = 5 * time.Second

// start hands a push to a worker that waits, or to a new one; slots bound how many
// run. Workers live on because a new goroutine would grow its stack several times on
// its way through a request, which costs more than to sign it.
func (d *Dispatcher) start(p *push) {
	d.pushes.Add(1)
	select {
	case d.next <- p:
	default:
		d.workers.Go(func() { d.worker(p) })
	}
}

// worker runs one push after the other.
func (d *Dispatcher) worker(p *push) {
	idle := time.NewTimer(workerIdle)
	defer idle.Stop()
	for p != nil {
		p = d.series(p, idle)
	}
}

// series runs pushes in one context until that is cancelled, and returns the first that
// needs another one, or nil if there is nothing to do any more.
func (d *Dispatcher) series(p *push, idle *time.Timer) *push {
	ctx, cancel := context.WithCancelCause(d.work)
	defer cancel(nil)
	for {
		d.run(ctx, p, cancel)
		idle.Reset(workerIdle)
		select {
		case p = <-d.next:
		case <-idle.C:
			return nil
		case <-d.closing.Done():
			return nil
		}
		if ctx.Err() != nil {
			return p
		}
	}
}

// run is a push from its start until its slot is free.
func (d *Dispatcher) run(ctx context.Context, p *push, cancel context.CancelCauseFunc) {
	defer d.pushes.Done()
	size := p.size()
	p.begin(cancel)
	d.running.add(p)
	d.push(ctx, p)
	d.running.remove(p)
	p.drop()
	d.slots.put(&p.lane.holder, 1, size)
}

// size is what the push holds of the bytes that the process may have in flight.
func (p *push) size() (n int) {
	for _, it := range p.items {
		n += it.Size()
	}
	return n
}
