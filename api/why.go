package api

import (
	"fmt"
	"strconv"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// surroundings are what decides about an item's delivery beside the item.
type surroundings struct {
	// sub is whom the queue is pushed to, or nil.
	sub *subscriptions.Subscription
	// lane is what the push loop of sub does, or nil if this process has none.
	lane *LaneState
	// target is the item's own endpoint, or nil.
	target *queue.Target
	// leasesWaiting is how many consumers wait on the queue. It is known for queues
	// that are not pushed.
	leasesWaiting int
	// ready is how many items of the queue could go now, about.
	ready int
}

// reason is the one why an item is not delivered now.
type reason struct {
	// word is for programs, message says the same for people and what happens next.
	word    string
	message string
	// nextAt is when that changes by itself, or zero.
	nextAt time.Time
}

// Words that are reasons and states.
const (
	wordBuried    = "buried"
	wordCompleted = "completed"
	wordCancelled = "cancelled"
)

// stateWord is the state of a living item, or how it ended.
func stateWord(st *queue.ItemState) string {
	switch {
	case st.Ending == nil && st.Item.Dead != nil && st.Item.State(st.Now) != queue.Leased:
		return wordBuried
	case st.Ending == nil:
		return st.Item.State(st.Now).String()
	case st.Ending.Next == queue.StepComplete:
		return wordCompleted
	default:
		return wordCancelled
	}
}

// whyOf returns the reason that would have to go first: what the item itself says,
// then its queue, then whom it is pushed to, then how the pushes go.
func whyOf(st *queue.ItemState, around surroundings) reason {
	why := whyNot(st, around)
	if why.word == waiting.word && around.ready > 1 {
		why.message = fmt.Sprintf("it waits for its turn among about %d items of its queue that could go now, and nothing else stands in its way", around.ready)
	}
	return why
}

func whyNot(st *queue.ItemState, around surroundings) reason {
	if st.Ending != nil {
		return whyEnded(st.Ending)
	}
	it := &st.Item
	state := it.State(st.Now)
	switch {
	case state == queue.Leased:
		return whyLeased(it)
	case it.Dead != nil:
		return whyDead(it.Dead)
	case it.Expired(st.Now):
		return reason{word: queue.ReasonExpired, message: "its expire_timeout is over, so it is not delivered any more; it goes to the dead-letter queue within seconds"}
	case state == queue.Behind:
		return reason{word: "ordered_behind", message: "it stands behind an older item with its ordering key, and follows when that one has ended"}
	case state == queue.Scheduled:
		return reason{word: "scheduled", message: "it is not due yet; it can be delivered from next_at on", nextAt: it.AvailableAt}
	case it.IsParked(st.Now):
		return reason{word: "retrying", message: whatFailed(it) + "; its ordering key is parked, and waits for queue.unblock, which has it tried again or skips it"}
	case state == queue.Retrying && it.Last == (queue.Last{}) && around.target != nil:
		return whyTurnedAway(it, around)
	case state == queue.Retrying:
		return reason{word: "retrying", message: whatFailed(it) + "; it is tried again at next_at", nextAt: it.AvailableAt}
	case st.Queue.Paused.Has(queue.PausedLease):
		return reason{word: "queue_paused", message: "the queue is paused and gives no items out; queues.resume goes on"}
	case around.sub != nil:
		return whyPushed(around)
	case around.leasesWaiting == 0:
		return reason{word: "no_receiver", message: "nobody takes it: the queue has no subscription, or one without a url, and no queue.lease waits on it at this server now"}
	default:
		return waiting
	}
}

var waiting = reason{word: "waiting", message: "it waits for its turn, and nothing stands in its way"}

func whyLeased(it *queue.Item) reason {
	by := ""
	if it.Owner != "" {
		by = " by " + strconv.Quote(it.Owner)
	}
	return reason{
		word: "leased", nextAt: it.AvailableAt,
		message: "it is leased" + by + "; unless it is settled or extended before next_at, it can be leased again then",
	}
}

func whatFailed(it *queue.Item) string {
	switch {
	case it.Last.Status != 0:
		return fmt.Sprintf("it failed with status %d", it.Last.Status)
	case it.Last.Error != "":
		return "it failed, and last_error says how"
	default:
		return givenBack
	}
}

const givenBack = "it was given back"

func whyDead(d *queue.Dead) reason {
	if d.Reason == queue.ReasonExpired {
		return reason{word: queue.ReasonExpired, message: "its expire_timeout was over before it was delivered; queue.redrive takes it out of this dead-letter queue"}
	}
	return reason{word: wordBuried, message: "it was buried: " + clip(d.Reason) + "; queue.redrive takes it out of this dead-letter queue"}
}

// whyTurnedAway is about an item that did not fail and has a host of its own: it may
// have been given back since that host had no room.
func whyTurnedAway(it *queue.Item, around surroundings) reason {
	why := reason{word: "retrying", message: givenBack + "; it is tried again at next_at"}
	if around.sub != nil && around.sub.State() == subscriptions.Active && around.lane != nil {
		if of := whyHeldUp(around); of.word != waiting.word {
			why = of
		}
	}
	why.nextAt = it.AvailableAt
	return why
}

// whyPushed is about an item that the push loop could take.
func whyPushed(around surroundings) reason {
	sub := around.sub
	switch sub.State() {
	case subscriptions.Disabled:
		since, why := "", ""
		if !sub.DisabledAt.IsZero() {
			since = " since " + sub.DisabledAt.UTC().Format(time.RFC3339)
		}
		if sub.Reason != "" {
			why = " (" + clip(sub.Reason) + ")"
		}
		return reason{
			word:    "subscription_disabled",
			message: "subscription " + sub.Name + " is disabled" + since + why + "; subscriptions.enable goes on, once its endpoint is right",
		}
	case subscriptions.Paused:
		return reason{word: "subscription_paused", message: "subscription " + sub.Name + " is paused; subscriptions.resume goes on"}
	}
	if around.lane == nil {
		return waiting
	}
	return whyHeldUp(around)
}

// whyHeldUp says what keeps the push loop from sending the item now.
func whyHeldUp(around surroundings) reason {
	sub, lane := around.sub, around.lane
	to, flow := "the endpoint of subscription "+sub.Name, lane.own()
	if around.target != nil {
		host := around.target.Host()
		to, flow = "host "+host, lane.host(host)
	}
	switch {
	case flow.Breaker == "open":
		return reason{
			word: "breaker_open", nextAt: flow.BreakerUntil,
			message: to + " fails, so it is left alone; one item probes it at next_at",
		}
	case flow.Breaker == "half-open":
		return reason{
			word:    "breaker_open",
			message: to + " failed and is probed now; pushes go on if that goes well",
		}
	case !flow.PausedUntil.IsZero():
		return reason{
			word: "rate_limited", nextAt: flow.PausedUntil,
			message: to + " asked to wait; pushes go on at next_at",
		}
	case lane.MaxDeferred > 0 && lane.Deferred > 0 && lane.Deferred+lane.InFlight >= lane.MaxDeferred:
		return reason{
			word: "window_full",
			message: fmt.Sprintf("the endpoint of subscription %s keeps %d items to finish later, and with those on their way it may keep %d; "+
				"it waits until some are settled, and a higher max_deferred makes more room", sub.Name, lane.Deferred, lane.MaxDeferred),
		}
	case flow.Window == 0:
		return reason{
			word: "window_full",
			message: "max_in_flight of subscription " + sub.Name + " is divided between the nodes that push, and the others have all of it; " +
				"the item waits for one of them, and items.info asked there says more",
		}
	case flow.InFlight >= flow.Window:
		return reason{
			word: "window_full",
			message: fmt.Sprintf("%d requests run to %s, as many as may at one time; it waits for its turn, and a higher max_in_flight of subscription %s makes more room",
				flow.InFlight, to, sub.Name),
		}
	case !flow.RateUntil.IsZero():
		return reason{
			word: "rate_limited", nextAt: flow.RateUntil,
			message: fmt.Sprintf("%s gets no more than %d requests in %s; the next one starts at next_at", to, sub.Rate.Count, formatDuration(sub.Rate.Period)),
		}
	default:
		return waiting
	}
}

// own is the part of a lane's state about the subscription's own endpoint.
func (l *LaneState) own() HostState {
	return HostState{
		Window: l.Window, InFlight: l.InFlight, Breaker: l.Breaker, BreakerUntil: l.BreakerUntil,
		PausedUntil: l.PausedUntil, RateUntil: l.RateUntil,
	}
}

// host is the part about a host. One that is not shown has no trouble and its whole
// window.
func (l *LaneState) host(name string) HostState {
	for i := range l.Hosts {
		if l.Hosts[i].Host == name {
			return l.Hosts[i]
		}
	}
	return HostState{Host: name, Window: 1}
}

func whyEnded(r *queue.Record) reason {
	if r.Next == queue.StepComplete {
		return reason{word: wordCompleted, message: "it is done"}
	}
	return reason{word: wordCancelled, message: "it was ended without being delivered (" + clip(r.Verdict) + "), and its payload is erased"}
}
