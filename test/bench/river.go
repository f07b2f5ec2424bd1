package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverArgs is a job that has to do nothing.
type riverArgs struct {
	Payload string `json:"payload"`
}

// Kind implements [river.JobArgs].
func (riverArgs) Kind() string { return "bench" }

// riverWorker counts jobs. The last one that is wanted closes done.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	worked atomic.Int64
	want   int64
	done   chan struct{}
}

// Work implements [river.Worker].
func (w *riverWorker) Work(context.Context, *river.Job[riverArgs]) error {
	if w.worked.Add(1) == w.want {
		close(w.done)
	}
	return nil
}

// riverQueue is River in a schema of its own.
type riverQueue struct {
	pool   *pgxpool.Pool
	schema string
	client *river.Client[pgx.Tx]
	args   riverArgs
}

func (b *bench) openRiver(ctx context.Context) (*riverQueue, error) {
	config, err := pgxpool.ParseConfig(b.postgres)
	if err != nil {
		return nil, err
	}
	config.MaxConns = beside // as many as it has callers
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	r := &riverQueue{pool: pool, schema: b.freshSchema()}
	if err := r.migrate(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return r, nil
}

func (r *riverQueue) migrate(ctx context.Context) error {
	if _, err := r.pool.Exec(ctx, "create schema "+r.schema); err != nil {
		return err
	}
	driver := riverpgxv5.New(r.pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: r.schema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	r.args.Payload = string(payloadJSON[len(`{"payload":"`) : len(payloadJSON)-len(`"}`)])
	r.client, err = river.NewClient(driver, &river.Config{Schema: r.schema, Logger: slog.New(slog.DiscardHandler)})
	return err
}

func (r *riverQueue) close(ctx context.Context) error {
	defer r.pool.Close()
	_, err := r.pool.Exec(ctx, "drop schema "+r.schema+" cascade")
	return err
}

// riverRows takes one round, of what our rows in process do as well.
func (b *bench) riverRows(ctx context.Context, r *riverQueue) error {
	if err := r.clear(ctx); err != nil {
		return err
	}
	on := store{name: "river", durable: true}
	err := b.callers(ctx, b.sheet.row(insertInside, on, "items/s"), func(ctx context.Context) error {
		_, err := r.client.Insert(ctx, r.args, nil)
		return err
	})
	if err != nil {
		return err
	}
	if err := r.clear(ctx); err != nil {
		return err
	}
	if err := r.fill(ctx, b.plan.jobs); err != nil {
		return err
	}
	return b.riverWork(ctx, r, on)
}

func (r *riverQueue) clear(ctx context.Context) error {
	_, err := r.pool.Exec(ctx, "truncate "+r.schema+".river_job")
	return err
}

func (r *riverQueue) fill(ctx context.Context, n int) error {
	for left := n; left > 0; left -= 1000 {
		jobs := make([]river.InsertManyParams, min(1000, left))
		for i := range jobs {
			jobs[i].Args = r.args
		}
		if _, err := r.client.InsertManyFast(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

// riverWork works a backlog with settings that are best for it: by default River takes a
// hundred jobs in 100 ms. The clock stops at the last job worked, although River says
// that it is completed a little later, in a batch.
func (b *bench) riverWork(ctx context.Context, r *riverQueue, on store) error {
	worker := &riverWorker{want: int64(b.plan.jobs), done: make(chan struct{})}
	workers := river.NewWorkers()
	river.AddWorker(workers, worker)
	client, err := river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		Schema: r.schema, Logger: slog.New(slog.DiscardHandler), Workers: workers,
		FetchCooldown: time.Millisecond, FetchPollInterval: 100 * time.Millisecond,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1000}},
	})
	if err != nil {
		return err
	}
	m, err := newMeter(append([]source{thisProcess}, b.database...))
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	select {
	case <-worker.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := m.rate(b.sheet.row(b.plan.workRow("in process"), on, "items/s"), worker.worked.Load()); err != nil {
		return err
	}
	return client.Stop(ctx)
}
