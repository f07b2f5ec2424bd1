package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/storage/postgres"
	"github.com/posthaste-io/posthaste/webhooks"
)

const (
	demoTime  = 28 * time.Second
	demoQueue = "orders"
	// demoPace is the time between two items, so that a reader can follow.
	demoPace = 120 * time.Millisecond

	demoOrders  = 24
	demoDelayed = 6
	demoPoison  = 2
	demoPulled  = 3

	// dropTime is how long removing what a demonstration left in a database may take.
	dropTime = 30 * time.Second
)

// demoCommand is the first minute with posthaste.
type demoCommand struct {
	Store string `env:"POSTHASTE_DEMO_STORE" placeholder:"URL" help:"Where items are kept, as in serve; default an embedded store in a temporary directory."`
}

// Run implements command. It fails unless every item is accounted for.
func (c *demoCommand) Run(ctx context.Context, s streams) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, demoTime, fmt.Errorf("not done after %s", demoTime))
	defer cancel()
	if c.Store == "" {
		dir, err := os.MkdirTemp("", "posthaste-demo-")
		if err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		defer os.RemoveAll(dir)
		c.Store = "badger://" + filepath.Join(dir, "data")
	}
	config, err := demoConfig(c.Store)
	if err != nil {
		return err
	}
	log := newLogger(s.stderr, logText, slog.LevelWarn)
	if config.store.kind == storePostgres {
		// Not the schema of somebody's server, and nothing is left behind.
		config.schema = "posthaste_demo_" + strings.ToLower(rand.Text()[:8])
		defer func() {
			dropping, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
			defer cancel()
			err = errors.Join(err, postgres.Drop(dropping, config.postgres(log)))
		}()
	}
	a, err := openApp(config, log)
	if err != nil {
		return err
	}
	a.start()
	term, ctx := newTerminal(ctx, s.stdout)
	err = runDemo(ctx, a.url(), config.store, term)
	// Calls that were broken off say only that they were.
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	return errors.Join(err, a.stop())
}

// demoConfig is a small server. Neither flags nor variables of serve count: a
// demonstration must not open the store of somebody's server.
func demoConfig(store string) (config, error) {
	c := serveCommand{
		Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", Store: store, Dev: true, Grace: time.Second, Window: 1000, MinFreeDisk: 64e6, Migrate: true, Hints: true,
		limitFlags: limitFlags{
			MaxPushes: 64, MaxItems: 1000, MaxPayload: maxPayload, MaxCall: maxCall, MaxBodyMemory: 64e6, MaxAnswerMemory: minAnswers,
			MaxWaiting: 1000, MaxPolls: 100, KeepRecords: time.Hour,
		},
	}
	config, err := c.config("")
	config.encryption.passing = true // nothing is left behind that it could open
	return config, err
}

// demo is one run against a server.
type demo struct {
	client   *demoClient
	ledger   *ledger
	view     *demoView
	endpoint string
}

func runDemo(ctx context.Context, url string, store storeURL, term *terminal) error {
	secret := webhooks.NewSecret()
	verifier, err := webhooks.NewVerifier(secret)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	d := &demo{
		client: &demoClient{url: url, http: &http.Client{}},
		ledger: newLedger(), view: &demoView{term: term, start: time.Now()},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("demo endpoint: %w", err)
	}
	server := &http.Server{
		Handler:           &demoEndpoint{verifier: verifier, ledger: d.ledger, view: d.view},
		ReadHeaderTimeout: 10 * time.Second,
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(listener) // ends by Close, and with nobody who would miss it
	}()
	defer func() {
		server.Close()
		<-served
	}()
	d.endpoint = "http://" + listener.Addr().String() + "/hook"

	d.view.say("%s  server %s, store %s", term.paint(bold, "posthaste demo"), url, store)
	d.view.say("Items on the queue %q are POSTed, signed, to %s, which has bad days:\n"+
		"it refuses every fifth order at first, and poisoned ones always.\n", demoQueue, d.endpoint)
	return d.run(ctx, secret)
}

func (d *demo) run(ctx context.Context, secret string) error {
	err := d.client.call(ctx, "subscriptions.create", object{
		"name": "shop", "queue_name": demoQueue, "url": d.endpoint, "secret": secret,
		"retry": object{"max_attempts": demoAttempts, "schedule": []string{"300ms", "900ms"}},
	}, nil)
	if err != nil {
		return err
	}
	d.view.head()
	if err := d.produce(ctx); err != nil {
		return err
	}
	if err := d.await(ctx, demoPoison); err != nil {
		return err
	}
	if err := d.inspect(ctx); err != nil {
		return err
	}
	if err := d.pull(ctx); err != nil {
		return err
	}
	s := d.ledger.sum()
	d.view.summary(s)
	return s.err()
}

