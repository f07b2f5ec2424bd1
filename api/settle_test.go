package api_test

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// settleAll applies every settlement.
func settleAll(to *queue.SettleCall) func(queue.SettleCall) ([]queue.Settled, error) {
	return func(c queue.SettleCall) ([]queue.Settled, error) {
		*to = c
		settled := make([]queue.Settled, len(c.Entries))
		for i := range settled {
			settled[i] = queue.Settled{Status: queue.Applied, AvailableAt: time.Unix(1_900_000_000, 0)}
		}
		return settled, nil
	}
}

func TestSettle_EveryVerbHandsItsReceiptsOn(t *testing.T) {
	t.Parallel()
	one, two := receipt(1), receipt(2)
	at := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	cases := []struct {
		method, body string
		want         []queue.SettleEntry
	}{
		{"queue.complete", `"ids":["%s","%s"]`, []queue.SettleEntry{{Receipt: one, Outcome: queue.Complete}, {Receipt: two, Outcome: queue.Complete}}},
		{"queue.complete", `"receipts":["%s","%s"]`, []queue.SettleEntry{{Receipt: one, Outcome: queue.Complete}, {Receipt: two, Outcome: queue.Complete}}},
		{"queue.complete", `"items":[{"receipt":"%s"},{"receipt":"%s"}]`, []queue.SettleEntry{{Receipt: one, Outcome: queue.Complete}, {Receipt: two, Outcome: queue.Complete}}},
		{"queue.complete", `"items":[{"receipt":"%s","result":"b2s="},{"receipt":"%s"}]`, []queue.SettleEntry{{Receipt: one, Outcome: queue.Complete, Result: []byte("ok")}, {Receipt: two, Outcome: queue.Complete}}},
		{"queue.release", `"receipts":["%s","%s"],"delay":"5s"`, []queue.SettleEntry{{Receipt: one, Outcome: queue.Release, Delay: 5 * time.Second}, {Receipt: two, Outcome: queue.Release, Delay: 5 * time.Second}}},
		{"queue.bury", `"receipts":["%s","%s"],"reason":"bad"`, []queue.SettleEntry{{Receipt: one, Outcome: queue.Bury, Reason: "bad"}, {Receipt: two, Outcome: queue.Bury, Reason: "bad"}}},
		{"queue.retry", `"items":[{"id":"%s","delay":"5s","reason":"busy"},{"id":"%s","dead":true,"reason":"bad"}]`, []queue.SettleEntry{
			{Receipt: one, Outcome: queue.Retry, Delay: 5 * time.Second, Last: queue.Last{Error: "busy"}},
			{Receipt: two, Outcome: queue.Bury, Reason: "bad"},
		}},
		{"queue.retry", `"items":[{"id":"%s","retry_at":"2030-01-31T08:00:00Z"},{"id":"%s"}]`, []queue.SettleEntry{
			{Receipt: one, Outcome: queue.Retry, DueAt: at}, {Receipt: two, Outcome: queue.Retry},
		}},
	}
	for _, c := range cases {
		t.Run(c.method, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			var got queue.SettleCall
			e.broker.settle = settleAll(&got)
			body := fmt.Sprintf(c.body, one, two)
			a := e.call(c.method, `{"queue_name":"orders","partition":0,`+body+`}`).want(200, "ok")
			a.is("ok", "results", 0, "status")
			a.is("ok", "results", 1, "status")
			if got.Queue != "orders" || got.Namespace != queue.DefaultNamespace || got.Partition == nil || *got.Partition != 0 {
				t.Errorf("got %+v, want queue orders, partition 0", got)
			}
			if !reflect.DeepEqual(got.Entries, c.want) {
				t.Errorf("got  %+v\nwant %+v", got.Entries, c.want)
			}
			e.call(c.method, `{`+body+`}`).want(200, "ok")
			if got.Queue != "" || got.Partition != nil {
				t.Errorf("neither queue nor partition given, got %q and %v", got.Queue, got.Partition)
			}
		})
	}
}

func TestSettle_TellsWhatBecameOfItems(t *testing.T) {
	t.Parallel()
	e := setup(t)
	at := time.Unix(1_900_000_000, 0)
	e.broker.settle = func(queue.SettleCall) ([]queue.Settled, error) {
		return []queue.Settled{{Status: queue.Applied, AvailableAt: at}, {Status: queue.Applied, Buried: true, AvailableAt: at}}, nil
	}
	a := e.call("queue.retry", fmt.Sprintf(`{"items":[{"id":"%s"},{"id":"%s"}]}`, receipt(1), receipt(2))).want(200, "ok")
	a.is("2030-03-17T17:46:40Z", "results", 0, "available_at")
	a.is(false, "results", 0, "buried")
	a.is(true, "results", 1, "buried")
	a.is(nil, "results", 1, "available_at")
}

func TestD02_AStaleReceiptLeavesTheCallUndoneAndIsNamed(t *testing.T) {
	t.Parallel()
	e := setup(t)
	texts := []string{receipt(1).String(), receipt(2).String(), receipt(3).String()}
	e.broker.settle = func(queue.SettleCall) ([]queue.Settled, error) {
		return nil, fmt.Errorf("settle: orders: %w", &queue.StaleError{Entries: map[int]error{0: queue.ErrStale, 2: queue.ErrNotFound}})
	}
	for field, body := range map[string]string{
		"ids[%d]":           `"ids":["%s","%s","%s"]`,
		"receipts[%d]":      `"receipts":["%s","%s","%s"]`,
		"items[%d].receipt": `"items":[{"receipt":"%s"},{"receipt":"%s"},{"receipt":"%s"}]`,
	} {
		a := e.call("queue.complete", "{"+fmt.Sprintf(body, texts[0], texts[1], texts[2])+"}").want(409, "stale_lease")
		a.is("stale_lease", "details", fmt.Sprintf(field, 0))
		a.is(nil, "details", fmt.Sprintf(field, 1))
		a.is("not_found", "details", fmt.Sprintf(field, 2))
		for i, status := range []string{"stale_lease", "undone", "not_found"} {
			a.is(status, "results", i, "status")
			a.is(texts[i], "results", i, "receipt")
		}
	}
}

