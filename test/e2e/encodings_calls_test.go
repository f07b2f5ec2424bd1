package e2e_test

import (
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/posthaste-io/posthaste/api/v1"
)

// encodingCall is one call that is made in each encoding.
type encodingCall struct {
	name, method string
	// request makes the message, which may need something of earlier answers.
	request func(*speaker) proto.Message
	// reply is an empty one of the type that a success has.
	reply  proto.Message
	status int
	// reads says that the call may be repeated, and answers the same.
	reads bool
	// then keeps what later calls need.
	then func(*speaker, proto.Message)
}

// with is for a request that needs nothing of earlier answers.
func with(m proto.Message) func(*speaker) proto.Message {
	return func(*speaker) proto.Message { return m }
}

const nobody = "01890000-0000-7000-8000-000000000000"

// someday is far ahead, and has all the digits that an instant can have here.
var someday = timestamppb.New(time.Date(2031, 2, 3, 4, 5, 6, 789_123_000, time.UTC))

// producedItems are eight that can be leased at once, the first of them with all that
// an item can have, and two for later.
func producedItems() *v1.ProduceRequest {
	request := &v1.ProduceRequest{QueueName: "q", RequestTimeout: "30s", Items: []*v1.Produce{{
		Encoding: "application/json", Kind: "order.created", Reference: "grün \u2028 \"x\" \\", Bytes: []byte("{\"a\":1}\x00\xff"),
		IdempotencyKey: "k-1", Headers: map[string]string{"X-A": "1", "X-B": "two words"}, MaxAttempts: 3, ExpireTimeout: "48h",
	}}}
	for range 7 {
		request.Items = append(request.Items, &v1.Produce{Utf8: "text <&> \u2029", Kind: "plain"})
	}
	request.Items = append(request.Items, &v1.Produce{Bytes: []byte{}, Delay: "1h"}, &v1.Produce{Utf8: "later", EnqueueAt: someday})
	return request
}

// oneTooMany is a call over the limit.
func oneTooMany() *v1.ProduceRequest {
	request := &v1.ProduceRequest{QueueName: "q"}
	for range 1001 {
		request.Items = append(request.Items, new(v1.Produce))
	}
	return request
}