// produce puts delayed, immediate and poisoned items on the queue.
func (d *demo) produce(ctx context.Context) error {
	for i := range demoDelayed {
		delay := time.Duration(i+1) * 600 * time.Millisecond
		if err := d.put(ctx, fmt.Sprintf("later-%02d", i+1), delay); err != nil {
			return err
		}
	}
	poisoned := 0
	for i := range demoOrders {
		if !wait(ctx, demoPace) {
			return context.Cause(ctx)
		}
		if err := d.put(ctx, fmt.Sprintf("order-%02d", i+1), 0); err != nil {
			return err
		}
		if i%8 == 5 && poisoned < demoPoison {
			poisoned++
			if err := d.put(ctx, fmt.Sprintf("poison-%02d", poisoned), 0); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *demo) put(ctx context.Context, name string, delay time.Duration) error {
	item := object{"utf8": name, "encoding": "text/plain", "kind": "demo"}
	follows := ""
	if delay > 0 {
		item["delay"] = delay.String()
		follows = "due in " + delay.String()
	}
	at := time.Now()
	d.ledger.open(name, at.Add(delay))
	d.view.line(at, "produce", name, "", "", plain, follows)
	return d.client.call(ctx, "queue.produce", object{"queue_name": demoQueue, "items": []object{item}}, nil)
}

// await waits until all but so many items have ended, and the queue is empty.
func (d *demo) await(ctx context.Context, open int) error {
	for {
		var stats struct {
			LogicalQueues []struct {
				Partitions []struct{ Total int }
			} `json:"logical_queues"`
		}
		if err := d.client.call(ctx, "queue.stats", object{"queue_name": demoQueue}, &stats); err != nil {
			return err
		}
		total := 0
		for _, q := range stats.LogicalQueues {
			for _, p := range q.Partitions {
				total += p.Total
			}
		}
		if unfinished := d.ledger.unfinished(); total == 0 && len(unfinished) <= open {
			return nil
		}
		if !wait(ctx, 50*time.Millisecond) {
			s := d.ledger.sum()
			return errors.Join(context.Cause(ctx), s.err())
		}
	}
}

// inspect looks into the dead-letter queue.
func (d *demo) inspect(ctx context.Context) error {
	var page struct {
		Items []struct {
			Payload []byte
			Dead    struct {
				Reason     string
				LastStatus int `json:"last_status"`
			}
		}
	}
	dead := demoQueue + "~dead"
	if err := d.client.call(ctx, "storage/items.list", object{"queue_name": dead}, &page); err != nil {
		return err
	}
	for _, it := range page.Items {
		d.ledger.close(string(it.Payload), fateBuried)
		d.view.line(time.Now(), "list", string(it.Payload), "", "", plain, fmt.Sprintf("is on %s: %s, last answer %d", dead, it.Dead.Reason, it.Dead.LastStatus))
	}
	return nil
}

// pull takes items from the same queue as a consumer, while pushing pauses.
func (d *demo) pull(ctx context.Context) error {
	if err := d.client.call(ctx, "subscriptions.pause", object{"name": "shop"}, nil); err != nil {
		return err
	}
	d.view.say("\nThe subscription is paused, and a consumer pulls from the same queue instead:")
	for i := range demoPulled {
		if err := d.put(ctx, fmt.Sprintf("report-%02d", i+1), 0); err != nil {
			return err
		}
	}
	// The lane may still have taken one before it heard of the pause; then the push
	// delivers it, and the books are closed as well.
	for len(d.ledger.unfinished()) > 0 {
		var leased struct {
			Items []struct{ UTF8, Receipt string }
		}
		err := d.client.call(ctx, "queue.lease", object{
			"queue_name": demoQueue, "batch_size": demoPulled, "client_id": "demo", "text": true, "request_timeout": "500ms",
		}, &leased)
		if err != nil {
			return err
		}
		if len(leased.Items) == 0 {
			continue
		}
		var receipts []string
		for _, it := range leased.Items {
			receipts = append(receipts, it.Receipt)
			d.view.line(time.Now(), "lease", it.UTF8, "", "", plain, "held until its receipt completes it")
		}
		if err := d.client.call(ctx, "queue.complete", object{"receipts": receipts}, nil); err != nil {
			return err
		}
		for _, it := range leased.Items {
			d.ledger.close(it.UTF8, fatePulled)
			d.view.line(time.Now(), "complete", it.UTF8, "", "", plain, "done")
		}
	}
	return nil
}