func TestSettle_WhatIsDeadAlreadySaysSo(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.settle = func(queue.SettleCall) ([]queue.Settled, error) {
		return nil, &queue.StaleError{Entries: map[int]error{0: queue.ErrAlreadyDead}}
	}
	e.call("queue.bury", fmt.Sprintf(`{"receipts":["%s"]}`, receipt(1))).want(409, "already_dead").
		is("already_dead", "results", 0, "status")
}

func TestSettle_NamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var got queue.SettleCall
	e.broker.settle = settleAll(&got)
	good := receipt(1).String()
	e.call("queue.complete", `{}`).invalid("receipts", "none given")
	e.call("queue.complete", `{"ids":["`+good+`"],"receipts":["`+good+`"]}`).invalid("receipts", "one of")
	e.call("queue.complete", `{"ids":["`+good+`","nonsense"]}`).invalid("ids[1]", "not a receipt")
	e.call("queue.complete", `{"items":[{"receipt":"`+good+`"},{}]}`).invalid("items[1].receipt", "not a receipt")
	large := base64.StdEncoding.EncodeToString(make([]byte, queue.MaxResponse+1))
	e.call("queue.complete", `{"items":[{"receipt":"`+good+`"},{"receipt":"`+good+`","result":"`+large+`"}]}`).
		want(413, "too_large").is("items[1].result", "details", "field")
	e.call("queue.complete", `{"ids":["`+good+`="]}`).invalid("ids[0]", "not a receipt")
	e.call("queue.complete", `{"ids":[`+strings.Repeat(`"",`, 1000)+`""]}`).want(413, "too_large")
	e.call("queue.release", `{"receipts":["`+good+`"],"delay":"x"}`).invalid("delay", "not a duration")
	e.call("queue.bury", `{"receipts":["`+good+`"],"reason":"`+strings.Repeat("x", 501)+`"}`).invalid("reason", "longer than 500")
	e.call("queue.bury", `{"receipts":["`+good+`"],"reason":"\u0000"}`).invalid("reason", "NUL")
	e.call("queue.retry", `{"items":[{"id":"`+good+`","dead":true,"delay":"1s"}]}`).invalid("items[0].dead", "goes without")
	e.call("queue.retry", `{"items":[{"id":"`+good+`","retry_at":"2030-01-31T08:00:00Z","delay":"1s"}]}`).invalid("items[0].delay", "one of them")
	e.call("queue.retry", `{"items":[{"id":"`+good+`","reason":"`+strings.Repeat("x", 501)+`"}]}`).invalid("items[0].reason", "longer than 500")
	if got.Entries != nil {
		t.Errorf("settled all the same: %+v", got)
	}
}

func TestSettle_GivesTheBrokersErrorsThePathOfTheCaller(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.settle = func(queue.SettleCall) ([]queue.Settled, error) {
		return nil, queue.Invalid("receipts[1]", "is the same as receipts[0]; give each receipt once")
	}
	r := receipt(1)
	for field, body := range map[string]string{"ids[1]": `"ids":["%s","%s"]`, "receipts[1]": `"receipts":["%s","%s"]`, "items[1]": `"items":[{"receipt":"%s"},{"receipt":"%s"}]`} {
		e.call("queue.complete", "{"+fmt.Sprintf(body, r, r)+"}").invalid(field, "is the same as "+strings.Replace(field, "1", "0", 1))
	}
}

func TestExtend_IsPerEntry(t *testing.T) {
	t.Parallel()
	e := setup(t)
	receipts := []queue.Receipt{receipt(1), receipt(2), receipt(3)}
	body := fmt.Sprintf(`"receipts":["%s","%s","%s"]`, receipts[0], receipts[1], receipts[2])
	var got []queue.ExtendEntry
	e.broker.extend = func(_ queue.Namespace, name string, entries []queue.ExtendEntry) ([]queue.Extended, error) {
		got = entries
		return []queue.Extended{{Status: queue.Applied, Deadline: time.Unix(1_900_000_000, 0)}, {Status: queue.Stale}, {Status: queue.Gone}}, nil
	}
	a := e.call("queue.extend", `{"lease_timeout":"30s",`+body+`}`).want(200, "ok")
	a.is("ok", "results", 0, "status")
	a.is("2030-03-17T17:46:40Z", "results", 0, "lease_deadline")
	a.is("stale_lease", "results", 1, "status")
	a.is(receipts[1].String(), "results", 1, "receipt")
	a.is("not_found", "results", 2, "status")
	if got[2].Receipt != receipts[2] || got[2].TTL != 30*time.Second {
		t.Errorf("got %+v", got)
	}
	e.call("queue.extend", `{`+body+`}`).want(200, "ok")
	if got[0].TTL != 0 {
		t.Errorf("no lease_timeout was given, got %s", got[0].TTL)
	}
	for _, timeout := range []string{"0s", "170h"} {
		e.call("queue.extend", `{"lease_timeout":"`+timeout+`",`+body+`}`).invalid("lease_timeout", "want 1ms to 168h")
	}
	e.call("queue.extend", `{"partition":1,`+body+`}`).invalid("partition", "names partition 0")
}
