package subscriptions

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// EventDisabled is the kind of the item that tells of a disabled subscription.
const EventDisabled = "subscription.disabled"

// announceTime bounds how long a disabling waits for its announcement.
const announceTime = 5 * time.Second

// DisabledEvent is the payload of an item of [EventDisabled], as JSON.
type DisabledEvent struct {
	Subscription string `json:"subscription"`
	QueueName    string `json:"queue_name"`
	// Host is that of the endpoint, with its port if it has one: the rest of a URL may be
	// a secret.
	Host   string    `json:"host"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// Disable takes a subscription out of service because of what the endpoint at url
// answered, in the words of reason, and announces that. It does nothing if the
// subscription is disabled already, or points to another endpoint by now: the answer was
// not about that one.
func (s *Service) Disable(ctx context.Context, ns queue.Namespace, name, url, reason string) (Subscription, error) {
	disabled := false
	sub, err := s.mutate(ctx, ns, name, 0, func(sub *Subscription) (bool, error) {
		disabled = !sub.Disabled && sub.URL == url
		if disabled {
			sub.Disabled, sub.Reason, sub.DisabledAt = true, reason, s.stamp()
		}
		return disabled, nil
	})
	if err == nil && disabled {
		s.announce(ctx, &sub)
	}
	return sub, err
}

// announce tells whoever listens on the queue of events. The subscription is disabled
// whether it succeeds or not.
func (s *Service) announce(ctx context.Context, sub *Subscription) {
	if s.announcing == nil {
		return
	}
	event := DisabledEvent{Subscription: sub.Name, QueueName: sub.Queue, Reason: sub.Reason, At: sub.DisabledAt}
	if u, err := url.Parse(sub.URL); err == nil {
		event.Host = u.Host
	}
	payload, err := json.Marshal(event)
	if err == nil {
		bounded, cancel := context.WithTimeout(ctx, announceTime)
		defer cancel()
		err = s.announcing(bounded, sub.Namespace, EventDisabled, payload)
	}
	if err != nil {
		s.log.Warn("subscription was disabled, which could not be announced", "subscription", sub.Name, "queue", sub.Queue, "error", err)
	}
}

// MarkFailing notes since when nothing but failures comes from the endpoint at url. It
// does nothing where that is noted already, or where the subscription points to another
// endpoint by now: of two nodes the first to see it counts.
func (s *Service) MarkFailing(ctx context.Context, ns queue.Namespace, name, url string, since time.Time) (Subscription, error) {
	return s.mutate(ctx, ns, name, 0, func(sub *Subscription) (bool, error) {
		if !sub.FailingSince.IsZero() || sub.URL != url {
			return false, nil
		}
		sub.FailingSince = since.UTC().Truncate(time.Microsecond)
		return true, nil
	})
}

// MarkWell notes that something succeeded. It does nothing where no failures are noted.
func (s *Service) MarkWell(ctx context.Context, ns queue.Namespace, name string) (Subscription, error) {
	return s.mutate(ctx, ns, name, 0, func(sub *Subscription) (bool, error) {
		changed := !sub.FailingSince.IsZero()
		sub.FailingSince = time.Time{}
		return changed, nil
	})
}
