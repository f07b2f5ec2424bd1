package cli

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/posthaste-io/posthaste/api/client"
)

// benchStep is what is timed.
type benchStep int

const (
	stepProduce benchStep = iota + 1
	stepLease
	stepComplete
	// stepWhole is an item's way from when it was to be produced to its completion.
	stepWhole
)

var benchSteps = []benchStep{stepProduce, stepLease, stepComplete, stepWhole}

func (s benchStep) name() string {
	return [...]string{stepProduce: "produce", stepLease: "lease", stepComplete: "complete", stepWhole: "end_to_end"}[s]
}

const (
	// benchLease is short, so that what a failed call leaves is soon leased again.
	benchLease = 15 * time.Second
	// benchPoll is how long a lease waits for items.
	benchPoll = time.Second
	// drainTime is how long items are completed after the last was produced.
	drainTime = 10 * time.Second
	// longestProduce bounds one call, so that a server that does not answer is given up.
	longestProduce = 30 * time.Second
	// leastPause and mostPause bound the wait after an error.
	leastPause, mostPause = 50 * time.Millisecond, 5 * time.Second
	// stampSize is the head of a payload: when it was to be produced, after the start,
	// in nanoseconds.
	stampSize = 8
	// longestTime is the most that histograms tell apart.
	longestTime = time.Hour
)

// benchRun is one measurement.
type benchRun struct {
	cl    *client.Client
	f     *benchCommand
	queue string
	body  []byte
	start time.Time
	// slots bound the items that are on their way, in calls, unless they come at a rate:
	// each producer has a call's, and each consumer one in hand and one that waits.
	slots chan struct{}
	// taken counts what producers took of --items.
	taken atomic.Int64
	// drained ends the consumers.
	drained context.CancelFunc

	mu                  sync.Mutex
	produced, completed int64
	// over says that nothing is produced any more.
	over bool
	// last is when items were completed last, after the start.
	last   time.Duration
	times  map[benchStep]*hdrhistogram.Histogram
	errors map[string]int64
}

func newBenchRun(cl *client.Client, f *benchCommand, queue string) *benchRun {
	r := &benchRun{
		cl: cl, f: f, queue: queue, body: make([]byte, f.Size), slots: make(chan struct{}, f.Producers+2*f.Consumers),
		times: map[benchStep]*hdrhistogram.Histogram{}, errors: map[string]int64{},
	}
	for _, s := range benchSteps {
		r.times[s] = hdrhistogram.New(1, longestTime.Microseconds(), 3)
	}
	_, _ = rand.Read(r.body) // it never fails; random, since a store may compress
	return r
}

// run works until the time is over or ctx ends, and what was produced is completed. Only
// after that the results may be read.
func (r *benchRun) run(ctx context.Context) {
	r.start = time.Now()
	consuming, drained := context.WithCancel(ctx)
	r.drained = drained
	defer drained()
	var consumers sync.WaitGroup
	for i := range r.f.Consumers {
		consumers.Go(func() { r.consume(consuming, "bench-"+strconv.Itoa(i)) })
	}
	inTime, cancel := context.WithTimeout(ctx, r.f.Duration)
	defer cancel()
	var producers sync.WaitGroup
	for i := range r.f.Producers {
		producers.Go(func() { r.produce(ctx, inTime, i) })
	}
	producers.Wait()
	r.count(func() { r.over = true })
	stop := time.AfterFunc(drainTime, drained)
	defer stop.Stop()
	consumers.Wait()
}

// count changes what is counted, and ends the consumers once nothing is left for them.
func (r *benchRun) count(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	if r.over && r.completed >= r.produced {
		r.drained()
	}
}

// took keeps a time; r.mu is held. What is out of the histogram's bounds is longer than
// anything that is waited for.
func (r *benchRun) took(s benchStep, d time.Duration) {
	_ = r.times[s].RecordValue(max(min(d, longestTime).Microseconds(), 1))
}

// produce works until the time is over, or all items are produced. A call on its way is
// not cut off at the end of the time: what it did would not be known.
func (r *benchRun) produce(ctx, inTime context.Context, producer int) {
	pace := r.pace(producer)
	for {
		due, ok := r.await(inTime, pace)
		if !ok {
			return
		}
		n := r.take()
		if n == 0 {
			return
		}
		began := time.Now()
		if err := r.produceOnce(ctx, n, due); err != nil {
			r.giveSlots(1)
			pause(inTime, r.failed(ctx, err))
			continue
		}
		d := time.Since(began)
		r.count(func() {
			r.produced += int64(n)
			r.took(stepProduce, d)
		})
	}
}

