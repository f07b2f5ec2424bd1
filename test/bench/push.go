package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// pushInFlight is how many requests run at one time, of the server and of the
// bare client.
const pushInFlight = 16

// warmUpTimeout bounds how long the first tenth of the backlog may take.
const warmUpTimeout = 20 * time.Second

// bareRow is the ceiling: net/http's client against the sink, with nothing else.
func (b *bench) bareRow(ctx context.Context, to *sink) error {
	before, err := to.count(ctx)
	if err != nil {
		return err
	}
	payload := bytes.Repeat([]byte{'p'}, payloadSize)
	began := time.Now()
	stop := began.Add(b.plan.short)
	var group sync.WaitGroup
	errs := make(chan error, pushInFlight)
	for range pushInFlight {
		group.Go(func() {
			for time.Now().Before(stop) {
				if err := bare(ctx, to, payload); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	group.Wait()
	seconds := time.Since(began).Seconds()
	select {
	case err := <-errs:
		return err
	default:
	}
	after, err := to.count(ctx)
	if err != nil {
		return err
	}
	b.sheet.row(barePush, store{name: "none"}, "items/s").add(float64(after-before) / seconds)
	return nil
}

func bare(ctx context.Context, to *sink, payload []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	res, err := to.http.Do(req)
	if err != nil {
		return fmt.Errorf("bare client: %w", err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return fmt.Errorf("bare client: %w", err)
	}
	return res.Body.Close()
}

// pushRow fills a queue, subscribes the sink to it, and measures while the
// backlog lasts, after the lane has warmed up.
func (b *bench) pushRow(ctx context.Context, on store, to *sink) error {
	return b.filled(ctx, on, b.plan.pushes, func(s *server, name string) error { return b.pushAll(ctx, s, name, to) })
}

// pushAll measures on a queue that is filled.
func (b *bench) pushAll(ctx context.Context, s *server, name string, to *sink) error {
	before, err := to.count(ctx)
	if err != nil {
		return err
	}
	c, err := newClient(s.host)
	if err != nil {
		return err
	}
	defer c.close()
	err = c.call("subscriptions.create", `{"name":"sink","queue_name":"`+name+`","url":"`+to.url+
		`","max_in_flight":`+strconv.Itoa(pushInFlight)+`}`)
	if err != nil {
		return err
	}
	last := before + int64(b.plan.pushes)
	warm, err := b.reach(ctx, to, before+int64(b.plan.pushes)/10, warmUpTimeout)
	if err != nil {
		return err
	}
	m, err := newMeter(s.sources)
	if err != nil {
		return err
	}
	wait := func() error { return nil }
	if b.profiles != "" {
		wait = s.profile(ctx, filepath.Join(b.profiles, "push-"+s.store.name+".pprof"), b.plan.long)
	}
	got, err := b.reach(ctx, to, last, b.plan.long)
	if err != nil {
		return err
	}
	if got == warm {
		return fmt.Errorf("push: %d of %d items had arrived, and no more came", warm-before, b.plan.pushes)
	}
	if err := m.rate(b.sheet.row(push, s.store, "items/s"), got-warm); err != nil {
		return err
	}
	return wait()
}

// reach polls the sink until it has counted so many, or the time is up, and
// returns the count.
func (b *bench) reach(ctx context.Context, to *sink, want int64, within time.Duration) (int64, error) {
	stop := time.Now().Add(within)
	for {
		n, err := to.count(ctx)
		if err != nil || n >= want || time.Now().After(stop) {
			return n, err
		}
		select {
		case <-ctx.Done():
			return n, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}
