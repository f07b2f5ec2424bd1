package api_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func TestQueues_CreateHandsOnWhatWasGiven(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var got queue.Settings
	e.broker.createQueue = func(s queue.Settings) (queue.Settings, error) {
		got = s
		return s, nil
	}
	e.call("queues.create", `{"queue_name":"orders","dead_queue":"d","reference":"r","lease_timeout":"90s","expire_timeout":"24h",
		"max_attempts":-1,"requested_partitions":12,"max_recoveries":5,"keep_ended":"2h"}`).want(200, "ok")
	want := queue.Settings{
		Namespace: queue.DefaultNamespace, Name: "orders", DeadQueue: "d", Reference: "r",
		LeaseTTL: 90 * time.Second, ExpireTTL: 24 * time.Hour, MaxAttempts: -1, Partitions: 12, MaxRecoveries: 5,
		KeepEnded: 2 * time.Hour,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	e.call("queues.create", `{"queue_name":"orders","pause":"both"}`).invalid("pause", "queues.pause")
	e.call("queues.create", `{"queue_name":"orders"}`).want(200, "ok")
	if want := (queue.Settings{Namespace: queue.DefaultNamespace, Name: "orders"}); got != want {
		t.Errorf("only a name: got %+v, want %+v", got, want)
	}
}

func TestQueues_NameTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for _, m := range []string{"queues.create", "queues.update"} {
		e.call(m, `{"queue_name":"q","lease_timeout":"0s"}`).invalid("lease_timeout", "want 1ms to 168h")
		e.call(m, `{"queue_name":"q","expire_timeout":"never"}`).invalid("expire_timeout", "not a duration")
		e.call(m, `{"queue_name":"q","keep_ended":"-1s"}`).invalid("keep_ended", "at least 0s")
		e.call(m, `{"queue_name":"q","requested_partitions":-1}`).invalid("requested_partitions", "want 1 to 64")
		e.call(m, `{"queue_name":"q","requested_partitions":65}`).invalid("requested_partitions", "want 1 to 64")
		for _, field := range []string{"namespace", "retry", "storage", "quotas"} {
			e.call(m, `{"queue_name":"q","`+field+`":1}`).want(400, "not_supported")
		}
	}
	e.call("queues.create", `{"queue_name":"q","revision":"1"}`).invalid("revision", "for updates")
	for _, r := range []string{"x", "0", "01", "-1", "99999999999999999999"} {
		e.call("queues.update", `{"queue_name":"q","revision":"`+r+`"}`).invalid("revision", "gave out")
	}
	e.call("queues.list", `{"namespace":"n"}`).want(400, "not_supported")
	e.call("queues.list", `{"pivot":"a/b"}`).invalid("pivot", "want only")
	e.call("queues.list", `{"cursor":"a/b"}`).invalid("cursor", "want only")
}

func TestQueues_UpdateChangesWhatIsSetAndNoOther(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var got queue.SettingsUpdate
	e.broker.updateQueue = func(u queue.SettingsUpdate) (queue.Settings, error) {
		got = u
		return queue.Settings{}, nil
	}
	update := func(u queue.SettingsUpdate) queue.SettingsUpdate {
		u.Namespace, u.Name = queue.DefaultNamespace, "q"
		return u
	}
	for body, want := range map[string]queue.SettingsUpdate{
		`"lease_timeout":"","expire_timeout":"","keep_ended":"","pause":"both","max_attempts":0,"requested_partitions":0`: {},
		`"lease_timeout":"5s"`:              {LeaseTTL: new(5 * time.Second)},
		`"expire_timeout":"0s"`:             {ExpireTTL: new(time.Duration(0))},
		`"keep_ended":"1h"`:                 {KeepEnded: new(time.Hour)},
		`"keep_ended":"0s"`:                 {KeepEnded: new(time.Duration(0))},
		`"max_attempts":3`:                  {MaxAttempts: new(int32(3))},
		`"requested_partitions":3`:          {Partitions: new(int32(3))},
		`"max_recoveries":3`:                {MaxRecoveries: new(int32(3))},
		`"reference":""`:                    {Reference: new("")},
		`"dead_queue":""`:                   {DeadQueue: new("")},
		`"revision":"18446744073709551615"`: {Revision: 1<<64 - 1},
	} {
		e.call("queues.update", `{"queue_name":"q",`+body+`}`).want(200, "ok")
		if !reflect.DeepEqual(got, update(want)) {
			t.Errorf("%s: got %+v, want %+v", body, got, want)
		}
	}
}

