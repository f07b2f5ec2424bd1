package api_test

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
)

// keep imports everything.
func keep(to *queue.ImportCall) func(queue.ImportCall) ([]queue.Item, error) {
	return func(call queue.ImportCall) ([]queue.Item, error) {
		*to = call
		kept := make([]queue.Item, len(call.Items))
		for i, it := range call.Items {
			kept[i] = queue.Item{
				Key: queue.Key{ID: queue.NewID()}, Content: it.Content, AvailableAt: it.DueAt, ExpiresAt: it.ExpiresAt,
				Attempts: it.Attempts, MaxAttempts: it.MaxAttempts,
			}
		}
		return kept, nil
	}
}

func TestImport_KeepsAttemptsAndDeadlines(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var got queue.ImportCall
	e.broker.imports = keep(&got)
	due, expire := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC), time.Date(2031, 1, 31, 8, 0, 0, 0, time.UTC)
	a := e.call("storage/items.import", `{"queue_name":"orders","items":[
		{"id":"old-1","kind":"k","encoding":"e","reference":"r","headers":{"A":"1"},"payload":"AP8=","attempts":3,"max_attempts":9,
			"enqueue_at":"2030-01-31T08:00:00Z","expire_deadline":"2031-01-31T08:00:00Z","dead_deadline":"2031-01-31T08:00:00Z"},
		{"id":"old-2","is_leased":true,"lease_deadline":"2030-01-31T08:00:00Z","enqueue_at":"2020-01-01T00:00:00Z","dead_deadline":"2031-01-31T08:00:00Z"},
		{"id":"old-3"}]}`)
	want := queue.ImportCall{Namespace: queue.DefaultNamespace, Queue: "orders", Items: []queue.ImportItem{
		{
			Content: queue.Content{SourceID: "old-1", Kind: "k", Encoding: "e", Reference: "r", Headers: map[string]string{"A": "1"}, Payload: []byte{0, 0xff}},
			DueAt:   due, ExpiresAt: expire, Attempts: 3, MaxAttempts: 9,
		},
		{Content: queue.Content{SourceID: "old-2"}, DueAt: due, ExpiresAt: expire, DueField: "lease_deadline", ExpireField: "dead_deadline"},
		{Content: queue.Content{SourceID: "old-3"}},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	a.is("old-1", "items", 0, "source_id")
	a.is("scheduled", "items", 0, "state")
	a.is(3.0, "items", 0, "attempts")
	a.is("2030-01-31T08:00:00Z", "items", 0, "enqueue_at")
	a.is("2031-01-31T08:00:00Z", "items", 1, "expire_deadline")
	if id, _ := a.get("items", 2, "id").(string); id == "" || id == "old-3" {
		t.Errorf("got id %q, want one of this server", id)
	}
}

func TestImport_TakesWhatAListAnswered(t *testing.T) {
	t.Parallel()
	e := setup(t)
	leased := leasedItem("\x00")
	e.broker.items = func(queue.ItemsQuery) (queue.ListPage, error) {
		return queue.ListPage{Now: time.Unix(1_800_000_000, 0), Items: []queue.Item{
			leased,
			{Key: leased.Key, Dead: &queue.Dead{Reason: "poison", At: time.Unix(1_800_000_000, 0)}, Recoveries: 3},
		}}, nil
	}
	listed, err := json.Marshal(e.call("storage/items.list", `{"queue_name":"orders"}`).get("items"))
	if err != nil {
		t.Fatal(err)
	}
	var got queue.ImportCall
	e.broker.imports = keep(&got)
	e.call("storage/items.import", `{"queue_name":"other","items":`+string(listed)+`}`)
	if len(got.Items) != 2 || got.Items[0].SourceID != leased.ID.String() || !got.Items[0].DueAt.Equal(leased.AvailableAt) {
		t.Errorf("got %+v, want both items, the leased one due at its deadline", got)
	}
}

func TestImport_NamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	e := setup(t, func(o *api.Options) { o.Limits.Items = 2 })
	var got queue.ImportCall
	e.broker.imports = keep(&got)
	for item, want := range map[string][2]string{
		`{"id":"x","is_leased":true}`:                                                                {"lease_deadline", "missing"},
		`{"id":"x","lease_deadline":"2030-01-31T08:00:00Z"}`:                                         {"lease_deadline", "is_leased"},
		`{"id":"x","expire_deadline":"2030-01-31T08:00:00Z","dead_deadline":"2030-01-31T08:00:01Z"}`: {"dead_deadline", "same instant"},
		`{"id":"x","headers":{"Host":"a"}}`:                                                          {"headers", "reserved"},
		`{"id":"x","target":{"url":"u","timeout":"1"}}`:                                              {"target.timeout", "not a duration"},
		`{"id":"x","on_done":"a/b"}`:                                                                 {"on_done", "want only"},
	} {
		e.call("storage/items.import", `{"queue_name":"q","items":[{"id":"fine"},`+item+`]}`).invalid("items[1]."+want[0], want[1])
	}
	e.call("storage/items.import", `{"queue_name":"q"}`).invalid("items", "want 1 to 2")
	e.call("storage/items.import", `{"queue_name":"q","items":[{},{},{}]}`).want(413, "too_large")
	if got.Items != nil {
		t.Errorf("imported all the same: %+v", got)
	}
	e.call("storage/items.import", `{"queue_name":"q","partition":7,"items":[{"id":"x"}]}`)
	if got.Partition != 7 {
		t.Errorf("got %+v, want partition 7", got)
	}
}

// What is refused with "nothing was done" must not have been.
func TestC16_AnImportWhoseAnswerHasNoRoomIsNotDone(t *testing.T) {
	t.Parallel()
	e := setup(t, func(o *api.Options) { o.Limits.Answers = 4 << 10 })
	var got queue.ImportCall
	e.broker.imports = keep(&got)
	large := base64.StdEncoding.EncodeToString(make([]byte, 4<<10))
	e.call("storage/items.import", `{"queue_name":"q","items":[{"id":"a","payload":"`+large+`"}]}`).want(429, "overloaded")
	if got.Items != nil {
		t.Error("imported all the same")
	}
	if a := e.call("storage/items.import", `{"queue_name":"q","items":[{"id":"a"}]}`); a.status != 200 {
		t.Errorf("a small one: got %s", a.raw)
	}
}
