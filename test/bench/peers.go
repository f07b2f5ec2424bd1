package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// payloadJSON is what items beside peers hold, as a River job has to: JSON.
var payloadJSON = func() []byte {
	text, err := json.Marshal(riverArgs{strings.Repeat("p", payloadSize)})
	if err != nil {
		panic(err) // of a struct with a string
	}
	return text
}()

// beside is how many callers a peer has in its rows.
const beside = 16

// libraryRows measures on one PostgreSQL what callers in the same process reach: with
// our broker and store, and with River.
func (b *bench) libraryRows(ctx context.Context) (err error) {
	ours, err := b.openEmbedded(ctx)
	if err != nil {
		return fmt.Errorf("in process: %w", err)
	}
	defer func() {
		if closeErr := ours.close(); err == nil {
			err = closeErr
		}
	}()
	theirs, err := b.openRiver(ctx)
	if err != nil {
		return fmt.Errorf("river: %w", err)
	}
	defer func() {
		if closeErr := theirs.close(context.WithoutCancel(ctx)); err == nil {
			err = closeErr
		}
	}()
	for range b.plan.rounds {
		for _, one := range []struct {
			name string
			rows func(context.Context) error
		}{
			{"in process", func(ctx context.Context) error { return b.embeddedRows(ctx, ours) }},
			{"over HTTP", b.workOverHTTP},
			{"river", func(ctx context.Context) error { return b.riverRows(ctx, theirs) }},
		} {
			if err := one.rows(ctx); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
		}
	}
	return nil
}

// workOverHTTP works jobs as the peer does, by a server and in calls of a hundred.
func (b *bench) workOverHTTP(ctx context.Context) error {
	on := storeNamed("postgres")
	return b.filled(ctx, on, b.plan.jobs, func(s *server, name string) error {
		row := b.sheet.row(b.plan.workRow("over HTTP"), on, "items/s")
		return b.drainOf(s, row, name, beside, 100, time.Minute)
	})
}

// redisRows measures producers of single items, on our synced store over HTTP and with
// asynq on a Redis that syncs as often.
func (b *bench) redisRows(ctx context.Context, program string) (err error) {
	theirs, err := b.startRedis(program)
	if err != nil {
		return err
	}
	defer func() {
		if endErr := theirs.stop(); err == nil {
			err = endErr
		}
	}()
	for range b.plan.rounds {
		if err := b.produceBeside(ctx); err != nil {
			return err
		}
		if err := b.enqueueRow(ctx, theirs, enqueue, 0); err != nil {
			return fmt.Errorf("asynq: %w", err)
		}
		if err := b.enqueueRow(ctx, theirs, enqueueWide, redisClients); err != nil {
			return fmt.Errorf("asynq: %w", err)
		}
	}
	return nil
}

// redisClients is how many callers single items have in [bench.redisRows].
const redisClients = 64

func (b *bench) produceBeside(ctx context.Context) error {
	on := storeNamed("badger")
	return b.filled(ctx, on, 0, func(s *server, name string) error {
		return b.produceInto(s, b.sheet.row(produceAside, on, "items/s"), name, redisClients, 1)
	})
}

// peerRows measures beside what others use, as far as it is there.
func (b *bench) peerRows(ctx context.Context) error {
	if b.measures("postgres") {
		if err := b.libraryRows(ctx); err != nil {
			return err
		}
	}
	if !b.measures("badger") {
		return nil
	}
	program, err := exec.LookPath(redisProgram)
	if err != nil {
		b.skipped = append(b.skipped, "asynq: no "+redisProgram+" here (Debian's package has that name)")
		return nil // the report tells
	}
	return b.redisRows(ctx, program)
}
