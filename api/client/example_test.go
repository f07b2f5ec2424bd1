package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
	"github.com/posthaste-io/posthaste/test/inproc"
)

// exampleServer is a server of this process, with the queue "orders", which keeps what
// has ended. Real ones run as `posthaste serve`.
func exampleServer() (url string, stop func()) {
	b := inproc.Open(inproc.Options{})
	s := httptest.NewServer(b.Handler)
	c, err := client.New(client.Options{URL: s.URL})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := c.CreateQueue(context.Background(), client.Queue{Name: "orders", KeepEnded: time.Hour}); err != nil {
		log.Fatal(err)
	}
	return s.URL, func() {
		b.Drain()
		s.Close()
		if err := b.Close(); err != nil {
			log.Fatal(err)
		}
	}
}

func ExampleClient_Produce() {
	url, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Options{URL: url})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	paid, err := client.JSON("order.paid", map[string]int{"order": 17})
	if err != nil {
		log.Fatal(err)
	}
	paid.IdempotencyKey = "order-17-paid" // names what happened
	reminder := client.Item{Kind: "order.reminder", Payload: []byte("order 17"), Delay: 24 * time.Hour}

	first, err := c.Produce(ctx, "orders", paid, reminder)
	if err != nil {
		log.Fatal(err)
	}
	again, err := c.Produce(ctx, "orders", paid)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("duplicate:", again[0].Duplicate, again[0].ItemID == first[0].ItemID)

	s, err := c.Stats(ctx, "orders")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("items:", s.Total, "not yet due:", s.Scheduled)
	// Output:
	// duplicate: true true
	// items: 2 not yet due: 1
}

func ExampleClient_Lease() {
	url, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Options{URL: url})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Produce(ctx, "orders", client.Item{Payload: []byte("a")}, client.Item{Payload: []byte("b")}); err != nil {
		log.Fatal(err)
	}

	items, err := c.Lease(ctx, client.LeaseParams{Queue: "orders", BatchSize: 10, Wait: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	for _, it := range items {
		fmt.Printf("%s, delivery %d\n", it.Payload, it.Deliveries)
	}
	// One is done. The other is tried again in a minute, which counts an attempt.
	if err := c.Complete(ctx, items[0].Receipt); err != nil {
		log.Fatal(err)
	}
	if _, err := c.Retry(ctx, client.Retry{Receipt: items[1].Receipt, Delay: time.Minute, Reason: "printer is out of paper"}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// a, delivery 1
	// b, delivery 1
}

func ExampleIs() {
	url, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Options{URL: url})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	_, err = c.Produce(ctx, "odrers", client.Item{})
	switch {
	case client.Is(err, client.CodeNotFound):
		fmt.Println("no such queue")
	case client.Is(err, client.CodeQueuePaused):
		fmt.Println("not now")
	case err != nil:
		log.Fatal(err)
	}

	// More of it, where that is wanted.
	if refusal, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println(refusal.Method, refusal.Status, refusal.CodeText)
	}
	// Output:
	// no such queue
	// queue.produce 404 not_found
}

func ExampleWorker() {
	url, stop := exampleServer()
	defer stop()
	c, err := client.New(client.Options{URL: url})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// A program would end it by a signal: signal.NotifyContext.
	ctx, cancel := context.WithCancel(context.Background())
	worker, err := client.NewWorker(c, client.WorkerOptions{
		Queue: "orders",
		Handlers: map[string]client.Handler{
			"order.paid": func(_ context.Context, it *client.Leased) error {
				fmt.Printf("paid: %s\n", it.Payload)
				return nil // completed
			},
			"order.ship": func(_ context.Context, it *client.Leased) error {
				if it.Deliveries == 1 {
					return fmt.Errorf("no van is there: %w", client.RetryAfter(0))
				}
				fmt.Printf("shipped: %s\n", it.Payload)
				cancel()
				return nil
			},
			"order.lost": func(_ context.Context, it *client.Leased) error {
				return client.Bury(fmt.Errorf("nobody knows %s", it.Payload))
			},
		},
		Concurrency: 1, // so that the output has an order
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, kind := range []string{"order.paid", "order.lost", "order.ship"} {
		if _, err := c.Produce(ctx, "orders", client.Item{Kind: kind, Payload: []byte("order 17")}); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("ended:", worker.Run(ctx))

	for it, err := range c.Items(context.Background(), "orders~dead") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("buried:", it.Dead.Reason)
	}
	// Output:
	// paid: order 17
	// shipped: order 17
	// ended: <nil>
	// buried: nobody knows order 17
}

// Ask, and wait for what comes of it.
func ExampleClient_WaitItem() {
	url, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Options{URL: url})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	worker, err := client.NewWorker(c, client.WorkerOptions{
		Queue: "orders",
		Default: func(_ context.Context, it *client.Leased) error {
			it.SetResult(fmt.Appendf(nil, "%d bytes", len(it.Payload)))
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	working, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(working) }()

	produced, err := c.Produce(ctx, "orders", client.Item{Payload: []byte("measure me")})
	if err != nil {
		log.Fatal(err)
	}
	// The queue keeps what has ended: see Queue.KeepEnded.
	items, err := c.WaitItem(ctx, produced[0].ItemID, "orders", 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", items[0].State, items[0].Result)
	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output: completed: 10 bytes
}

// An endpoint whose work takes longer than a request may, on a subscription with Defer.
func ExampleReceiptFrom() {
	// Without a key: the receipt alone is the credential for its item.
	c, err := client.New(client.Options{URL: "https://queue.example.com"})
	if err != nil {
		log.Fatal(err)
	}
	work := func(ctx context.Context, receipt string) error {
		// Long work, with c.Extend from time to time.
		return c.CompleteWith(ctx, client.Completion{Receipt: receipt, Result: []byte("converted")})
	}
	http.HandleFunc("/convert", func(w http.ResponseWriter, r *http.Request) {
		receipt, _, ok := client.ReceiptFrom(r.Header)
		if !ok {
			http.Error(w, "the subscription needs defer", http.StatusInternalServerError)
			return
		}
		w.Header().Set("posthaste-lease", "keep")
		w.WriteHeader(http.StatusAccepted)
		go func() {
			if err := work(context.WithoutCancel(r.Context()), receipt); err != nil {
				log.Print(err) // it is pushed again once its time is over
			}
		}()
	})
}

// A schedule that takes the change of the clocks into account.
func ExampleClient_PreviewSchedule() {
	url, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Options{URL: url})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	fires, err := c.PreviewSchedule(ctx, client.PreviewParams{
		Cron: "30 2 * * *", Zone: "America/New_York", Count: 2, From: time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC),
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range fires {
		fmt.Printf("%s %q\n", f.Local, f.Note)
	}
	s, err := c.CreateSchedule(ctx, client.Schedule{
		Name: "nightly", Queue: "orders", Cron: "30 2 * * *", Zone: "America/New_York",
		Item: client.Item{Kind: "report.nightly", Payload: []byte("the night of {{nominal_at}}")},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Name, s.Missed.Policy, s.Overlap)
	// Output:
	// 2026-03-08T03:00:00-04:00 "clocks go forward: runs at 03:00:00 instead of 02:30:00"
	// 2026-03-09T02:30:00-04:00 ""
	// nightly latest allow
}
