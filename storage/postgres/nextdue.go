package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
)

// nextDueSQL goes from partition to partition by one probe of the claim's index each,
// which ends at the partition's earliest position.
const nextDueSQL = `with recursive ` + clockSQL + `, part as (
	(
		select i.queue, i.partition, i.available_at from {s}.items i
		where i.available_at < ` + foreverSQL + `
		order by i.queue, i.partition, i.available_at, i.seq limit 1
	)
	union all
	select n.queue, n.partition, n.available_at
	from part p cross join lateral (
		select i.queue, i.partition, i.available_at from {s}.items i
		where i.available_at < ` + foreverSQL + ` and (i.queue, i.partition) > (p.queue, p.partition)
		order by i.queue, i.partition, i.available_at, i.seq limit 1
	) n
)
select clock.now, p.queue, p.partition, p.available_at from clock left join part p on true`

// NextDue implements [queue.Store].
func (s *Store) NextDue(ctx context.Context) (queue.DueAnswer, error) {
	return read(ctx, s, func(ctx context.Context, conn *pgxpool.Conn) (answer queue.DueAnswer, err error) {
		batch := &pgx.Batch{}
		batch.Queue(probingSQL)
		batch.Queue(s.text(nextDueSQL), clockArgs(&s.clock)...)
		err = pipeline(ctx, conn, batch, func(results pgx.BatchResults) error {
			if _, err := results.Exec(); err != nil {
				return err
			}
			rows, err := results.Query()
			if err != nil {
				return err
			}
			var (
				number    *int64
				partition *int32
				at        *time.Time
			)
			_, err = pgx.ForEachRow(rows, []any{&answer.Now, &number, &partition, &at}, func() error {
				if number != nil {
					answer.Queues = append(answer.Queues, queue.QueueDue{Queue: queue.Number(*number), Partition: *partition, At: at.UTC()})
				}
				return nil
			})
			return err
		})
		answer.Now = s.clock.saw(answer.Now)
		return answer, err
	})
}
