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
	// leasesWaiting is how many consumers wait on the queue. It is known for queues
	// that are not pushed.
	leasesWaiting int
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
	case state == queue.Retrying:
		return reason{word: "retrying", message: whatFailed(it) + "; it is tried again at next_at", nextAt: it.AvailableAt}
	case st.Queue.Paused.Has(queue.PausedLease):
		return reason{word: "queue_paused", message: "the queue is paused and gives no items out; queues.resume goes on"}
	case around.sub != nil:
		return whyPushed(around.sub, around.lane)
	case around.leasesWaiting == 0:
		return reason{word: "no_receiver", message: "nobody takes it: the queue has no subscription, and no queue.lease waits on it at this server now"}
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
		return "it was given back"
	}
}

func whyDead(d *queue.Dead) reason {
	if d.Reason == queue.ReasonExpired {
		return reason{word: queue.ReasonExpired, message: "its expire_timeout was over before it was delivered; queue.redrive takes it out of this dead-letter queue"}
	}
	return reason{word: wordBuried, message: "it was buried: " + clip(d.Reason) + "; queue.redrive takes it out of this dead-letter queue"}
}

// whyPushed is about an item that the push loop could take.
func whyPushed(sub *subscriptions.Subscription, lane *LaneState) reason {
	switch sub.State() {
	case subscriptions.Disabled:
		why := ""
		if sub.Reason != "" {
			why = " (" + clip(sub.Reason) + ")"
		}
		return reason{
			word:    "subscription_disabled",
			message: "subscription " + sub.Name + " is disabled" + why + "; subscriptions.enable goes on, once its endpoint is right",
		}
	case subscriptions.Paused:
		return reason{word: "subscription_paused", message: "subscription " + sub.Name + " is paused; subscriptions.resume goes on"}
	}
	switch {
	case lane == nil:
		return waiting
	case lane.Breaker == "open":
		return reason{
			word: "breaker_open", nextAt: lane.BreakerUntil,
			message: "the endpoint of subscription " + sub.Name + " fails, so it is left alone; one item probes it at next_at",
		}
	case lane.Breaker == "half-open":
		return reason{
			word:    "breaker_open",
			message: "the endpoint of subscription " + sub.Name + " failed and is probed now; pushes go on if that goes well",
		}
	case !lane.PausedUntil.IsZero():
		return reason{
			word: "rate_limited", nextAt: lane.PausedUntil,
			message: "the endpoint of subscription " + sub.Name + " asked to wait; pushes go on at next_at",
		}
	case lane.InFlight >= lane.Window:
		return reason{
			word: "window_full",
			message: fmt.Sprintf("%d requests run to subscription %s, as many as may at one time; it waits for its turn, and a higher max_in_flight makes more room",
				lane.InFlight, sub.Name),
		}
	default:
		return waiting
	}
}

func whyEnded(r *queue.Record) reason {
	if r.Next == queue.StepComplete {
		return reason{word: wordCompleted, message: "it is done"}
	}
	return reason{word: wordCancelled, message: "it was ended without being delivered (" + clip(r.Verdict) + "), and its payload is erased"}
}
