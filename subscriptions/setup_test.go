package subscriptions

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/seal"
)

func names(subs []Subscription) string {
	var all []string
	for _, sub := range subs {
		all = append(all, sub.Name)
	}
	return strings.Join(all, " ")
}

func params(name, queueName string) CreateParams {
	return CreateParams{
		Namespace: queue.DefaultNamespace, Name: name, Queue: queueName,
		Change: Change{URL: new("https://example.com/hook")},
	}
}

func nan() float64 { zero := 0.0; return zero / zero }

type kit struct {
	docs   *mapCollection[Document]
	claims *mapCollection[Claim]

	ensureErr error
	// announceErr is what announcing answers.
	announceErr error
	// others are queues that are there.
	others []string
	// subscribed has the numbers of the queues of subscriptions on topics; topicErr is what
	// Subscribe and Unsubscribe answer.
	subscribed map[string]queue.Number
	filters    map[string]json.RawMessage
	topicErr   error
	numbers    uint32

	mu        sync.Mutex
	made      []string
	announced []string
}

func (k *kit) Queue(_ context.Context, _ queue.Namespace, name string) (queue.Settings, uint64, error) {
	if !slices.Contains(k.others, name) {
		return queue.Settings{}, 0, queue.ErrNotFound
	}
	return queue.Settings{Name: name}, 1, nil
}

func (k *kit) Subscribe(_ context.Context, ns queue.Namespace, topic, name string, filter json.RawMessage) (queue.Settings, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.topicErr != nil {
		return queue.Settings{}, k.topicErr
	}
	own := queue.CopyQueue(topic, name)
	if k.subscribed[own] == 0 {
		k.numbers++
		k.subscribed[own] = queue.NewNumber(ns, k.numbers)
	}
	k.filters[own] = filter
	return queue.Settings{Name: own, Number: k.subscribed[own]}, nil
}

func (k *kit) Unsubscribe(_ context.Context, _ queue.Namespace, topic, name string, number queue.Number) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if own := queue.CopyQueue(topic, name); k.topicErr == nil && k.subscribed[own] == number {
		delete(k.subscribed, own)
	}
	return k.topicErr
}

func (k *kit) Refilter(_ context.Context, _ queue.Namespace, topic, name string, number queue.Number, filter json.RawMessage) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if own := queue.CopyQueue(topic, name); k.topicErr == nil && k.subscribed[own] == number {
		k.filters[own] = filter
	}
	return k.topicErr
}

func (k *kit) announce(_ context.Context, _ queue.Namespace, kind string, payload []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.announced = append(k.announced, kind+" "+string(payload))
	return k.announceErr
}

func (k *kit) EnsureQueue(_ context.Context, _ queue.Namespace, name string) (queue.Settings, error) {
	if k.ensureErr != nil {
		return queue.Settings{}, k.ensureErr
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.made = append(k.made, name)
	return queue.Settings{Name: name}, nil
}

const madeSecret = "whsec_made"

func setup(t *testing.T) (*Service, *kit) {
	t.Helper()
	k := &kit{docs: newMapCollection[Document](), claims: newMapCollection[Claim](), subscribed: map[string]queue.Number{}, filters: map[string]json.RawMessage{}}
	return New(k.options()), k
}

func (k *kit) options() Options {
	return Options{
		Docs: k.docs, Claims: k.claims, Queues: k, Sealer: seal.Random(), Announce: k.announce,
		CheckURL: func(url string) error {
			if url == "bad" {
				return errors.New("is no URL")
			}
			return nil
		},
		CheckHeaders: func(headers map[string]string) error {
			if _, bad := headers["bad"]; bad {
				return errors.New("header is reserved")
			}
			return nil
		},
		CheckSecret: func(secret string) error {
			if strings.HasPrefix(secret, "bad") {
				return errors.New("is no secret")
			}
			return nil
		},
		CheckAuth: func(a Auth) error {
			if a.Bearer == "bad canary" {
				return queue.Invalid("auth.bearer", "is no token")
			}
			return nil
		},
		NewSecret: func() string { return madeSecret },
	}
}
