package examples_test

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
	"github.com/posthaste-io/posthaste/test/harness"
	"github.com/posthaste-io/posthaste/webhooks"
)

// receiver is one of the languages, running, with a server that pushes to it.
type receiver struct {
	t       *testing.T
	c       *client.Client
	process *harness.Server
	relay   *relay
	// queue is pushed to it, signed with the older of its two secrets.
	queue  string
	secret string
}

// Each receiver of the guide handles what is right, once, and refuses the rest.
func TestReceivers_G07_ServeRealPushes(t *testing.T) {
	t.Parallel()
	for _, lang := range languages {
		t.Run(lang.name, func(t *testing.T) {
			t.Parallel()
			command := lang.command(t)
			_, c := startServer(t)
			newer, older := webhooks.NewSecret(), webhooks.NewSecret()
			command.Env = append(command.Env, "ADDRESS=127.0.0.1:0", "WEBHOOK_SECRET="+newer+" "+older)
			r := &receiver{t: t, c: c, queue: "orders", secret: older, process: harness.Spawn(t, command, lang.args...)}
			r.relay = newRelay(t, addressOf(t, r.process))
			r.subscribe(r.queue, older)

			first := r.handlesWhatIsRight()
			r.handlesAReplayOnce(first)
			r.refusesWhatWasTampered()
			r.refusesWhatIsOld()
			r.refusesWhatIsTooLarge()
			r.buriesWhatCannotWork()
			if !lang.textOnly {
				r.readsBytesAsTheyAre()
			}
			r.subscribe("wrong", webhooks.NewSecret())
			r.refusesAWrongSecret("wrong")
			r.subscribe("newer", newer)
			r.handles("newer", 70, "order.paid", "order 70: order.paid, attempt 1")

			// Nothing else was handled, and nothing twice. The last order has been, so its line
			// and all before it are there.
			if got := len(regexp.MustCompile(`(?m)^order `).FindAllString(r.process.Stdout(), -1)); got != 3 {
				t.Errorf("handled %d orders, want 3:\n%s", got, r.process.Stdout())
			}
			if strings.Contains(r.process.Stdout()+r.process.Log(), older) {
				t.Error("the secret was printed")
			}
			r.relay.client.CloseIdleConnections()
			r.process.Stop()
		})
	}
}

