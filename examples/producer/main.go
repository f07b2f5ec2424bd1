// Command producer puts items on a queue and waits for what becomes of one of them. The
// worker beside it does the work.
//
//	go run ./examples/producer
//
// It finds the server by POSTHASTE_URL and its key by POSTHASTE_KEY.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// What producer and worker agree on.
const (
	queue       = "shop"
	kindResize  = "image.resize"
	kindWelcome = "mail.welcome"
)

type (
	resize  struct{ Width, Height int }
	welcome struct{ To string }
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	c, err := client.New(client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	// Ended items are kept for an hour, with their results.
	err = c.CreateQueue(ctx, client.Queue{Name: queue, KeepEnded: time.Hour})
	if err != nil && !client.Is(err, client.CodeAlreadyExists) {
		return err
	}

	picture, err := client.JSON(kindResize, resize{Width: 4000, Height: 3000})
	if err != nil {
		return err
	}
	mail, err := client.JSON(kindWelcome, welcome{To: "ada@example.com"})
	if err != nil {
		return err
	}
	// Due in a moment; and once only, whoever calls this program twice within a day.
	mail.Delay, mail.IdempotencyKey = time.Second, "welcome-ada"
	produced, err := c.Produce(ctx, queue, picture, mail)
	if err != nil {
		return err
	}
	for _, p := range produced {
		fmt.Printf("produced %s, duplicate: %t\n", p.ItemID, p.Duplicate)
	}

	items, err := c.WaitItem(ctx, produced[0].ItemID, queue, time.Minute)
	if err != nil {
		return err
	}
	fmt.Printf("the picture is %s: %s\n", items[0].State, items[0].Result)
	return nil
}