func TestQueues_WhatInfoAnswersCanBeSentBack(t *testing.T) {
	t.Parallel()
	e := setup(t)
	at := time.Unix(1_800_000_000, 0)
	e.broker.queue = func(name string) (queue.Settings, uint64, error) {
		return queue.Settings{
			Name: name, Reference: "r", LeaseTTL: 1500 * time.Millisecond, ExpireTTL: time.Hour, MaxAttempts: 25,
			MaxRecoveries: 3, Partitions: 1, DeadQueue: "d", CreatedAt: at, UpdatedAt: at,
			Paused: queue.PausedProduce, KeepEnded: 90 * time.Minute,
		}, 7, nil
	}
	a := e.call("queues.info", `{"queue_name":"q"}`)
	want := `{"queue_name":"q","created_at":"2027-01-15T08:00:00Z","updated_at":"2027-01-15T08:00:00Z","dead_queue":"d","reference":"r",` +
		`"lease_timeout":"1.5s","expire_timeout":"3600s","max_attempts":25,"requested_partitions":1,"partitions":[{"partition":0}],"max_recoveries":3,"revision":"7","pause":"produce","keep_ended":"5400s"}`
	if a.raw != want {
		t.Errorf("got  %s\nwant %s", a.raw, want)
	}
	e.broker.updateQueue = func(u queue.SettingsUpdate) (queue.Settings, error) {
		if u.Revision != 7 || *u.KeepEnded != 90*time.Minute || *u.LeaseTTL != 1500*time.Millisecond {
			t.Errorf("got %+v", u)
		}
		return queue.Settings{}, nil
	}
	e.call("queues.update", a.raw).want(200, "ok")
}

func TestQueues_InfoAndListTellOfReadOnlyPartitions(t *testing.T) {
	t.Parallel()
	e := setup(t)
	settings := queue.Settings{Number: 9, Name: "q", Partitions: 2, Extent: 6}
	e.broker.queue = func(string) (queue.Settings, uint64, error) { return settings, 7, nil }
	e.broker.queues = func(string, int) ([]queue.Versioned[queue.Settings], error) {
		return []queue.Versioned[queue.Settings]{{Name: "q", Value: settings}}, nil
	}
	e.broker.draining = func(queues []queue.Settings) map[queue.Number][]queue.Stats {
		if len(queues) != 1 || queues[0] != settings {
			t.Errorf("asked for %+v", queues)
		}
		return map[queue.Number][]queue.Stats{9: {{Queue: 9, Partition: 4, Total: 3}}}
	}
	want := `"requested_partitions":2,"partitions":[{"partition":0},{"partition":1},{"partition":4,"read_only":true,"total":3}]`
	for _, a := range []string{e.call("queues.info", `{"queue_name":"q"}`).raw, e.call("queues.list", `{}`).raw} {
		if !strings.Contains(a, want) {
			t.Errorf("got %s\nwant %s in it", a, want)
		}
	}
}

func TestI08_QueuesListGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var all []queue.Versioned[queue.Settings]
	for i, name := range []string{"a", "b", "c"} {
		all = append(all, queue.Versioned[queue.Settings]{Name: name, Revision: uint64(i + 1), Value: queue.Settings{Name: name}})
	}
	e.broker.queues = func(pivot string, limit int) ([]queue.Versioned[queue.Settings], error) {
		for len(all) > 0 && all[0].Name < pivot {
			all = all[1:]
		}
		return all[:min(limit, len(all))], nil
	}
	a := e.call("queues.list", `{"limit":2}`)
	a.is("a", "items", 0, "queue_name")
	a.is("b", "items", 1, "queue_name")
	a.is("2", "items", 1, "revision")
	a.is("c", "cursor")
	a = e.call("queues.list", `{"limit":2,"cursor":"c","pivot":"a"}`)
	a.is("c", "items", 0, "queue_name")
	a.is(nil, "cursor")
}

