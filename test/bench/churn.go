package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// The churn: producers and consumers of ten at a time over a standing backlog, for
// minutes, so that what a store leaves behind has time to show.
const (
	churnBacklog   = 100_000
	churnClients   = 8 // of each kind
	churnBatch     = 10
	churnIntervals = 6
	// churnKeeps is the share of the first interval's rate that the last must have,
	// and churnSnapshot what is left beside an old snapshot.
	churnKeeps, churnSnapshot = 0.8, 0.5
	churnMaxMiB               = 1024
)

// churnRows runs the churn on one store; on PostgreSQL once more, a third as long,
// while another session keeps a snapshot from before it.
func (b *bench) churnRows(ctx context.Context, on store) error {
	return b.filled(ctx, on, churnBacklog, func(s *server, name string) error { return b.churnOn(ctx, s, name) })
}

func (b *bench) churnOn(ctx context.Context, s *server, name string) error {
	on := s.store
	rates, err := churn(s.host, name, b.churn, churnIntervals)
	if err != nil {
		return err
	}
	first := b.sheet.row("churn, first sixth", on, "items/s")
	first.add(rates[0])
	last := b.sheet.row("churn, last sixth", on, "items/s")
	last.add(rates[churnIntervals-1])
	for i, rate := range rates[1 : churnIntervals-1] {
		first.also(fmt.Sprintf("sixth_%d", i+2), rate)
	}
	last.against("", rates[0], "the first sixth", atLeast, churnKeeps)
	if on.name != "postgres" {
		return nil
	}
	conn, err := pgx.Connect(ctx, b.postgres)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	size := b.sheet.row("database after the churn", on, "MiB")
	var bytes int64
	if err := conn.QueryRow(ctx, "select pg_database_size(current_database())").Scan(&bytes); err != nil {
		return err
	}
	size.add(float64(bytes) / (1 << 20))
	size.against("", churnMaxMiB, "1 GiB", atMost, 1)

	if _, err := conn.Exec(ctx, "begin isolation level repeatable read; select count(*) from pg_class"); err != nil {
		return err
	}
	beside, err := churn(s.host, name, b.churn/3, 1)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "rollback"); err != nil {
		return err
	}
	old := b.sheet.row("churn beside an old snapshot", on, "items/s")
	old.add(beside[0])
	old.against("", rates[churnIntervals-1], "the last sixth without", atLeast, churnSnapshot)
	return nil
}

// churn returns the rate of completions in each of n parts of a time.
func churn(host, name string, d time.Duration, n int) (rates []float64, err error) {
	var done atomic.Int64
	began := time.Now()
	stop := began.Add(d)
	finished := make(chan error, 1)
	go func() {
		// As many go out as come in, so that the backlog stands.
		window := make(chan struct{}, 4*churnClients)
		finished <- crew(host, 2*churnClients, func(i int, c *client) error {
			for time.Now().Before(stop) {
				if i < churnClients {
					select {
					case window <- struct{}{}:
					case <-time.After(time.Until(stop)):
						return nil
					}
					if err := c.produce(name, churnBatch); err != nil {
						return err
					}
					continue
				}
				if err := c.lease(name, fmt.Sprint("c", i), churnBatch, 10, "60s"); err != nil {
					return err
				}
				got := len(c.receipts)
				if got == 0 {
					continue
				}
				if err := c.complete(name); err != nil {
					return err
				}
				done.Add(int64(got))
				select {
				case <-window:
				default:
				}
			}
			return nil
		})
	}()
	before := int64(0)
	for i := range n {
		select {
		case err := <-finished:
			return nil, fmt.Errorf("churn ended early: %w", err)
		case <-time.After(time.Until(began.Add(d * time.Duration(i+1) / time.Duration(n)))):
		}
		now := done.Load()
		rates = append(rates, float64(now-before)/(d.Seconds()/float64(n)))
		before = now
	}
	return rates, <-finished
}
