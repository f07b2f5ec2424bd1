package examples_test

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
	"github.com/posthaste-io/posthaste/test/harness"
	"github.com/posthaste-io/posthaste/webhooks"
)

// A receiver of batches works once for each item, and names those that failed.
func TestBatch_AnswersForEachItem(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"json", "multipart"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			_, c := startServer(t)
			secret := webhooks.NewSecret()
			p := harness.Spawn(t, harness.Options{
				Program: example(t, "batch-go"), Env: []string{"ADDRESS=127.0.0.1:0", "WEBHOOK_SECRET=" + secret},
			})
			relay := newRelay(t, addressOf(t, p))
			if err := c.CreateQueue(t.Context(), client.Queue{Name: "orders", KeepEnded: time.Hour}); err != nil {
				t.Fatal(err)
			}
			_, err := c.CreateSubscription(t.Context(), client.Subscription{
				Name: "orders", Queue: "orders", URL: relay.URL, Secret: secret,
				Batch: &client.Batch{MaxItems: 10, MaxWait: time.Second, Encoding: encoding},
				Retry: client.RetryPolicy{MaxAttempts: 2, Schedule: []time.Duration{100 * time.Millisecond}},
			})
			if err != nil {
				t.Fatal(err)
			}
			items := make([]client.Item, 20)
			for i := range items {
				items[i] = client.Item{Kind: "order.paid", Payload: []byte(`{"order": ` + strconv.Itoa(i) + `}`)}
			}
			items[7].Payload = []byte(`{"order": 7, "busy": true}`)
			items[13].Payload = []byte("\xff\x00") // no text, and no order
			produced, err := c.Produce(t.Context(), "orders", items...)
			if err != nil {
				t.Fatal(err)
			}
			for i, made := range produced {
				state, deliveries := "completed", 1
				switch i {
				case 7:
					deliveries = 2
				case 13:
					state, deliveries = "buried", 2
				}
				infos, err := c.WaitItem(t.Context(), made.ItemID, "", patience)
				if err != nil || infos[0].State != state || infos[0].Deliveries != deliveries {
					t.Fatalf("item %d: got %+v, %v, want it %s after %d deliveries:\n%s", i, infos, err, state, deliveries, p.Log())
				}
			}
			if !strings.Contains(p.Stdout(), "10 items\n") || !strings.Contains(p.Stdout(), "order 7: order.paid, attempt 2\n") {
				t.Errorf("want ten items in a request, and one of them again:\n%s", p.Stdout())
			}
			relay.repeats(t)
			if got := len(regexp.MustCompile(`(?m)^order `).FindAllString(p.Stdout(), -1)); got != 19 {
				t.Errorf("handled %d orders, want 19:\n%s", got, p.Stdout())
			}
			relay.client.CloseIdleConnections()
			p.Stop()
		})
	}
}

// repeats sends everything once more, as a sender whose answers were lost would: with ids of
// the requests' own, and the items that were there.
func (r *relay) repeats(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	passed := r.passed
	r.mu.Unlock()
	for _, x := range passed {
		if a, err := r.send(x); err != nil || a.status != http.StatusOK {
			t.Errorf("repeat: got %d, %v, want 200", a.status, err)
		}
	}
}
