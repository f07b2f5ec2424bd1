package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

func TestClient_ProducesLeasesAndCompletes(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	type order struct{ ID int }
	first, err := client.JSON("order.paid", order{17})
	if err != nil {
		t.Fatal(err)
	}
	first.Reference, first.Headers = "order 17", map[string]string{"X-Shop": "a"}
	produced := produce(t, c, first, client.Item{Payload: []byte{0xff, 0}})
	items := lease(t, c, 10)
	if len(items) != 2 {
		t.Fatalf("leased %d items, want 2", len(items))
	}
	it := items[0]
	var got order
	if err := it.JSON(&got); err != nil || got.ID != 17 {
		t.Errorf("payload: got %+v, %v, want order 17", got, err)
	}
	if it.ItemID != produced[0].ItemID || it.Kind != "order.paid" || it.Encoding != "application/json" || it.Reference != "order 17" ||
		it.Headers["X-Shop"] != "a" || it.Deliveries != 1 || time.Until(it.LeaseDeadline) < 50*time.Second || it.CreatedAt.IsZero() {
		t.Errorf("got %+v, want the item that was produced", it)
	}
	if string(items[1].Payload) != "\xff\x00" {
		t.Errorf("binary payload: got %q", items[1].Payload)
	}
	if err := c.Complete(t.Context(), items[0].Receipt, items[1].Receipt); err != nil {
		t.Fatal(err)
	}
	if s, err := c.Stats(t.Context(), "orders"); err != nil || s.Total != 0 {
		t.Errorf("got %+v, %v, want an empty queue", s, err)
	}
}

func TestClient_SettlesInEveryWay(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	produce(t, c, make([]client.Item, 4)...)
	items := lease(t, c, 4)
	results, err := c.Retry(t.Context(), client.Retry{Receipt: items[0].Receipt, Delay: time.Hour, Reason: "busy"})
	if err != nil || len(results) != 1 || !results[0].OK() || time.Until(results[0].AvailableAt) < 50*time.Minute {
		t.Errorf("retry: got %+v, %v", results, err)
	}
	if err := c.Bury(t.Context(), "no such order", items[1].Receipt); err != nil {
		t.Errorf("bury: %v", err)
	}
	if err := c.Release(t.Context(), 0, items[2].Receipt); err != nil {
		t.Errorf("release: %v", err)
	}
	results, err = c.Extend(t.Context(), time.Hour, items[3].Receipt, items[2].Receipt)
	if err != nil || len(results) != 2 || !results[0].OK() || time.Until(results[0].LeaseDeadline) < 50*time.Minute || results[1].Status != client.CodeStaleLease {
		t.Errorf("extend: got %+v, %v, want the first extended and the second named stale", results, err)
	}
	dead := slices.Collect(values(t, c.Items(t.Context(), "orders~dead")))
	if len(dead) != 1 || dead[0].Dead == nil || dead[0].Dead.Reason != "no such order" || dead[0].Dead.Queue != "orders" {
		t.Errorf("dead-letter queue: got %+v, want the one with its reason", dead)
	}
}

func TestClient_NamesTheReceiptsThatWereRefused(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	produce(t, c, make([]client.Item, 2)...)
	items := lease(t, c, 2)
	if err := c.Complete(t.Context(), items[0].Receipt); err != nil {
		t.Fatal(err)
	}
	err := c.Complete(t.Context(), items[1].Receipt, items[0].Receipt)
	refusal, ok := errors.AsType[*client.Error](err)
	if !ok || refusal.Status != http.StatusConflict || len(refusal.Results) != 2 {
		t.Fatalf("got %v, want a refusal with a result for each", err)
	}
	if refusal.Results[0].Status != "undone" || refusal.Results[1].OK() || refusal.RequestID == "" || refusal.Uncertain {
		t.Errorf("got %+v, want the first undone and the second at fault", refusal)
	}
}

