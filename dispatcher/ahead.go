package dispatcher

import (
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// aheadStay bounds how long an item may be leased and wait for its request to start.
const aheadStay = 250 * time.Millisecond

// aheadWindows bounds how many items wait, in windows of requests.
const aheadWindows = 8

// ahead are the items that a lane has leased before there is a place for their
// requests, so that an endpoint which is quicker than the store does not wait for it.
// How many follows from Little's law: as many as end while one lease is asked for. So
// it is none where a request takes much longer than that, and an item waits about as
// long as a call of the store takes. It is none, too, where the queue ran dry.
//
// The lane's mu guards it.
type ahead struct {
	items []leased
	// lease and push are how long the newest calls and requests took, on average.
	lease, push time.Duration
	// backlog says that the newest lease brought as much as it asked for.
	backlog bool
}

// leased is an item as the broker handed it out.
type leased struct {
	item *queue.Item
	// at is the store's time of the lease, received ours of its answer.
	at, received time.Time
}

// blend is a mean in which the newest value counts for an eighth.
func blend(mean *time.Duration, d time.Duration) {
	if *mean == 0 {
		*mean = d
		return
	}
	*mean += (d - *mean) / 8
}

// leaseTook takes note of a lease that was to bring so many items.
func (a *ahead) leaseTook(want, got int, took time.Duration) {
	if a.backlog = got >= want; a.backlog {
		blend(&a.lease, took) // one that waited for items tells nothing about the store
	}
}

// pushTook takes note of a request that has ended. A failure that is quick does not
// make an endpoint quick; one that takes longer shows that it is not.
func (a *ahead) pushTook(took time.Duration, delivered bool) {
	if delivered || a.push > 0 && took > a.push {
		blend(&a.push, took)
	}
}

// target is how many items end while one lease is asked for, if window of them run. Of an
// endpoint that has not delivered yet nobody knows.
func (a *ahead) target(window int) int {
	if !a.backlog || a.lease == 0 || a.push == 0 {
		return 0
	}
	lease := min(a.lease, aheadStay/2)
	if a.push <= lease/aheadWindows {
		return aheadWindows * window
	}
	return int(time.Duration(window) * lease / a.push)
}

// shortfall is how many to lease now beside those that can start: twice as many as end
// meanwhile, when that is what is left, so that not each request costs a call.
func (a *ahead) shortfall(window int) int {
	n := a.target(window)
	if len(a.items) > n {
		return 0
	}
	return 2*n - len(a.items)
}

func (a *ahead) add(it leased) { a.items = append(a.items, it) }

// next takes the oldest item out; ok is false if there is none.
func (a *ahead) next() (it leased, ok bool) {
	if len(a.items) == 0 {
		return leased{}, false
	}
	it = a.items[0]
	a.items[0] = leased{}
	a.items = a.items[1:]
	return it, true
}

// takeStale takes all items out if the oldest has waited too long: the endpoint is slower
// than it was, and who else may lease here should have them.
func (a *ahead) takeStale(now time.Time) []leased {
	if len(a.items) == 0 || now.Sub(a.items[0].received) < aheadStay {
		return nil
	}
	return a.takeAll()
}

// takeAll takes all items out, and asks for no more until a lease was full again.
func (a *ahead) takeAll() []leased {
	items := a.items
	a.items = nil
	a.backlog = false
	return items
}