func (r *benchRun) produceOnce(ctx context.Context, n int, due time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, longestProduce)
	defer cancel()
	_, err := r.cl.Produce(ctx, r.queue, r.items(n, due)...)
	return err
}

// take says how many items the next call has; none, if there were enough.
func (r *benchRun) take() int {
	if r.f.Items == 0 {
		return r.f.Batch
	}
	before := r.taken.Add(int64(r.f.Batch)) - int64(r.f.Batch)
	return int(max(min(int64(r.f.Items)-before, int64(r.f.Batch)), 0))
}

// pace are the instants at which a producer calls, after the start; nil without a rate.
type pace struct{ next, gap time.Duration }

// pace lets each producer begin at another part of the first gap.
func (r *benchRun) pace(producer int) *pace {
	if r.f.Rate == 0 {
		return nil
	}
	gap := time.Duration(float64(time.Second) * float64(r.f.Batch*r.f.Producers) / float64(r.f.Rate))
	return &pace{gap * time.Duration(producer) / time.Duration(r.f.Producers), gap}
}

// await waits until the next call is due, and returns when it was: by the pace that was
// wanted, so that a server that makes everybody wait is not spared the wait. Without a
// pace it is due when there is room.
func (r *benchRun) await(ctx context.Context, p *pace) (due time.Duration, ok bool) {
	if p == nil {
		select {
		case <-ctx.Done():
			return 0, false
		case r.slots <- struct{}{}:
			return time.Since(r.start), ctx.Err() == nil
		}
	}
	due = p.next
	p.next += p.gap
	return due, due < r.f.Duration && pause(ctx, due-time.Since(r.start))
}

// pause waits, and says whether ctx is still on.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
	return ctx.Err() == nil
}

// items are n of them, with a stamp.
func (r *benchRun) items(n int, due time.Duration) []client.Item {
	body := append([]byte(nil), r.body...)
	binary.BigEndian.PutUint64(body, uint64(due))
	items := make([]client.Item, n)
	for i := range items {
		items[i] = client.Item{Kind: "bench", Encoding: "application/octet-stream", Payload: body}
	}
	return items
}

// giveSlots makes room for so many calls. There may be less to give back than is said:
// of calls that failed it is not known what they did.
func (r *benchRun) giveSlots(n int) {
	for range n {
		select {
		case <-r.slots:
		default:
			return
		}
	}
}

// consume leases and completes until ctx ends.
func (r *benchRun) consume(ctx context.Context, id string) {
	// items are those that were completed since room was made last.
	items := 0
	for ctx.Err() == nil {
		n, err := r.consumeOnce(ctx, id)
		if err != nil {
			pause(ctx, r.failed(ctx, err))
		}
		items += n
		r.giveSlots(items / r.f.Batch)
		items %= r.f.Batch
	}
}

// consumeOnce says how many items it completed.
func (r *benchRun) consumeOnce(ctx context.Context, id string) (int, error) {
	began := time.Now()
	leased, err := r.cl.Lease(ctx, client.LeaseParams{Queue: r.queue, BatchSize: r.f.Batch, Wait: benchPoll, ClientID: id})
	if err != nil || len(leased) == 0 {
		return 0, err
	}
	inHand := time.Now()
	receipts := make([]string, len(leased))
	for i := range leased {
		receipts[i] = leased[i].Receipt
	}
	err = r.cl.Complete(ctx, receipts...)
	now := time.Now()
	r.count(func() {
		r.took(stepLease, inHand.Sub(began))
		if err != nil {
			return
		}
		r.completed += int64(len(leased))
		r.last = now.Sub(r.start)
		r.took(stepComplete, now.Sub(inHand))
		for i := range leased {
			if stamp := leased[i].Payload; len(stamp) >= stampSize {
				r.took(stepWhole, r.last-time.Duration(binary.BigEndian.Uint64(stamp)))
			}
		}
	})
	if err != nil {
		return 0, err
	}
	return len(leased), nil
}

// noAnswer stands in the count of errors for those of connections.
const noAnswer = "no_answer"

// failed counts an error by its word, unless it is of the end of ctx, and says how long
// to wait.
func (r *benchRun) failed(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	word, wait := noAnswer, leastPause
	if e, ok := errors.AsType[*client.Error](err); ok && e.CodeText != "" {
		word, wait = e.CodeText, min(max(e.RetryAfter, leastPause), mostPause)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors[word]++
	return wait
}
