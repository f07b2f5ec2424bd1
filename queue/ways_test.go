package queue_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/queue"
)

// targets lets the queue "orders" take targets, as long as they are of example.com.
var targets = queue.Options{
	AllowsTarget: func(_ context.Context, n queue.Namespace, name string) (bool, error) {
		return n == ns && name == "orders", nil
	},
	CheckTarget: func(t *queue.Target) error {
		if !strings.HasPrefix(t.URL, "https://example.com/") {
			return queue.Invalid("url", "is elsewhere")
		}
		return nil
	},
}

func ways(target, onDone string) queue.Content {
	c := queue.Content{Payload: []byte("a"), OnDone: onDone}
	if target != "" {
		c.Target = &queue.Target{URL: target, Method: "PUT", Timeout: 7}
	}
	return c
}

// refusedWays are contents that neither produce nor import takes on the queue, which is
// there beside the queue "done".
var refusedWays = map[string]struct {
	queue   string
	content queue.Content
	field   string
}{
	"target on a queue that takes none":    {"done", ways("https://example.com/a", ""), "items[1].target"},
	"target elsewhere":                     {"orders", ways("https://example.net/a", ""), "items[1].target.url"},
	"target that cannot be stored":         {"orders", ways("https://example.com/\x00", ""), "items[1].target"},
	"on_done that does not exist":          {"orders", ways("", "nowhere"), "items[1].on_done"},
	"on_done that is no name":              {"orders", ways("", "a/b"), "items[1].on_done"},
	"on_done that is the queue":            {"orders", ways("", "orders"), "items[1].on_done"},
	"on_done of a target that is good":     {"orders", ways("https://example.com/a", "nowhere"), "items[1].on_done"},
	"on_done that is nobody's dead letter": {"orders", ways("", "orders~dead"), "items[1].on_done"},
}

func TestWays_ThatDoNotExistAreRefused(t *testing.T) {
	t.Parallel()
	bubbleWith(t, targets, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "done"})
		for name, test := range refusedWays {
			_, err := f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: test.queue, Items: []queue.ProduceItem{{}, {Content: test.content}}})
			if invalid, ok := errors.AsType[*queue.InvalidError](err); !ok || invalid.Field != test.field {
				t.Errorf("%s: got %v, want an InvalidError for %s", name, err, test.field)
			}
			brought := queue.ImportItem{Content: test.content}
			brought.SourceID = "1"
			other := queue.ImportItem{Content: queue.Content{SourceID: "0"}}
			_, err = f.Import(t.Context(), queue.ImportCall{Namespace: ns, Queue: test.queue, Items: []queue.ImportItem{other, brought}})
			if invalid, ok := errors.AsType[*queue.InvalidError](err); !ok || invalid.Field != test.field {
				t.Errorf("%s, imported: got %v, want an InvalidError for %s", name, err, test.field)
			}
		}
		for _, name := range []string{"orders", "done"} {
			if got := f.total(t, name); got != 0 {
				t.Errorf("%s holds %d items, want none", name, got)
			}
		}
		_, err := f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "nowhere", Items: []queue.ProduceItem{{Content: ways("https://example.com/a", "")}}})
		if !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("no such queue: got %v, want ErrNotFound", err)
		}
	})
}

func TestWays_TargetsNeedSomebodyWhoJudgesThem(t *testing.T) {
	t.Parallel()
	refuse(t, queue.ProduceItem{Content: ways("https://example.com/a", "")}, func(err error) { wantInvalid(t, err, "items[1].target") })
}

func TestWays_AreKept(t *testing.T) {
	t.Parallel()
	bubbleWith(t, targets, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "done"})
		content := ways("https://example.com/a", "done")
		same := func(what string, it queue.Item) {
			t.Helper()
			if it.Target == nil || *it.Target != *content.Target || it.OnDone != "done" {
				t.Errorf("%s: got %+v and %q, want what was given", what, it.Target, it.OnDone)
			}
		}
		f.produce(t, "orders", queue.ProduceItem{Content: content})
		same("lease", f.leaseOne(t, "orders"))
		brought := queue.ImportItem{Content: content}
		brought.SourceID = "1"
		kept, err := f.Import(t.Context(), queue.ImportCall{Namespace: ns, Queue: "orders", Items: []queue.ImportItem{brought}})
		if err != nil {
			t.Fatal(err)
		}
		same("import", kept[0])
		leased := f.leaseOne(t, "orders")
		same("lease of what was imported", leased)
		f.settle(t, entry(leased, queue.Bury))
		same("bury", f.find(t, leased.ID))
		f.wantRedriven(t, redriveCall("orders~dead"), queue.Redriven{Moved: 1})
		same("redrive", f.leaseOne(t, "orders"))
	})
}

func TestWays_AreOfTheBodyOfAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	bubbleWith(t, targets, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "done"})
		call := func(c queue.Content) error {
			_, err := f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: []queue.ProduceItem{{Content: c, IdempotencyKey: "k"}}})
			return err
		}
		whole := ways("https://example.com/a", "done")
		if err := call(whole); err != nil {
			t.Fatal(err)
		}
		if err := call(whole); err != nil {
			t.Errorf("the same again: %v", err)
		}
		other := ways("https://example.com/a", "done")
		other.Target.Timeout++
		for name, c := range map[string]queue.Content{
			"no target":       ways("", "done"),
			"no on_done":      ways("https://example.com/a", ""),
			"another url":     ways("https://example.com/b", "done"),
			"another timeout": other,
		} {
			if err := call(c); !errors.Is(err, queue.ErrMismatch) {
				t.Errorf("%s: got %v, want ErrMismatch", name, err)
			}
		}
	})
}
