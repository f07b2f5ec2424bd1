package api_test

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
)

func TestProduce_HandsOnTargetsAndWhoIsTold(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var got queue.ProduceCall
	e.broker.produce = func(call queue.ProduceCall) ([]queue.Produced, error) {
		got = call
		return accept(call)
	}
	e.call("queue.produce", `{"queue_name":"q","items":[
		{"target":{"url":"https://a.example/x?k=v","method":"DELETE","timeout":"90s"},"on_done":"told"},{"target":{"url":"https://b.example"}},{}]}`).want(200, "ok")
	want := []queue.Content{
		{Target: &queue.Target{URL: "https://a.example/x?k=v", Method: "DELETE", Timeout: 90 * time.Second}, OnDone: "told"},
		{Target: &queue.Target{URL: "https://b.example"}},
		{},
	}
	for i := range want {
		if c := got.Items[i].Content; !reflect.DeepEqual(c.Target, want[i].Target) || c.OnDone != want[i].OnDone {
			t.Errorf("item %d: got %+v, %q", i, c.Target, c.OnDone)
		}
	}
}

func TestImport_TakesTargetsThatAListAnswered(t *testing.T) {
	t.Parallel()
	e := setup(t)
	content := queue.Content{Target: &queue.Target{URL: "https://a.example/x?k=v", Method: "PUT", Timeout: 1500 * time.Millisecond}, OnDone: "told"}
	e.broker.items = func(queue.ItemsQuery) (queue.ListPage, error) {
		return queue.ListPage{Items: []queue.Item{{Key: queue.Key{ID: queue.NewID()}, Content: content}}}, nil
	}
	list := e.call("storage/items.list", `{"queue_name":"q"}`)
	list.is("https://a.example/x?k=v", "items", 0, "target", "url")
	list.is("1.5s", "items", 0, "target", "timeout")
	list.is("told", "items", 0, "on_done")
	var got queue.ImportCall
	e.broker.imports = keep(&got)
	if a := e.call("storage/items.import", `{"queue_name":"q",`+list.raw[1:]); a.status != 200 {
		t.Fatalf("got %s", a.raw)
	}
	if c := got.Items[0].Content; !reflect.DeepEqual(c.Target, content.Target) || c.OnDone != "told" {
		t.Errorf("got %+v, %q", c.Target, c.OnDone)
	}
}

func TestRedrive_SpreadsItemsByARate(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var got queue.RedriveCall
	e.broker.redrive = func(call queue.RedriveCall) (queue.Redriven, error) {
		got = call
		return queue.Redriven{Moved: 2, Until: time.Unix(1_900_000_000, 0)}, nil
	}
	for rate, want := range map[string]time.Duration{
		`{"count":5}`:                        200 * time.Millisecond,
		`{"count":1,"period":"24h"}`:         24 * time.Hour,
		`{"count":1000000,"period":"100ms"}`: 100 * time.Nanosecond,
		`{"count":3,"period":"1m"}`:          20 * time.Second,
	} {
		e.call("queue.redrive", `{"queue_name":"q~dead","rate":`+rate+`}`).want(200, "ok").is("2030-03-17T17:46:40Z", "until")
		if got.Every != want {
			t.Errorf("%s: got one each %s, want %s", rate, got.Every, want)
		}
	}
	e.call("queue.redrive", `{"queue_name":"q~dead"}`).want(200, "ok")
	if got.Every != 0 {
		t.Errorf("no rate: got one each %s", got.Every)
	}
}

// asking notes which names are asked for.
type asking struct {
	api.OpenAccess
	names *[]string
}

// Allow implements [api.Access].
func (a asking) Allow(_ api.Principal, _, name string) error {
	*a.names = append(*a.names, name)
	if name == "secret" {
		return api.ErrForbidden
	}
	return nil
}

// Whoever has others told brings items into their queue.
func TestAccess_IsAskedForTheQueuesThatAreTold(t *testing.T) {
	t.Parallel()
	for method, body := range map[string]string{
		"queue.produce":        `{"queue_name":"q","items":[{"on_done":"told"},{},{"on_done":"told"},{"on_done":"secret"}]}`,
		"storage/items.import": `{"queue_name":"q","items":[{"id":"x","on_done":"told"},{"id":"y","on_done":"told"},{"id":"z","on_done":"secret"}]}`,
		"subscriptions.create": `{"name":"q","queue_name":"told","on_done":"secret"}`,
		"subscriptions.update": `{"name":"q","queue_name":"told","on_done":"secret"}`,
		"schedules.create":     `{"name":"q","queue_name":"told","item":{"on_done":"secret"}}`,
		"schedules.update":     `{"name":"q","queue_name":"told","item":{"on_done":"secret"}}`,
	} {
		var names []string
		e := setup(t, func(o *api.Options) { o.Access = asking{names: &names} })
		a := e.do(request("/v1/"+method, strings.NewReader(body)))
		if a.status != http.StatusForbidden || !slices.Equal(names, []string{"q", "told", "secret"}) {
			t.Errorf("%s: asked for %v, got %s", method, names, a.raw)
		}
	}
}
