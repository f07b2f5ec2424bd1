// Command later-go is an endpoint for work that takes longer than any request may. It
// answers each push with 202 and posthaste-lease: keep, works, extends the lease meanwhile,
// and then says what came of it, with the receipt that the push brought and no key.
//
//	WEBHOOK_SECRET=whsec_… go run ./examples/later-go
//
// The subscription needs defer: true. The server is found by POSTHASTE_URL.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
	"github.com/posthaste-io/posthaste/webhooks"
)

// keep is how long an item is ours without another word from us. Whoever else may take it
// over has to wait so long after we died, so it is short, and extended.
const keep = time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	c, err := client.New(client.Options{}) // $POSTHASTE_URL; receipts need no key
	if err != nil {
		return err
	}
	defer c.Close()
	e := &endpoint{client: c, stopping: ctx, handled: webhooks.NewMemoryHistory(0), running: map[string]*job{}}
	receiver, err := webhooks.NewReceiver(e, webhooks.ReceiverOptions{
		Secrets: strings.Fields(os.Getenv("WEBHOOK_SECRET")), History: e.handled,
	})
	if err != nil {
		return fmt.Errorf("WEBHOOK_SECRET: %w", err)
	}
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDRESS"), "127.0.0.1:8080"))
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	server := &http.Server{Handler: receiver, ReadTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = server.Shutdown(last)
	e.jobs.Wait() // they give back what they have
	return err
}

// endpoint takes exports on and makes them.
type endpoint struct {
	client *client.Client
	// stopping ends when the process is to end.
	stopping context.Context
	handled  webhooks.History
	jobs     sync.WaitGroup

	mu sync.Mutex
	// running has what is worked on, by the ids of its items.
	running map[string]*job
}

// job is an item that is worked on.
type job struct {
	id      string
	export  export
	attempt int

	mu sync.Mutex
	// receipt is the newest: an item whose lease lapsed comes with another one.
	receipt string
}

type export struct {
	Export, Pages int
	Tape          bool
}

// ServeHTTP takes an item on. What it is asked was signed by the server, and its item was
// not handled before.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d := webhooks.DeliveryFrom(r.Context())
	j := &job{id: d.ID, attempt: d.Attempt, receipt: d.Receipt}
	if err := json.NewDecoder(r.Body).Decode(&j.export); err != nil {
		// No repeat will make sense of it, so none is asked for: the item is buried.
		w.Header().Set(webhooks.HeaderRetry, "never")
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	if d.Receipt == "" {
		log.Print("the subscription has no defer")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	e.take(j)
	w.Header().Set(webhooks.HeaderLease, "keep")
	w.WriteHeader(http.StatusAccepted)
}

// take begins a job, or gives one that runs its new receipt.
func (e *endpoint) take(j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if same := e.running[j.id]; same != nil {
		same.setReceipt(j.receipt)
		return
	}
	e.running[j.id] = j
	e.jobs.Go(func() {
		e.finish(j, e.work(j))
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.running, j.id)
	})
}

// errMounting says that the tape is not there yet.
var errMounting = errors.New("the tape is being mounted")

// work makes an export, while the item stays ours.
func (e *endpoint) work(j *job) error {
	ctx, cancel := context.WithCancel(e.stopping)
	defer cancel()
	go e.extend(ctx, j)
	if j.export.Tape && j.attempt == 1 {
		return errMounting
	}
	for page := range j.export.Pages {
		select {
		case <-time.After(time.Second): // the work
			fmt.Printf("export %d: page %d\n", j.export.Export, page+1)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// extend keeps the item ours until ctx ends. An error is no reason to stop working: the
// server may be back before the lease is over.
func (e *endpoint) extend(ctx context.Context, j *job) {
	for {
		_, err := e.client.Extend(ctx, keep, j.getReceipt())
		if err != nil && ctx.Err() == nil {
			log.Printf("export %d: not extended: %v", j.export.Export, err)
		}
		select {
		case <-time.After(keep / 3):
		case <-ctx.Done():
			return
		}
	}
}

// finish tells the server what came of a job.
func (e *endpoint) finish(j *job, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), keep/2)
	defer cancel()
	n := j.export.Export
	switch {
	case err == nil:
		fmt.Printf("export %d: done\n", n)
		if err := e.handled.Remember(ctx, j.id, time.Now().Add(webhooks.DefaultRemember)); err != nil {
			log.Printf("export %d: not remembered: %v", n, err)
		}
		err = e.client.Complete(ctx, j.getReceipt())
	case e.stopping.Err() != nil:
		fmt.Printf("export %d: given back\n", n)
		err = e.client.Release(ctx, 0, j.getReceipt()) // at once, uncounted
	default:
		fmt.Printf("export %d: later, %v\n", n, err)
		_, err = e.client.Retry(ctx, client.Retry{Receipt: j.getReceipt(), Delay: time.Second, Reason: err.Error()})
	}
	if err != nil {
		// The item comes again when its lease is over. If it was done, the history knows.
		log.Printf("export %d: the server does not know: %v", n, err)
	}
}

func (j *job) setReceipt(receipt string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.receipt = receipt
}

func (j *job) getReceipt() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.receipt
}