func TestQueues_PauseAndResumeNameASide(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var paused, resumed queue.Paused
	e.broker.pause = func(name string, what queue.Paused) error {
		paused = what
		return nil
	}
	e.broker.resume = func(name string, what queue.Paused) error {
		resumed = what
		return nil
	}
	for body, want := range map[string]queue.Paused{
		``: queue.PausedBoth, `,"what":""`: queue.PausedBoth, `,"what":"both"`: queue.PausedBoth,
		`,"what":"lease"`: queue.PausedLease, `,"what":"produce"`: queue.PausedProduce,
	} {
		e.call("queues.pause", `{"queue_name":"q"`+body+`}`).want(200, "ok")
		e.call("queues.resume", `{"queue_name":"q"`+body+`}`).want(200, "ok")
		if paused != want || resumed != want {
			t.Errorf("%s: paused %d and resumed %d, want %d", body, paused, resumed, want)
		}
	}
	for _, m := range []string{"queues.pause", "queues.resume"} {
		e.call(m, `{"queue_name":"q","what":"push"}`).invalid("what", "none of lease, produce and both")
	}
	for side, word := range map[queue.Paused]any{0: "", queue.PausedLease: "lease", queue.PausedProduce: "produce", queue.PausedBoth: "both"} {
		e.broker.queue = func(name string) (queue.Settings, uint64, error) { return queue.Settings{Paused: side}, 1, nil }
		if got := e.call("queues.info", `{"queue_name":"q"}`).get("pause"); got != word && (word != "" || got != nil) {
			t.Errorf("side %d: info shows %v, want %v", side, got, word)
		}
	}
}

func TestQueues_ReloadIsHandedOn(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.reload = func(name string) error {
		if name != "orders" {
			return queue.ErrNotFound
		}
		return nil
	}
	e.call("queue.reload", `{"queue_name":"orders"}`).want(200, "ok")
	e.call("queue.reload", `{"queue_name":"other"}`).want(404, "not_found")
}

func TestQueues_DeleteSaysWhetherByForce(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.deleteQueue = func(name string, force bool) error {
		if name != "orders~dead" || !force {
			return queue.ErrNotEmpty
		}
		return nil
	}
	e.call("queues.delete", `{"queue_name":"orders~dead"}`).want(409, "not_empty")
	e.call("queues.delete", `{"queue_name":"orders~dead","force":true}`).want(200, "ok")
}

func TestStats_CountsAndAges(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.stats = func(string) (queue.QueueStats, error) {
		return queue.QueueStats{
			ProduceWaiting: 1, LeaseWaiting: 2, SettleWaiting: 3, InFlight: 4,
			Stats: []queue.Stats{{Total: 10, Held: 5, Scheduled: 10_000, Capped: true, Behind: 7, Failing: 6, MeanAge: 90 * time.Second, MeanHeldAge: 1234567 * time.Microsecond}},
		}, nil
	}
	a := e.call("queue.stats", `{"queue_name":"q"}`)
	want := `{"queue_name":"q","logical_queues":[{"produce_waiting":1,"lease_waiting":2,"complete_waiting":3,"in_flight":4,"partitions":[` +
		`{"partition":0,"total":10,"total_leased":5,"failures":6,"average_age":"90s","average_leased_age":"1.235s","scheduled":10000,"capped":true,"behind":7}]}]}`
	if a.raw != want {
		t.Errorf("got  %s\nwant %s", a.raw, want)
	}
}