func TestClient_ErrorsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	_, err := c.Produce(t.Context(), "nowhere", client.Item{})
	if !client.Is(err, client.CodeNotFound) || !strings.HasPrefix(err.Error(), "posthaste: queue.produce: not_found: ") {
		t.Errorf("unknown queue: got %v", err)
	}
	_, err = c.Produce(t.Context(), "orders", client.Item{MaxAttempts: -7})
	if refusal, ok := errors.AsType[*client.Error](err); !ok || refusal.CodeText != client.CodeInvalid || refusal.Details["field"] != "items[0].max_attempts" {
		t.Errorf("invalid item: got %v, want the field named", err)
	}
	if client.Is(nil, client.CodeInvalid) || client.Is(context.Canceled, "") {
		t.Error("Is finds a word in what is no refusal")
	}
}

// An answer that is lost does not put the item on the queue twice.
func TestClient_RepeatsProduceWithOneKey(t *testing.T) {
	t.Parallel()
	c, s := setup(t)
	s.front.fail(loseAnswer, answerStatus(http.StatusBadGateway), answerStatus(http.StatusServiceUnavailable))
	produced := produce(t, c, client.Item{Kind: "once"}, client.Item{Kind: "twice"})
	if items := lease(t, c, 10); len(items) != 2 || items[0].ItemID != produced[0].ItemID {
		t.Errorf("leased %d items, want the 2 that were answered", len(items))
	}
	keys := map[string]int{}
	for _, r := range s.front.requests() {
		if r.path == "/v1/queue.produce" {
			keys[r.key]++
		}
	}
	if len(keys) != 1 || keys[""] > 0 {
		t.Errorf("keys of the tries: got %v, want one for all four", keys)
	}
	raw, err := c.ProduceRaw(t.Context(), "orders", client.RawItem{Body: []byte("<a/>"), ContentType: "text/xml", Kind: "k"})
	if err != nil || raw.ItemID == "" {
		t.Errorf("raw: got %+v, %v", raw, err)
	}
}

func TestClient_SaysWhereARefusalMayBeOfWhatAnEarlierTryDid(t *testing.T) {
	t.Parallel()
	c, s := setup(t)
	produce(t, c, client.Item{})
	it := lease(t, c, 1)[0]
	s.front.fail(loseAnswer)
	err := c.Complete(t.Context(), it.Receipt)
	if refusal, ok := errors.AsType[*client.Error](err); !ok || !refusal.Uncertain || refusal.Tries != 2 || refusal.Status/100 != 4 {
		t.Errorf("got %+v, want a refusal of the second try that says so", err)
	}
}

func TestClient_GivesUpAfterItsTries(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := s.client(t, client.Options{Tries: 3})
	s.front.fail(answerStatus(503), answerStatus(503), answerStatus(503), answerStatus(503))
	_, err := c.Produce(t.Context(), "orders", client.Item{})
	refusal, ok := errors.AsType[*client.Error](err)
	if !ok || refusal.Tries != 3 || refusal.Status != 503 || refusal.CodeText != "" || !refusal.Uncertain {
		t.Errorf("got %+v, want a proxy's 503 after three tries", err)
	}
}

// The answer at hand says more than that the time is up.
func TestClient_DoesNotWaitLongerThanItsCallerHas(t *testing.T) {
	t.Parallel()
	c, s := setup(t)
	s.front.fail(answerStatus(http.StatusTooManyRequests, "Retry-After", "7200"))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	began := time.Now()
	_, err := c.Produce(ctx, "orders", client.Item{})
	refusal, ok := errors.AsType[*client.Error](err)
	if !ok || refusal.Status != http.StatusTooManyRequests || refusal.RetryAfter != 2*time.Hour {
		t.Errorf("got %v, want the 429 with its Retry-After", err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("took %s, want no wait", took)
	}
}

func TestClient_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the test is over")
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	_, err := c.Lease(ctx, client.LeaseParams{Queue: "orders", Wait: time.Minute})
	if !errors.Is(err, why) {
		t.Errorf("got %v, want the cause", err)
	}
}

