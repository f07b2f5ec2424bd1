package queue

import (
	"context"
	"errors"
	"time"
)

// Bounds of a lease.
const (
	// MinLeaseTTL and MaxLeaseTTL bound how long a lease may be asked for at a time;
	// it may be extended for ever.
	MinLeaseTTL = time.Millisecond
	MaxLeaseTTL = 7 * 24 * time.Hour
	// MaxWait bounds one wait for items.
	MaxWait = 15 * time.Minute
	// MaxLeaseBytes bounds what one answer may be asked to hold.
	MaxLeaseBytes = 64_000_000
	// MaxLabel bounds kinds, encodings, references, owners and clients, in bytes.
	MaxLabel = 255
)

// Lease waits for items of a queue, and answers when it has at least one, or with
// none when p.Wait is over. Then the store was asked at least once after the call
// came: no items means that there were none. A queue whose lease is paused gives out
// nothing and is not asked, so there no items mean nothing; see [Broker.Pause].
//
// Those that wait on a queue are given its items one at a time, round robin. What
// is over its limits, or expired, is buried and not given to anybody.
//
// Items leased for a caller whose ctx has ended are given back at once, uncounted,
// and the call answers the context's error.
//
// Errors: [InvalidError]; [ErrNotFound]; [ErrClientWaiting]; [OverloadedError];
// [ErrShuttingDown]; those of [Store].
func (b *Broker) Lease(ctx context.Context, p LeaseParams) (LeaseReply, error) {
	if err := checkLease(&p); err != nil {
		return LeaseReply{}, err
	}
	until := time.Now().Add(p.Wait)
	for {
		reply, err := b.leaseOf(ctx, &p)
		if !errors.Is(err, errMoved) {
			return reply, err
		}
		// Most often the name is that of a topic now.
		p.Wait = max(time.Until(until), 0)
	}
}

// leaseOf waits on the queue that has the name now.
func (b *Broker) leaseOf(ctx context.Context, p *LeaseParams) (LeaseReply, error) {
	q, err := b.known.named(ctx, p.Namespace, p.Queue)
	if err != nil {
		return LeaseReply{}, err
	}
	w := &waiter{
		queue: q, limit: p.Limit, maxBytes: p.MaxBytes, ttl: p.TTL,
		owner: p.Owner, push: p.Push, maxAttempts: p.MaxAttempts,
		over: p.Wait == 0, answered: make(chan struct{}, 1),
	}
	if p.Wait > 0 {
		w.client = p.Client
	}
	if w.maxBytes == 0 {
		w.maxBytes = b.opts.LeaseBytes
	}
	if w.owner == "" {
		w.owner = p.Client
	}
	return b.leases.wait(ctx, w, p.Wait)
}

func checkLease(p *LeaseParams) error {
	switch {
	case p.Limit < 1 || p.Limit > DefaultMaxItems:
		return Invalid("batch_size", "is %d; want 1 to %d", p.Limit, DefaultMaxItems)
	case p.MaxBytes < 0 || p.MaxBytes > MaxLeaseBytes:
		return Invalid("max_bytes", "is %d; want 1 to %d", p.MaxBytes, MaxLeaseBytes)
	case p.Wait < 0 || p.Wait > MaxWait:
		return Invalid("request_timeout", "is %s; want 0 to %s", p.Wait, MaxWait)
	case p.MaxAttempts < -1:
		return Invalid("max_attempts", "is %d; want -1 for no limit, 0 for the queue's, or more", p.MaxAttempts)
	}
	if err := checkLeaseTTL("lease_timeout", p.TTL); err != nil {
		return err
	}
	if err := checkLabel("client_id", p.Client); err != nil {
		return err
	}
	return checkLabel("owner", p.Owner)
}

// checkLeaseTTL judges the length of a lease, where 0 takes the queue's.
func checkLeaseTTL(field string, ttl time.Duration) error {
	if ttl != 0 && (ttl < MinLeaseTTL || ttl > MaxLeaseTTL) {
		return Invalid(field, "is %s; want %s to %s", ttl, MinLeaseTTL, MaxLeaseTTL)
	}
	return nil
}