func TestStorage_ListsItemsWithTheirState(t *testing.T) {
	t.Parallel()
	e := setup(t)
	now := time.Unix(1_900_000_000, 0)
	var got queue.ItemsQuery
	leased := leasedItem("\x00")
	leased.AvailableAt = now.Add(time.Second)
	e.broker.items = func(q queue.ItemsQuery) (queue.ListPage, error) {
		got = q
		if q.Cursor != "" {
			return queue.ListPage{Now: now}, nil
		}
		return queue.ListPage{Now: now, Next: "next", Items: []queue.Item{
			leased,
			{AvailableAt: now.Add(time.Second), ExpiresAt: now.Add(time.Hour)},
			{AvailableAt: now, Dead: &queue.Dead{From: queue.NewNumber(queue.DefaultNamespace, 7), Reason: "max_attempts", Status: 500, Attempts: 12, At: now}},
		}}, nil
	}
	a := e.call("storage/items.list", `{"queue_name":"q","limit":3,"pivot":"`+leased.ID.String()+`"}`)
	cursor, _ := a.get("cursor").(string)
	if !strings.HasSuffix(cursor, "next") {
		t.Errorf("got cursor %q, want the store's in it", cursor)
	}
	a.is("leased", "items", 0, "state")
	a.is(true, "items", 0, "is_leased")
	a.is("2030-03-17T17:46:41Z", "items", 0, "lease_deadline")
	a.is("AA==", "items", 0, "payload")
	a.is(3.0, "items", 0, "deliveries")
	a.is("scheduled", "items", 1, "state")
	a.is("2030-03-17T17:46:41Z", "items", 1, "enqueue_at")
	a.is("2030-03-17T18:46:40Z", "items", 1, "expire_deadline")
	a.is("ready", "items", 2, "state")
	a.is("seven", "items", 2, "dead", "queue")
	a.is("max_attempts", "items", 2, "dead", "reason")
	a.is(500.0, "items", 2, "dead", "last_status")
	if want := (queue.ItemsQuery{Namespace: queue.DefaultNamespace, Queue: "q", From: leased.ID, Limit: 3}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	e.call("storage/scheduled.list", `{"queue_name":"q","cursor":"`+cursor+`","pivot":"nonsense"}`)
	want := queue.ItemsQuery{Namespace: queue.DefaultNamespace, Queue: "q", Cursor: "next", Limit: 50, States: []queue.State{queue.Scheduled, queue.Retrying}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, foreign := range []string{`{"queue_name":"other","cursor":"` + cursor + `"}`, `{"queue_name":"q","cursor":"next"}`} {
		e.call("storage/items.list", foreign).invalid("cursor", "by this list")
	}
	e.call("storage/items.list", `{"queue_name":"q","pivot":"nonsense"}`).invalid("pivot", "not an item id")
	e.call("storage/items.list", `{"queue_name":"q","partition":1,"cursor":"`+cursor+`"}`).invalid("cursor", "by this list")
	e.call("storage/items.list", `{"queue_name":"q","partition":7}`)
	if got.Partition != 7 {
		t.Errorf("got %+v, want partition 7", got)
	}
}

func TestC16_AListOfLargeItemsEndsEarly(t *testing.T) {
	t.Parallel()
	e := setup(t)
	payload := make([]byte, 100_000)
	left := 60
	e.broker.items = func(q queue.ItemsQuery) (queue.ListPage, error) {
		page := queue.ListPage{Next: "more"}
		for range min(q.Limit, left) {
			page.Items = append(page.Items, queue.Item{Content: queue.Content{Payload: payload}})
		}
		if left -= len(page.Items); left == 0 {
			page.Next = ""
		}
		return page, nil
	}
	seen := 0
	for cursor := ""; ; {
		a := e.call("storage/items.list", `{"queue_name":"q","cursor":"`+cursor+`"}`)
		if len(a.raw) > 8_000_000 {
			t.Fatalf("an answer of %d bytes", len(a.raw))
		}
		seen += len(a.get("items").([]any))
		if cursor, _ = a.get("cursor").(string); cursor == "" {
			break
		}
	}
	if seen != 60 {
		t.Errorf("saw %d items, want all 60", seen)
	}
}