func TestClient_KnowsWhatIsNoServerOfOurs(t *testing.T) {
	t.Parallel()
	c, s := setup(t)
	s.front.fail(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		_ = json.NewEncoder(w).Encode("hello")
	})
	_, err := c.Stats(t.Context(), "orders")
	if err == nil || !strings.Contains(err.Error(), "is this the URL of a posthaste server?") {
		t.Errorf("got %v", err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		o    client.Options
		want string
	}{
		{client.Options{URL: "localhost:2319"}, "want http:// or https://"},
		{client.Options{URL: "http://user:secret@host"}, "has a user"},
		{client.Options{URL: "http://host/?key=secret"}, "a query"},
		{client.Options{URL: "http://\x7f"}, "is none"},
		{client.Options{Key: "secret\n"}, "line feed"},
		{client.Options{Tries: -1}, "Tries is -1"},
		{client.Options{MinWait: -time.Second}, "MinWait -1s"},
		{client.Options{MaxWait: -time.Second}, "MaxWait -1s"},
	} {
		_, err := client.New(test.o)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: got %v, want %q", test.o, err, test.want)
		}
	}
}

func TestClient_SendsItsKeyAndTrace(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := s.client(t, client.Options{Key: "pdk_live_x"})
	ctx := traced(t.Context())
	_ = c.CreateQueue(ctx, client.Queue{Name: "orders"}) // how it is answered does not matter
	seen := s.front.requests()[0]
	if seen.authorization != "Bearer pdk_live_x" || seen.trace != traceparent {
		t.Errorf("got %+v, want key and trace", seen)
	}
}

// The environment's key is for the environment's server.
func TestNew_TakesTheKeyOfTheEnvironmentWithItsURL(t *testing.T) {
	s := newServer(t)
	t.Setenv("POSTHASTE_URL", s.url)
	t.Setenv("POSTHASTE_KEY", "pdk_live_env")
	for _, test := range []struct {
		o    client.Options
		want string
	}{
		{client.Options{}, "Bearer pdk_live_env"},
		{client.Options{URL: s.url}, ""},
		{client.Options{URL: s.url, Key: "pdk_live_own"}, "Bearer pdk_live_own"},
		{client.Options{Key: "pdk_live_own"}, "Bearer pdk_live_own"},
	} {
		c, err := client.New(test.o)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.CreateQueue(t.Context(), client.Queue{Name: "orders"}) // how it is answered does not matter
		c.Close()
		seen := s.front.requests()
		if got := seen[len(seen)-1].authorization; got != test.want {
			t.Errorf("%+v: sent %q, want %q", test.o, got, test.want)
		}
	}
}