// encodingCalls are made from the top: every method at least once with success, and
// each kind of refusal.
var encodingCalls = []encodingCall{
	{name: "create a queue", method: "queues.create", reply: new(v1.Reply), status: 200, request: with(&v1.QueueInfo{
		QueueName: "q", LeaseTimeout: "1m30s", ExpireTimeout: "100h", MaxAttempts: 7, MaxRecoveries: 2, KeepEnded: "1h", Reference: new("mine"),
	})},
	{name: "create it again", method: "queues.create", reply: new(v1.Reply), status: 409, request: with(&v1.QueueInfo{QueueName: "q", MaxAttempts: 1})},
	{name: "a name of the system", method: "queues.create", reply: new(v1.Reply), status: 400, request: with(&v1.QueueInfo{QueueName: "a~b"})},
	{name: "no name", method: "queues.create", reply: new(v1.Reply), status: 400, request: with(new(v1.QueueInfo))},

	{name: "produce", method: "queue.produce", reply: new(v1.ProduceReply), status: 200, request: with(producedItems()), then: func(s *speaker, m proto.Message) {
		for _, it := range m.(*v1.ProduceReply).GetItems() {
			s.ids = append(s.ids, it.GetItemId())
		}
	}},
	{name: "produce it again", method: "queue.produce", reply: new(v1.ProduceReply), status: 200, reads: true, request: with(&v1.ProduceRequest{QueueName: "q", Items: producedItems().Items[:1]})},
	{name: "another item of that key", method: "queue.produce", reply: new(v1.ProduceReply), status: 409, request: with(&v1.ProduceRequest{QueueName: "q", Items: []*v1.Produce{{IdempotencyKey: "k-1"}}})},
	{name: "no such queue", method: "queue.produce", reply: new(v1.ProduceReply), status: 404, request: with(&v1.ProduceRequest{QueueName: "none", Items: []*v1.Produce{{}}})},
	{name: "no items", method: "queue.produce", reply: new(v1.ProduceReply), status: 400, request: with(&v1.ProduceRequest{QueueName: "q"})},
	{name: "too many items", method: "queue.produce", reply: new(v1.ProduceReply), status: 413, request: with(oneTooMany())},
	{name: "a delay that is none", method: "queue.produce", reply: new(v1.ProduceReply), status: 400, request: with(&v1.ProduceRequest{QueueName: "q", Items: []*v1.Produce{{}, {Delay: "soon"}}})},
	{name: "a kind with a NUL", method: "queue.produce", reply: new(v1.ProduceReply), status: 400, request: with(&v1.ProduceRequest{QueueName: "q", Items: []*v1.Produce{{Kind: "a\x00"}}})},
	{name: "a timeout that is none", method: "queue.produce", reply: new(v1.ProduceReply), status: 400, request: with(&v1.ProduceRequest{QueueName: "q", RequestTimeout: "1", Items: []*v1.Produce{{}}})},
	{name: "a header that is reserved", method: "queue.produce", reply: new(v1.ProduceReply), status: 400, request: with(&v1.ProduceRequest{QueueName: "q", Items: []*v1.Produce{{Headers: map[string]string{"Host": "x"}}}})},

	{name: "count", method: "queue.stats", reply: new(v1.StatsReply), status: 200, reads: true, request: with(&v1.StatsRequest{QueueName: "q"})},
	{name: "list", method: "storage/items.list", reply: new(v1.ItemsListReply), status: 200, reads: true, request: with(&v1.ItemsListRequest{QueueName: "q"})},
	{name: "list a page", method: "storage/items.list", reply: new(v1.ItemsListReply), status: 200, request: with(&v1.ItemsListRequest{QueueName: "q", Limit: 1})},
	{name: "list too much", method: "storage/items.list", reply: new(v1.ItemsListReply), status: 400, request: with(&v1.ItemsListRequest{QueueName: "q", Limit: -1})},
	{name: "list what is scheduled", method: "storage/scheduled.list", reply: new(v1.ItemsListReply), status: 200, reads: true, request: with(&v1.ItemsListRequest{QueueName: "q"})},

	{name: "lease", method: "queue.lease", reply: new(v1.LeaseReply), status: 200, request: with(&v1.LeaseRequest{QueueName: "q", BatchSize: 3, ClientId: "c", RequestTimeout: "10s", LeaseTimeout: "10m"}), then: keepReceipts},
	{name: "lease text", method: "queue.lease", reply: new(v1.LeaseReply), status: 200, request: with(&v1.LeaseRequest{QueueName: "q", BatchSize: 2, MaxBytes: 1e6, Text: true}), then: keepReceipts},
	{name: "lease too many", method: "queue.lease", reply: new(v1.LeaseReply), status: 400, request: with(&v1.LeaseRequest{QueueName: "q", BatchSize: -1})},
	{name: "lease half a byte", method: "queue.lease", reply: new(v1.LeaseReply), status: 400, request: with(&v1.LeaseRequest{QueueName: "q", MaxBytes: 1.5})},
	{name: "extend", method: "queue.extend", reply: new(v1.SettleReply), status: 200, request: func(s *speaker) proto.Message {
		return &v1.ExtendRequest{QueueName: "q", Partition: new(int32), Receipts: s.receipts[:2], LeaseTimeout: "20m"}
	}},
	{name: "extend another partition's", method: "queue.extend", reply: new(v1.SettleReply), status: 400, request: func(s *speaker) proto.Message {
		return &v1.ExtendRequest{Partition: new(int32(1)), Receipts: s.receipts[:1]}
	}},
	{name: "retry", method: "queue.retry", reply: new(v1.SettleReply), status: 200, request: func(s *speaker) proto.Message {
		return &v1.RetryRequest{Items: []*v1.Retry{{Id: s.receipts[0], Delay: "1h", Reason: "not now"}}}
	}},
	{name: "release", method: "queue.release", reply: new(v1.SettleReply), status: 200, request: func(s *speaker) proto.Message {
		return &v1.ReleaseRequest{Receipts: s.receipts[1:2], Delay: "1h"}
	}},
	{name: "bury", method: "queue.bury", reply: new(v1.SettleReply), status: 200, request: func(s *speaker) proto.Message {
		return &v1.BuryRequest{Receipts: s.receipts[2:3], Reason: "no such customer"}
	}},
	{name: "complete with a result", method: "queue.complete", reply: new(v1.SettleReply), status: 200, request: func(s *speaker) proto.Message {
		return &v1.CompleteRequest{Items: []*v1.Complete{{Receipt: s.receipts[3], Result: []byte("done \xff")}}}
	}},
	{name: "complete some that are", method: "queue.complete", reply: new(v1.SettleReply), status: 409, request: func(s *speaker) proto.Message {
		return &v1.CompleteRequest{Receipts: []string{s.receipts[4], s.receipts[3], s.receipts[2]}}
	}},
	{name: "complete nonsense", method: "queue.complete", reply: new(v1.SettleReply), status: 400, request: with(&v1.CompleteRequest{Ids: []string{"nonsense"}})},
	{name: "look at the dead", method: "storage/items.list", reply: new(v1.ItemsListReply), status: 200, reads: true, request: with(&v1.ItemsListRequest{QueueName: "q~dead"})},

	{name: "where an item is", method: "items.info", reply: new(v1.ItemsInfoReply), status: 200, reads: true, request: func(s *speaker) proto.Message {
		return &v1.ItemsInfoRequest{ItemId: s.ids[0], QueueName: "q"}
	}},
	{name: "where nothing is", method: "items.info", reply: new(v1.ItemsInfoReply), status: 404, request: with(&v1.ItemsInfoRequest{ItemId: nobody})},
	{name: "wait for what has ended", method: "items.wait", reply: new(v1.ItemsInfoReply), status: 200, reads: true, request: func(s *speaker) proto.Message {
		return &v1.ItemsWaitRequest{ItemId: s.ids[3], RequestTimeout: "10s"}
	}},
	{name: "create a queue for keys", method: "queues.create", reply: new(v1.Reply), status: 200, request: with(&v1.QueueInfo{QueueName: "keyed"})},
	{name: "produce by key", method: "queue.produce", reply: new(v1.ProduceReply), status: 200, request: with(&v1.ProduceRequest{
		QueueName: "keyed", Items: []*v1.Produce{{OrderingKey: "größe 7", Delay: "1h"}, {OrderingKey: "größe 7"}, {OrderingKey: "other"}},
	}), then: func(s *speaker, m proto.Message) {
		s.head = m.(*v1.ProduceReply).GetItems()[0].GetItemId()
	}},
	{name: "what keys wait for", method: "queue.keys", reply: new(v1.KeysReply), status: 200, reads: true, request: with(&v1.KeysRequest{QueueName: "keyed"})},
	{name: "a page of keys", method: "queue.keys", reply: new(v1.KeysReply), status: 200, reads: true, request: with(&v1.KeysRequest{QueueName: "keyed", Limit: 1})},
	{name: "count by key", method: "queue.stats", reply: new(v1.StatsReply), status: 200, reads: true, request: with(&v1.StatsRequest{QueueName: "keyed"})},
	{name: "unblock a key", method: "queue.unblock", reply: new(v1.Reply), status: 200, request: func(s *speaker) proto.Message {
		return &v1.UnblockRequest{QueueName: "keyed", ItemId: s.head, Skip: true}
	}},
	{name: "unblock it again", method: "queue.unblock", reply: new(v1.Reply), status: 404, request: func(s *speaker) proto.Message {
		return &v1.UnblockRequest{QueueName: "keyed", ItemId: s.head}
	}},

	{name: "cancel", method: "items.cancel", reply: new(v1.CountReply), status: 200, request: func(s *speaker) proto.Message {
		return &v1.ItemsCancelRequest{ItemIds: []string{s.ids[8], nobody}, QueueName: "q"}
	}},
	{name: "cancel by a filter", method: "items.cancel", reply: new(v1.CountReply), status: 200, request: with(&v1.ItemsCancelRequest{Filter: &v1.ItemsFilter{QueueName: "q", Kind: "other", State: "ready", Before: someday}})},
	{name: "cancel in a state that is none", method: "items.cancel", reply: new(v1.CountReply), status: 400, request: with(&v1.ItemsCancelRequest{Filter: &v1.ItemsFilter{QueueName: "q", State: "asleep"}})},

	{name: "read the log", method: "attempts.list", reply: new(v1.AttemptsListReply), status: 200, reads: true, request: with(&v1.AttemptsListRequest{QueueName: "q"})},
	{name: "read how items ended", method: "attempts.list", reply: new(v1.AttemptsListReply), status: 200, reads: true, request: with(&v1.AttemptsListRequest{
		QueueName: "q", Type: "ending", Verdict: "completed", To: someday, OldestFirst: true, Limit: 1,
	})},
	{name: "read of a type that is none", method: "attempts.list", reply: new(v1.AttemptsListReply), status: 400, request: with(&v1.AttemptsListRequest{Type: "push"})},
	{name: "read of no queue", method: "attempts.list", reply: new(v1.AttemptsListReply), status: 404, request: with(&v1.AttemptsListRequest{QueueName: "none"})},

	{name: "redrive at no rate", method: "queue.redrive", reply: new(v1.RedriveReply), status: 400, request: with(&v1.RedriveRequest{QueueName: "q~dead", Rate: new(v1.Rate)})},
	{name: "redrive, dry", method: "queue.redrive", reply: new(v1.RedriveReply), status: 200, reads: true, request: with(&v1.RedriveRequest{
		QueueName: "q~dead", Filter: &v1.RedriveFilter{Kind: "plain", From: "q", Before: someday}, Limit: 10, DryRun: true,
	})},
	{name: "redrive", method: "queue.redrive", reply: new(v1.RedriveReply), status: 200, request: with(&v1.RedriveRequest{
		QueueName: "q~dead", Target: "q", Rate: &v1.Rate{Count: 5, Period: "10s"},
	})},
	{name: "import", method: "storage/items.import", reply: new(v1.ItemsImportReply), status: 200, request: with(&v1.ItemsImportRequest{QueueName: "q", Items: []*v1.Item{
		{Id: "from-elsewhere", Attempts: 2, Kind: "k", Payload: []byte("\xff"), Headers: map[string]string{"X-A": "1"}, EnqueueAt: someday},
	}})},
	{name: "import without an id", method: "storage/items.import", reply: new(v1.ItemsImportReply), status: 400, request: with(&v1.ItemsImportRequest{QueueName: "q", Items: []*v1.Item{{}}})},
	{name: "delete items", method: "storage/items.delete", reply: new(v1.CountReply), status: 200, request: func(s *speaker) proto.Message {
		return &v1.ItemsDeleteRequest{QueueName: "q", Ids: s.ids[9:10]}
	}},
	{name: "clear", method: "queue.clear", reply: new(v1.CountReply), status: 200, request: with(&v1.ClearRequest{QueueName: "q", Scheduled: true, Queue: true, Destructive: true})},
	{name: "clear nothing", method: "queue.clear", reply: new(v1.CountReply), status: 400, request: with(&v1.ClearRequest{QueueName: "q"})},
	{name: "lease from an empty queue", method: "queue.lease", reply: new(v1.LeaseReply), status: 200, request: with(&v1.LeaseRequest{QueueName: "q", RequestTimeout: "10ms"})},

	{name: "pause", method: "queues.pause", reply: new(v1.Reply), status: 200, request: with(&v1.QueuesPauseRequest{QueueName: "q", What: "produce"})},
	{name: "produce to what is paused", method: "queue.produce", reply: new(v1.ProduceReply), status: 409, request: with(&v1.ProduceRequest{QueueName: "q", Items: []*v1.Produce{{}}})},
	{name: "settings of a paused queue", method: "queues.info", reply: new(v1.QueueInfo), status: 200, reads: true, request: with(&v1.QueuesInfoRequest{QueueName: "q"})},
	{name: "resume", method: "queues.resume", reply: new(v1.Reply), status: 200, request: with(&v1.QueuesPauseRequest{QueueName: "q"})},
	{name: "resume nonsense", method: "queues.resume", reply: new(v1.Reply), status: 400, request: with(&v1.QueuesPauseRequest{QueueName: "q", What: "sleep"})},
	{name: "reload", method: "queue.reload", reply: new(v1.Reply), status: 200, request: with(&v1.ReloadRequest{QueueName: "q"})},
	{name: "update", method: "queues.update", reply: new(v1.Reply), status: 200, request: with(&v1.QueueInfo{QueueName: "q", Reference: new(""), MaxAttempts: -1, LeaseTimeout: "1m"})},
	{name: "update an older one", method: "queues.update", reply: new(v1.Reply), status: 409, request: with(&v1.QueueInfo{QueueName: "q", Revision: "1"})},
	{name: "settings", method: "queues.info", reply: new(v1.QueueInfo), status: 200, reads: true, request: with(&v1.QueuesInfoRequest{QueueName: "q"})},
	{name: "list queues", method: "queues.list", reply: new(v1.QueuesListReply), status: 200, reads: true, request: with(&v1.QueuesListRequest{Limit: 1})},
	{name: "delete what is in use", method: "queues.delete", reply: new(v1.Reply), status: 409, request: with(&v1.QueuesDeleteRequest{QueueName: "q~dead"})},
	{name: "delete", method: "queues.delete", reply: new(v1.Reply), status: 200, request: with(&v1.QueuesDeleteRequest{QueueName: "q", Force: true})},

	{name: "subscribe", method: "subscriptions.create", reply: new(v1.Subscription), status: 200, request: with(&v1.Subscription{
		Name: "s", QueueName: "pushed", Url: "https://example.com/in?key=1", Method: "PUT", Headers: map[string]string{"X-Key": "secret", "Accept": "x/y"},
		Timeout: "10s", MaxInFlight: 3, Paused: true,
		Retry: &v1.RetryPolicy{MaxAttempts: 5, Schedule: []string{"1s", "1m"}, GiveUpAfter: "24h", BuryOn: []int32{400, 422}},
	})},
	{name: "subscribe another queue", method: "subscriptions.create", reply: new(v1.Subscription), status: 200, request: with(&v1.Subscription{
		Name: "t", QueueName: "grown", Url: "https://example.com/", Paused: true, Retry: &v1.RetryPolicy{MinBackoff: "2s", MaxBackoff: "1h", Multiplier: 1.5},
	})},
	{name: "subscribe for targets", method: "subscriptions.create", reply: new(v1.Subscription), status: 200, request: with(&v1.Subscription{
		Name: "u", QueueName: "targets", AllowTarget: new(true), Http2: new(true), Format: new("cloudevents"), Log: new("failures"), OnDone: new("grown"),
		Defer: new(true), DeferTimeout: "1h", MaxDeferred: 7, Rate: &v1.Rate{Count: 100, Period: "1m"}, Paused: true,
		Retry: &v1.RetryPolicy{DisableAfter: "48h"},
	})},
	{name: "produce with a target", method: "queue.produce", reply: new(v1.ProduceReply), status: 200, request: with(&v1.ProduceRequest{QueueName: "targets", Items: []*v1.Produce{
		{Target: &v1.Target{Url: "https://example.com/x?k=v", Method: "DELETE", Timeout: "5s"}, OnDone: "grown"}, {OnDone: "pushed"},
	}})},
	{name: "see targets", method: "storage/items.list", reply: new(v1.ItemsListReply), status: 200, reads: true, request: with(&v1.ItemsListRequest{QueueName: "targets"})},
	{name: "a target where none may be", method: "queue.produce", reply: new(v1.ProduceReply), status: 400, request: with(&v1.ProduceRequest{QueueName: "pushed", Items: []*v1.Produce{
		{Target: &v1.Target{Url: "https://example.com/x"}},
	}})},
	{name: "take the limit away", method: "subscriptions.update", reply: new(v1.Subscription), status: 200, request: with(&v1.Subscription{
		Name: "u", Rate: new(v1.Rate), Defer: new(false), OnDone: new(""),
	})},
	{name: "subscribe with credentials", method: "subscriptions.create", reply: new(v1.Subscription), status: 200, request: with(&v1.Subscription{
		Name: "v", QueueName: "batches", Url: "http://127.0.0.1:1/", Paused: true, Batch: &v1.Batch{MaxItems: 10, MaxWait: "100ms", Encoding: "multipart"},
		Auth: &v1.Auth{Oauth2: &v1.OAuth2{TokenUrl: "http://127.0.0.1:1/token?k=v", ClientId: "id", ClientSecret: "secret", Scopes: []string{"a", "b"}, Audience: "c"}},
	})},
	{name: "two ways to prove it", method: "subscriptions.update", reply: new(v1.Subscription), status: 400, request: with(&v1.Subscription{
		Name: "v", Auth: &v1.Auth{Bearer: "token", Basic: &v1.BasicAuth{Username: "u", Password: "p"}},
	})},
	{name: "other credentials", method: "subscriptions.update", reply: new(v1.Subscription), status: 200, request: with(&v1.Subscription{
		Name: "v", Auth: &v1.Auth{Basic: &v1.BasicAuth{Username: "u", Password: "p"}},
	})},
	{name: "sign with another secret", method: "subscriptions.rotate_secret", reply: new(v1.Subscription), status: 200, request: with(&v1.RotateSecretRequest{Name: "v", Overlap: "1h"})},
	{name: "sign with nonsense", method: "subscriptions.rotate_secret", reply: new(v1.Subscription), status: 400, request: with(&v1.RotateSecretRequest{Name: "v", Secret: "whsec_x"})},
	{name: "send a sample to nobody", method: "subscriptions.test", reply: new(v1.SubscriptionTestReply), status: 200, request: with(&v1.SubscriptionTestRequest{
		Name: "v", RequestTimeout: "10s", Item: &v1.Produce{Kind: "k", Bytes: []byte("\xff")},
	})},
	{name: "send a sample for no subscription", method: "subscriptions.test", reply: new(v1.SubscriptionTestReply), status: 404, request: with(&v1.SubscriptionTestRequest{Name: "none"})},

	{name: "subscribe without an address", method: "subscriptions.create", reply: new(v1.Subscription), status: 400, request: with(&v1.Subscription{Name: "s2", QueueName: "pushed2", Url: "http:///x"})},
	{name: "change a subscription", method: "subscriptions.update", reply: new(v1.Subscription), status: 200, request: with(&v1.Subscription{
		Name: "s", Timeout: "1m30s", Retry: &v1.RetryPolicy{BuryOn: []int32{410}},
	})},
	{name: "see a subscription", method: "subscriptions.info", reply: new(v1.Subscription), status: 200, reads: true, request: with(&v1.SubscriptionRequest{Name: "s"})},
	{name: "see none", method: "subscriptions.info", reply: new(v1.Subscription), status: 404, request: with(&v1.SubscriptionRequest{Name: "none"})},
	{name: "list subscriptions", method: "subscriptions.list", reply: new(v1.SubscriptionsListReply), status: 200, reads: true, request: with(new(v1.SubscriptionsListRequest))},
	{name: "list subscriptions from nowhere", method: "subscriptions.list", reply: new(v1.SubscriptionsListReply), status: 400, request: with(&v1.SubscriptionsListRequest{Cursor: strings.Repeat("-", 3)})},
	{name: "pause a subscription", method: "subscriptions.pause", reply: new(v1.Subscription), status: 200, request: with(&v1.SubscriptionRequest{Name: "s"})},
	{name: "resume a subscription", method: "subscriptions.resume", reply: new(v1.Subscription), status: 200, request: with(&v1.SubscriptionRequest{Name: "s"})},
	{name: "enable a subscription", method: "subscriptions.enable", reply: new(v1.Subscription), status: 200, request: with(&v1.SubscriptionRequest{Name: "s"})},
	{name: "unsubscribe", method: "subscriptions.delete", reply: new(v1.Reply), status: 200, request: with(&v1.SubscriptionRequest{Name: "s"})},

	{name: "schedule", method: "schedules.create", reply: new(v1.Schedule), status: 200, request: with(&v1.Schedule{
		Name: "nightly", Cron: "30 2 * * *", Zone: "Europe/Berlin", QueueName: "targets",
		Item: &v1.Produce{
			Kind: "k", Bytes: []byte("\xff"), Reference: "{{nominal_at}}", Headers: map[string]string{"X-Key": "secret", "Accept": "x/y"},
			MaxAttempts: 3, ExpireTimeout: "48h", Target: &v1.Target{Url: "https://example.com/x?k=v", Method: "PUT", Timeout: "5s"}, OnDone: "grown",
		},
		ClocksForward: new("skip"), ClocksBack: new("both"), Missed: &v1.Missed{Policy: "all", Max: 3, Grace: "1h30m"}, Overlap: new("queue_one"),
		Jitter: "1h", StartAt: timestamppb.New(someday.AsTime().AddDate(-1, 0, 0)), EndAt: someday, Paused: true, Labels: map[string]string{"team": "ops"},
	})},
	{name: "schedule with defaults", method: "schedules.create", reply: new(v1.Schedule), status: 200, request: with(&v1.Schedule{
		Name: "yearly", Cron: "@yearly", QueueName: "grown", Item: &v1.Produce{Utf8: "text <&> \u2029"},
	})},
	{name: "schedule it again", method: "schedules.create", reply: new(v1.Schedule), status: 409, request: with(&v1.Schedule{Name: "yearly", Cron: "@yearly", QueueName: "grown"})},
	{name: "schedule what never fires", method: "schedules.create", reply: new(v1.Schedule), status: 400, request: with(&v1.Schedule{Name: "never", Cron: "0 0 31 2 *", QueueName: "grown"})},
	{name: "schedule a delay", method: "schedules.create", reply: new(v1.Schedule), status: 400, request: with(&v1.Schedule{
		Name: "late", Cron: "@daily", QueueName: "grown", Item: &v1.Produce{Delay: "1h"},
	})},
	{name: "schedule for no queue", method: "schedules.create", reply: new(v1.Schedule), status: 404, request: with(&v1.Schedule{Name: "lost", Cron: "@daily", QueueName: "none"})},
	{name: "change a schedule", method: "schedules.update", reply: new(v1.Schedule), status: 200, request: with(&v1.Schedule{
		Name: "nightly", Cron: "0 30 2 * * 1-5", Missed: new(v1.Missed), Item: &v1.Produce{Utf8: "{{schedule}}", Headers: map[string]string{"X-Key": "[redacted]"}, Target: &v1.Target{Url: "https://example.com/y"}},
	})},
	{name: "change an older one", method: "schedules.update", reply: new(v1.Schedule), status: 409, request: with(&v1.Schedule{Name: "nightly", Revision: "1", Jitter: "0s"})},
	{name: "change a pause", method: "schedules.update", reply: new(v1.Schedule), status: 400, request: with(&v1.Schedule{Name: "yearly", Paused: true})},
	{name: "see a schedule", method: "schedules.info", reply: new(v1.Schedule), status: 200, reads: true, request: with(&v1.ScheduleRequest{Name: "nightly"})},
	{name: "see no schedule", method: "schedules.info", reply: new(v1.Schedule), status: 404, request: with(&v1.ScheduleRequest{Name: "none"})},
	{name: "list schedules", method: "schedules.list", reply: new(v1.SchedulesListReply), status: 200, reads: true, request: with(new(v1.SchedulesListRequest))},
	{name: "list a page of schedules", method: "schedules.list", reply: new(v1.SchedulesListReply), status: 200, reads: true, request: with(&v1.SchedulesListRequest{Limit: 1})},
	{name: "when it fires", method: "schedules.preview", reply: new(v1.PreviewReply), status: 200, reads: true, request: with(&v1.PreviewRequest{Name: "nightly", Count: 3})},
	{name: "when it would fire", method: "schedules.preview", reply: new(v1.PreviewReply), status: 200, reads: true, request: with(&v1.PreviewRequest{
		Cron: "30 2 * * *", Zone: "America/New_York", ClocksForward: "run_after", ClocksBack: "second", From: someday, Count: 300,
	})},
	{name: "when two fire", method: "schedules.preview", reply: new(v1.PreviewReply), status: 400, request: with(&v1.PreviewRequest{Name: "nightly", Cron: "@daily"})},
	{name: "when nothing fires", method: "schedules.preview", reply: new(v1.PreviewReply), status: 400, request: with(new(v1.PreviewRequest))},
	{name: "produce what is scheduled", method: "schedules.trigger", reply: new(v1.TriggerReply), status: 200, request: with(&v1.TriggerRequest{Name: "yearly", RequestTimeout: "30s"})},
	{name: "produce what is not", method: "schedules.trigger", reply: new(v1.TriggerReply), status: 404, request: with(&v1.TriggerRequest{Name: "none"})},
	{name: "pause a schedule", method: "schedules.pause", reply: new(v1.Schedule), status: 200, request: with(&v1.ScheduleRequest{Name: "yearly"})},
	{name: "resume a schedule", method: "schedules.resume", reply: new(v1.Schedule), status: 200, request: with(&v1.ScheduleRequest{Name: "yearly"})},
	{name: "delete a schedule", method: "schedules.delete", reply: new(v1.Reply), status: 200, request: with(&v1.ScheduleRequest{Name: "yearly"})},

	{name: "make a topic", method: "topics.create", reply: new(v1.Topic), status: 200, request: with(&v1.Topic{Topic: "events", Reference: new("who did what")})},
	{name: "make it again", method: "topics.create", reply: new(v1.Reply), status: 409, request: with(&v1.Topic{Topic: "events"})},
	{name: "produce where nobody listens", method: "queue.produce", reply: new(v1.ProduceReply), status: 200, request: with(&v1.ProduceRequest{QueueName: "events", Items: []*v1.Produce{{}}})},
	{name: "lease from a topic", method: "queue.lease", reply: new(v1.Reply), status: 400, request: with(&v1.LeaseRequest{QueueName: "events"})},
	{name: "change a topic", method: "topics.update", reply: new(v1.Topic), status: 200, request: with(&v1.Topic{Topic: "events", Reference: new("all of it")})},
	{name: "show a topic", method: "topics.info", reply: new(v1.Topic), status: 200, request: with(&v1.TopicsInfoRequest{Topic: "events"})},
	{name: "list topics", method: "topics.list", reply: new(v1.TopicsListReply), status: 200, request: with(&v1.TopicsListRequest{Limit: 10})},
	{name: "delete a topic", method: "topics.delete", reply: new(v1.Reply), status: 200, request: with(&v1.TopicsDeleteRequest{Topic: "events"})},

	{name: "a method of a later release", method: "namespaces.create", reply: new(v1.Reply), status: http.StatusBadRequest, request: with(new(v1.Reply))},
	{name: "a method that there is not", method: "queue.guess", reply: new(v1.Reply), status: http.StatusNotFound, request: with(new(v1.Reply))},
	{name: "a query", method: "queue.stats?a=b", reply: new(v1.Reply), status: http.StatusBadRequest, request: with(new(v1.Reply))},
}

func keepReceipts(s *speaker, m proto.Message) {
	for _, it := range m.(*v1.LeaseReply).GetItems() {
		s.receipts = append(s.receipts, it.GetReceipt())
	}
}
