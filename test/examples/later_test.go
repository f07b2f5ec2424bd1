package examples_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
	"github.com/posthaste-io/posthaste/test/harness"
	"github.com/posthaste-io/posthaste/webhooks"
)

// finishers finish later.
var finishers = []struct {
	name    string
	command func(t *testing.T) harness.Options
	args    []string
}{
	{"go", func(t *testing.T) harness.Options { return harness.Options{Program: example(t, "later-go")} }, nil},
	{"ts", tsReceiver, []string{"out/later.js"}},
}

// Endpoints that finish later have no key, and work longer than a request may.
func TestLater_FinishesWithTheReceiptAlone(t *testing.T) {
	t.Parallel()
	for _, lang := range finishers {
		t.Run(lang.name, func(t *testing.T) {
			t.Parallel()
			command := lang.command(t)
			server, c := startServer(t)
			secret := webhooks.NewSecret()
			command.Env = append(command.Env, "ADDRESS=127.0.0.1:0", "POSTHASTE_URL="+server.URL, "WEBHOOK_SECRET="+secret)
			p := harness.Spawn(t, command, lang.args...)
			f := &finisher{t: t, c: c, process: p, relay: newRelay(t, addressOf(t, p))}
			f.subscribe(secret)

			f.worksLongerThanARequest()
			f.comesBackLater()
			f.goesOnWithAnotherReceipt()
			f.buriesWhatCannotWork()
			f.givesBackAtTheStop()
		})
	}
}

// finisher is one of the languages, running, with a server that pushes to it.
type finisher struct {
	t       *testing.T
	c       *client.Client
	process *harness.Server
	relay   *relay
}

func (f *finisher) subscribe(secret string) {
	f.t.Helper()
	if err := f.c.CreateQueue(f.t.Context(), client.Queue{Name: "exports", KeepEnded: time.Hour}); err != nil {
		f.t.Fatal(err)
	}
	_, err := f.c.CreateSubscription(f.t.Context(), client.Subscription{
		Name: "exports", Queue: "exports", URL: f.relay.URL, Secret: secret,
		Timeout: 2 * time.Second, Defer: true, DeferTimeout: 30 * time.Second,
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *finisher) produce(payload string) (itemID string) {
	f.t.Helper()
	produced, err := f.c.Produce(f.t.Context(), "exports", client.Item{Kind: "export", Encoding: "application/json", Payload: []byte(payload)})
	if err != nil {
		f.t.Fatal(err)
	}
	return produced[0].ItemID
}

func (f *finisher) info(itemID string) client.ItemInfo {
	f.t.Helper()
	items, err := f.c.ItemInfo(f.t.Context(), itemID, "exports")
	if err != nil || len(items) != 1 {
		f.t.Fatalf("item %s: got %+v, %v", itemID, items, err)
	}
	return items[0]
}

func (f *finisher) wait(itemID, state string, deliveries int) {
	f.t.Helper()
	items, err := f.c.WaitItem(f.t.Context(), itemID, "", patience)
	if err != nil || items[0].State != state || items[0].Deliveries != deliveries {
		f.t.Fatalf("got %+v, %v, want it %s after %d deliveries:\n%s%s",
			items, err, state, deliveries, f.process.Stdout(), f.process.Log())
	}
}

// prints waits for a line.
func (f *finisher) prints(line string) {
	f.t.Helper()
	eventually(f.t, "printed: "+line, func() bool { return strings.Contains(f.process.Stdout(), line+"\n") })
}

// The request has two seconds, and the work takes three.
func (f *finisher) worksLongerThanARequest() {
	id := f.produce(`{"export": 1, "pages": 3}`)
	eventually(f.t, "extended", func() bool {
		it := f.info(id)
		return it.State == "leased" && time.Until(it.NextAt) > 45*time.Second
	})
	f.wait(id, "completed", 1)
	f.prints("export 1: page 3")
	f.prints("export 1: done")
}

func (f *finisher) comesBackLater() {
	id := f.produce(`{"export": 2, "pages": 1, "tape": true}`)
	f.prints("export 2: later, the tape is being mounted")
	f.wait(id, "completed", 2)
	f.wantPages(2, 1)
}

// An item that comes again while it is worked on is not worked on twice, and is ended with
// the receipt that is good.
func (f *finisher) goesOnWithAnotherReceipt() {
	id := f.produce(`{"export": 3, "pages": 4}`)
	f.prints("export 3: page 1")
	first := f.relay.of(id)[0].header.Get("posthaste-receipt")
	if err := f.c.Release(f.t.Context(), 0, first); err != nil {
		f.t.Fatal(err)
	}
	f.wait(id, "completed", 2)
	f.wantPages(3, 4)
}

func (f *finisher) wantPages(export, pages int) {
	f.t.Helper()
	f.prints(fmt.Sprintf("export %d: done", export)) // what it printed may come a moment after the server knows
	line := regexp.MustCompile(fmt.Sprintf(`(?m)^export %d: page`, export))
	if got := len(line.FindAllString(f.process.Stdout(), -1)); got != pages {
		f.t.Errorf("export %d: made %d pages, want %d:\n%s", export, got, pages, f.process.Stdout())
	}
}

func (f *finisher) buriesWhatCannotWork() {
	f.wait(f.produce(`{"export": `), "buried", 1)
}

func (f *finisher) givesBackAtTheStop() {
	id := f.produce(`{"export": 4, "pages": 1000}`)
	f.prints("export 4: page 1")
	if _, err := f.c.PauseSubscription(f.t.Context(), "exports"); err != nil {
		f.t.Fatal(err)
	}
	f.process.Stop()
	if it := f.info(id); it.Why != "subscription_paused" || it.Attempts != 0 {
		f.t.Errorf("got %+v, want it given back, uncounted:\n%s%s", it, f.process.Stdout(), f.process.Log())
	}
	f.prints("export 4: given back")
}