// subscribe has a queue pushed to the receiver, by way of the relay.
func (r *receiver) subscribe(queue, secret string) {
	r.t.Helper()
	if err := r.c.CreateQueue(r.t.Context(), client.Queue{Name: queue, KeepEnded: time.Hour}); err != nil {
		r.t.Fatal(err)
	}
	_, err := r.c.CreateSubscription(r.t.Context(), client.Subscription{
		Name: queue, Queue: queue, URL: r.relay.URL, Secret: secret,
		Retry: client.RetryPolicy{MaxAttempts: 3, Schedule: []time.Duration{100 * time.Millisecond}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *receiver) produce(queue, kind, payload string) (itemID string) {
	r.t.Helper()
	produced, err := r.c.Produce(r.t.Context(), queue, client.Item{Kind: kind, Encoding: "application/json", Payload: []byte(payload)})
	if err != nil {
		r.t.Fatal(err)
	}
	return produced[0].ItemID
}

// handles produces an order and waits until it is handled and the item is completed.
func (r *receiver) handles(queue string, order int, kind, line string) (itemID string) {
	r.t.Helper()
	id := r.produce(queue, kind, fmt.Sprintf(`{"order": %d}`, order))
	eventually(r.t, "printed: "+line, func() bool { return strings.Contains(r.process.Stdout(), line+"\n") })
	items, err := r.c.WaitItem(r.t.Context(), id, queue, patience)
	if err != nil || items[0].State != "completed" {
		r.t.Fatalf("order %d: got %+v, %v, want it completed", order, items, err)
	}
	return id
}

func (r *receiver) handlesWhatIsRight() (itemID string) {
	return r.handles(r.queue, 10, "order.paid", "order 10: order.paid, attempt 1")
}

func (r *receiver) handlesAReplayOnce(itemID string) {
	passed := r.relay.of(itemID)
	if len(passed) != 1 || passed[0].status/100 != 2 {
		r.t.Fatalf("got %d exchanges, want one that went well", len(passed))
	}
	var together sync.WaitGroup
	for range 5 {
		together.Go(func() {
			if a, err := r.relay.send(passed[0]); err != nil || a.status/100 != 2 {
				r.t.Errorf("replay: got %d, %v, want 2xx", a.status, err)
			}
		})
	}
	together.Wait()
}

// The kind is one that headers cannot carry as it is.
func (r *receiver) refusesWhatWasTampered() {
	r.relay.tamperNext(func(body []byte) []byte { return bytes.Replace(body, []byte("20"), []byte("21"), 1) })
	id := r.handles(r.queue, 20, "Größe 50%", "order 20: Größe 50%, attempt 2")
	passed := r.relay.of(id)
	if len(passed) != 2 || passed[0].status != http.StatusUnauthorized || passed[1].status/100 != 2 {
		r.t.Errorf("got %+v, want 401 for the body that was changed, then 2xx", passed)
	}
}

// signed is a request that the server could have made at a time.
func (r *receiver) signed(id string, at time.Time, body []byte) exchange {
	r.t.Helper()
	signature, err := webhooks.Sign(strings.ReplaceAll(id, ".", "-"), at, body, r.secret)
	if err != nil {
		r.t.Fatal(err)
	}
	h := http.Header{}
	h.Set(webhooks.HeaderID, id)
	h.Set(webhooks.HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(webhooks.HeaderSignature, signature)
	return exchange{header: h, body: body}
}

func (r *receiver) refusesWhatIsOld() {
	body, now := []byte(`{"order": 30}`), time.Now()
	unsigned, dotted := r.signed("i30", now, body), r.signed("i.30", now, body)
	unsigned.header.Del(webhooks.HeaderSignature)
	for name, x := range map[string]exchange{
		"signed an hour ago":   r.signed("i30", now.Add(-time.Hour), body),
		"signed in an hour":    r.signed("i30", now.Add(time.Hour), body),
		"signed five min. ago": r.signed("i30", now.Add(-webhooks.Tolerance-time.Minute), body),
		"not signed":           unsigned,
		"id with a dot":        dotted,
	} {
		if a, err := r.relay.send(x); err != nil || a.status != http.StatusUnauthorized {
			r.t.Errorf("%s: got %d, %v, want 401", name, a.status, err)
		}
	}
}

func (r *receiver) refusesWhatIsTooLarge() {
	x := r.signed("i40", time.Now(), fmt.Appendf(nil, `{"order": 40%s}`, strings.Repeat(" ", 1_000_000)))
	// A receiver that does not read on may break off before its answer is read.
	if a, err := r.relay.send(x); err == nil && a.status != http.StatusRequestEntityTooLarge {
		r.t.Errorf("too large: got %d, want 413", a.status)
	}
}

func (r *receiver) buriesWhatCannotWork() {
	id := r.produce(r.queue, "order.paid", `{"order": `)
	items, err := r.c.WaitItem(r.t.Context(), id, r.queue, patience)
	if err != nil || len(items) == 0 || items[0].State != "buried" || len(r.relay.of(id)) != 1 {
		r.t.Errorf("not JSON: got %+v, %v after %d requests, want it buried after one", items, err, len(r.relay.of(id)))
	}
}

// Bytes that are no text are verified as they are, and only then found to be no JSON.
func (r *receiver) readsBytesAsTheyAre() {
	if a, err := r.relay.send(r.signed("i50", time.Now(), []byte("\xff\x00"))); err != nil || a.status != http.StatusUnprocessableEntity {
		r.t.Errorf("bytes: got %d, %v, want 422", a.status, err)
	}
}

func (r *receiver) refusesAWrongSecret(queue string) {
	id := r.produce(queue, "order.paid", `{"order": 60}`)
	items, err := r.c.WaitItem(r.t.Context(), id, queue, patience)
	if err != nil || len(items) == 0 || items[0].State != "buried" || items[0].LastStatus != http.StatusUnauthorized {
		r.t.Errorf("wrong secret: got %+v, %v, want it buried with 401", items, err)
	}
}
