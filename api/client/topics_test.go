package client_test

import (
	"testing"

	"github.com/posthaste-io/posthaste/api/client"
)

func TestClient_Topics(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	ctx := t.Context()
	made, err := c.CreateTopic(ctx, client.Topic{Name: "events", Reference: "who did what"})
	if err != nil {
		t.Fatal(err)
	}
	if made.Name != "events" || made.Reference != "who did what" || made.Subscriptions != 0 || made.CreatedAt.IsZero() || made.Revision == "" {
		t.Errorf("created: got %+v", made)
	}
	if _, err := c.CreateTopic(ctx, client.Topic{Name: "events"}); !client.Is(err, client.CodeAlreadyExists) {
		t.Errorf("again: got %v, want already_exists", err)
	}
	sub, err := c.CreateSubscription(ctx, client.Subscription{Name: "billing", Topic: "events"})
	if err != nil {
		t.Fatal(err)
	}
	if sub.Topic != "events" || sub.Queue != "events~billing" {
		t.Errorf("subscribed: got %+v", sub)
	}
	produced, err := c.Produce(ctx, "events", client.Item{IdempotencyKey: "k"}, client.Item{})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range produced {
		if p.Copies == nil || *p.Copies != 1 {
			t.Errorf("item %d: got %+v, want one copy", i, p)
		}
	}
	if again, err := c.Produce(ctx, "events", client.Item{IdempotencyKey: "k"}); err != nil || !again[0].Duplicate || again[0].Copies != nil || again[0].ItemID != produced[0].ItemID {
		t.Errorf("repeat: got %+v, %v", again, err)
	}
	if raw, err := c.ProduceRaw(ctx, "events", client.RawItem{Body: []byte("x")}); err != nil || raw.Copies == nil || *raw.Copies != 1 {
		t.Errorf("raw: got %+v, %v", raw, err)
	}
	got, err := c.GetTopic(ctx, "events")
	if err != nil || got.Subscriptions != 1 || got.Revision == made.Revision {
		t.Errorf("got %+v, %v, want one subscription and another revision", got, err)
	}
	if _, err := c.UpdateTopic(ctx, "events", client.TopicUpdate{Revision: made.Revision, Reference: new("new")}); !client.Is(err, client.CodeRevisionMismatch) {
		t.Errorf("update of an old revision: got %v", err)
	}
	if got, err = c.UpdateTopic(ctx, "events", client.TopicUpdate{Revision: got.Revision, Reference: new("new")}); err != nil || got.Reference != "new" {
		t.Errorf("updated: got %+v, %v", got, err)
	}
	if _, err := c.CreateSubscription(ctx, client.Subscription{Name: "first", Queue: "orders", URL: "https://example.com/hook", Paused: true}); err != nil {
		t.Fatal(err)
	}
	if turned, err := c.CreateTopic(ctx, client.Topic{FromQueue: "orders"}); err != nil || turned.Name != "orders" || turned.Subscriptions != 1 || turned.FromQueue != "" {
		t.Errorf("from a queue: got %+v, %v", turned, err)
	}
	if sub, err := c.GetSubscription(ctx, "first"); err != nil || sub.Topic != "orders" || sub.Queue != "orders~first" {
		t.Errorf("its subscription: got %+v, %v", sub, err)
	}
	if err := c.DeleteTopic(ctx, "orders", true); err != nil {
		t.Error(err)
	}
	names := 0
	for each, err := range c.Topics(ctx) {
		if err != nil || each.Name != "events" {
			t.Errorf("listed: got %+v, %v", each, err)
		}
		names++
	}
	if names != 1 {
		t.Errorf("listed %d topics, want 1", names)
	}
	if err := c.DeleteTopic(ctx, "events", false); !client.Is(err, client.CodeNotEmpty) {
		t.Errorf("deletion: got %v, want not_empty", err)
	}
	if err := c.DeleteTopic(ctx, "events", true); err != nil {
		t.Error(err)
	}
}
