// Command posthaste is a lease queue that pushes: server, demonstration and a
// receiver for development in one binary.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		cancel(fmt.Errorf("signal: %s", <-signals))
		<-signals
		os.Exit(exitFailed) // whoever asks twice does not want to wait
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