func TestClient_ChangesPartitions(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	if err := c.CreateQueue(t.Context(), client.Queue{Name: "clicks", Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.Produce(t.Context(), "clicks", client.Item{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.UpdateQueue(t.Context(), "clicks", client.QueueUpdate{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	q, err := c.GetQueue(t.Context(), "clicks")
	if want := []client.DrainingPartition{{Partition: 1, Total: 1}}; err != nil || q.Partitions != 1 || !slices.Equal(q.Draining, want) {
		t.Errorf("got %+v, %v, want one partition and one that drains", q, err)
	}
	if listed := slices.Collect(values(t, c.Items(t.Context(), "clicks"))); len(listed) != 2 {
		t.Errorf("listed %d items, want those of both partitions", len(listed))
	}
	if s, err := c.Stats(t.Context(), "clicks"); err != nil || s.Total != 2 {
		t.Errorf("stats: got %+v, %v, want both items", s, err)
	}
}

func TestClient_ManagesQueues(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	if err := c.CreateQueue(t.Context(), client.Queue{
		Name: "mails", Reference: "ours", LeaseTimeout: 90 * time.Second, ExpireTimeout: time.Hour, KeepEnded: time.Hour, MaxAttempts: 3, MaxRecoveries: 7,
	}); err != nil {
		t.Fatal(err)
	}
	q, err := c.GetQueue(t.Context(), "mails")
	if err != nil || q.LeaseTimeout != 90*time.Second || q.ExpireTimeout != time.Hour || q.KeepEnded != time.Hour || q.MaxAttempts != 3 || q.MaxRecoveries != 7 || q.Revision == "" {
		t.Fatalf("create: got %+v, %v", q, err)
	}
	if err := c.CreateQueue(t.Context(), client.Queue{Name: "mails"}); !client.Is(err, client.CodeAlreadyExists) {
		t.Errorf("created twice: %v", err)
	}
	if err := c.UpdateQueue(t.Context(), "mails", client.QueueUpdate{Revision: q.Revision, ExpireTimeout: new(time.Duration), MaxAttempts: 4}); err != nil {
		t.Fatal(err)
	}
	changed, err := c.GetQueue(t.Context(), "mails")
	if err != nil || changed.ExpireTimeout != 0 || changed.MaxAttempts != 4 || changed.LeaseTimeout != 90*time.Second || changed.Reference != "ours" {
		t.Errorf("update: got %+v, %v", changed, err)
	}
	if err := c.UpdateQueue(t.Context(), "mails", client.QueueUpdate{Revision: q.Revision, MaxAttempts: 5}); !client.Is(err, client.CodeRevisionMismatch) {
		t.Errorf("update of an old revision: %v", err)
	}
	if err := c.PauseQueue(t.Context(), "mails", client.ProduceSide); err != nil {
		t.Errorf("pause: %v", err)
	}
	if _, err := c.Produce(t.Context(), "mails", client.Item{}); !client.Is(err, client.CodeQueuePaused) {
		t.Errorf("produce to a paused queue: %v", err)
	}
	if q, err := c.GetQueue(t.Context(), "mails"); err != nil || q.Pause != "produce" {
		t.Errorf("info: got %+v, %v, want it paused", q, err)
	}
	if err := c.ResumeQueue(t.Context(), "mails", client.BothSides); err != nil {
		t.Errorf("resume: %v", err)
	}
	if err := c.ReloadQueue(t.Context(), "mails"); err != nil {
		t.Errorf("reload: %v", err)
	}
	var names []string
	for q := range values(t, c.Queues(t.Context())) {
		names = append(names, q.Name)
	}
	if !slices.Equal(names, []string{"mails", "orders"}) {
		t.Errorf("list: got %v", names)
	}
	produce(t, c, make([]client.Item, 3)...)
	if n, more, err := c.ClearQueue(t.Context(), "orders", client.ClearParams{Ready: true}); err != nil || n != 3 || more {
		t.Errorf("clear: got %d, %t, %v", n, more, err)
	}
	if err := c.DeleteQueue(t.Context(), "orders", true); err != nil {
		t.Errorf("delete: %v", err)
	}
}

func TestClient_ManagesItems(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	if err := c.UpdateQueue(t.Context(), "orders", client.QueueUpdate{KeepEnded: new(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	done := produce(t, c, client.Item{Kind: "a"})[0].ItemID
	it := lease(t, c, 1)[0]
	if err := c.CompleteWith(t.Context(), client.Completion{Receipt: it.Receipt, Result: []byte("42")}); err != nil {
		t.Fatal(err)
	}
	info, err := c.WaitItem(t.Context(), done, "orders", time.Second)
	if err != nil || len(info) != 1 || info[0].State != "completed" || string(info[0].Result) != "42" || !info[0].Ended() {
		t.Errorf("wait: got %+v, %v, want the result", info, err)
	}
	var ids []string
	for _, p := range produce(t, c, client.Item{Kind: "b"}, client.Item{Kind: "c", Delay: time.Hour}, client.Item{Kind: "c"}) {
		ids = append(ids, p.ItemID)
	}
	if info, err := c.ItemInfo(t.Context(), ids[1], ""); err != nil || len(info) != 1 || info[0].Why != "scheduled" || info[0].NextAt.IsZero() || info[0].Ended() {
		t.Errorf("info: got %+v, %v, want it scheduled", info, err)
	}
	if later := slices.Collect(values(t, c.ScheduledItems(t.Context(), "orders"))); len(later) != 1 || later[0].ItemID != ids[1] {
		t.Errorf("scheduled: got %+v", later)
	}
	if n, err := c.CancelItems(t.Context(), "", ids[0], done); err != nil || n.Count != 1 || !slices.Equal(n.NotFound, []string{done}) {
		t.Errorf("cancel: got %+v, %v", n, err)
	}
	if n, err := c.CancelMatching(t.Context(), client.ItemFilter{Queue: "orders", Kind: "c", State: "scheduled"}); err != nil || n.Count != 1 {
		t.Errorf("cancel by filter: got %+v, %v", n, err)
	}
	imported, err := c.ImportItems(t.Context(), "orders", client.StoredItem{ItemID: "old-1", Kind: "d", Payload: []byte("x"), Attempts: 2})
	if err != nil || len(imported) != 1 || imported[0].SourceID != "old-1" || imported[0].Attempts != 2 {
		t.Errorf("import: got %+v, %v", imported, err)
	}
	if got := slices.Collect(values(t, c.Items(t.Context(), "orders"))); len(got) != 2 {
		t.Errorf("list: got %d items, want the one that is left and the one that came", len(got))
	}
	all := lease(t, c, 10)
	if err := c.Bury(t.Context(), "wrong", all[0].Receipt); err != nil {
		t.Fatal(err)
	}
	if moved, err := c.Redrive(t.Context(), "orders~dead", client.RedriveParams{DryRun: true, From: "orders"}); err != nil || moved.Moved != 1 {
		t.Errorf("dry run: got %+v, %v", moved, err)
	}
	if moved, err := c.Redrive(t.Context(), "orders~dead", client.RedriveParams{}); err != nil || moved.Moved != 1 || moved.More {
		t.Errorf("redrive: got %+v, %v", moved, err)
	}
}

func TestClient_ManagesSubscriptions(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	s, err := c.CreateSubscription(t.Context(), client.Subscription{
		Name: "hook", Queue: "orders", URL: "https://example.com/hook", Timeout: 10 * time.Second, MaxInFlight: 3,
		Retry: client.RetryPolicy{MaxAttempts: 3, Schedule: []time.Duration{time.Second, time.Minute}, GiveUpAfter: new(time.Duration), BuryOn: []int{404}},
	})
	if err != nil || s.Secret == "" || s.State != "active" || s.Timeout != 10*time.Second || s.MaxInFlight != 3 ||
		s.Retry.MaxAttempts != 3 || len(s.Retry.Schedule) != 2 || s.Retry.GiveUpAfter == nil || *s.Retry.GiveUpAfter != 0 || !slices.Equal(s.Retry.BuryOn, []int{404}) {
		t.Fatalf("create: got %+v, %v", s, err)
	}
	if s, err := c.UpdateSubscription(t.Context(), "hook", client.SubscriptionUpdate{Timeout: time.Minute}); err != nil || s.Timeout != time.Minute || s.Secret != "" {
		t.Errorf("update: got %+v, %v", s, err)
	}
	if s, err := c.PauseSubscription(t.Context(), "hook"); err != nil || s.State != "paused" {
		t.Errorf("pause: got %+v, %v", s, err)
	}
	if s, err := c.ResumeSubscription(t.Context(), "hook"); err != nil || s.State != "active" {
		t.Errorf("resume: got %+v, %v", s, err)
	}
	if s, err := c.GetSubscription(t.Context(), "hook"); err != nil || s.URL != "https://example.com/hook" {
		t.Errorf("info: got %+v, %v", s, err)
	}
	if all := slices.Collect(values(t, c.Subscriptions(t.Context()))); len(all) != 1 {
		t.Errorf("list: got %+v", all)
	}
	if err := c.DeleteSubscription(t.Context(), "hook"); err != nil {
		t.Errorf("delete: %v", err)
	}
}
