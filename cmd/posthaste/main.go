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
	// Whoever reads our output may go, as head does: the write then fails, and what ends
	// because of it puts its things away. A server goes on without its log.
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		cancel(fmt.Errorf("signal: %s", <-signals))
		<-signals
		os.Exit(exitFailed) // whoever asks twice does not want to wait
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
