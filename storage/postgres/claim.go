package postgres

// probingSQL goes before the statements of a claim. Their plans are kept, and one that
// was made while the table was small would read all of it, or join by a hash of it,
// when it is not any more. Without these ways the planner is left with the
// indexes, whatever the statistics say, or if there are none.
const probingSQL = `select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
	set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`

// availableSQL are a partition's items that can be leased: $3 and $4 are queue and
// partition, $5 is where to look from, $6 is how many. Now is a scalar, since a
// volatile function or a join would not bound the index.
const availableSQL = `from {s}.items i
	where i.queue = $3::bigint and i.partition = $4::integer
		and i.available_at >= $5::timestamptz and i.available_at <= (select now from clock)
		and i.available_at < ` + foreverSQL + `
	order by i.available_at, i.seq
	limit $6::bigint
	for update of i skip locked`

const chosenColumns = `i.id, i.queue, i.home, i.available_at, i.seq, i.size, i.held, i.lapse_counts, i.counter, i.deliveries, i.attempts, i.recoveries, i.updated_at,
		gen_random_uuid()::text as lot`

// claimSQL leases what there is for one call, if limits alone decide who gets what:
// $12 are the takers of the first, second, … item, empty if there is but one, $13 are
// the takers' budgets in bytes. One taker stops before the item that would pass its
// budget. Where one of several would, the items after it would go to others than
// $12 says, so that nothing is chosen.
var claimSQL = `with ` + clockSQL + `, picked as materialized (
	select ` + chosenColumns + `
	` + availableSQL + `
), placed as (
	select *, row_number() over (order by available_at, seq) as n from picked
), dealt as (
	select *, coalesce(($12::integer[])[n::integer], 1) as taker from placed
), weighed as (
	select *, sum(size) over (partition by taker order by n) as total, row_number() over (partition by taker order by n) as nth from dealt
), judged as materialized (
	select *, nth = 1 or ($13::bigint[])[taker] = 0 or total <= ($13::bigint[])[taker] as fits from weighed
), chosen as materialized (
	select * from judged
	where fits and (cardinality($13::bigint[]) = 1 or not exists (select from judged where not fits))
)` + leaseSQL

// markFirstSQL leaves the marker $3 before anything is locked, with an answer to which leaseSQL
// adds its lines. Whoever asks what became of the batch then waits until nothing of it is
// locked any more: who tries again passes over what is.
const markFirstSQL = `with ` + clockSQL + `
	insert into {s}.batches (id, at, answer) select $3::uuid, now, '[]' from clock`

// peekSQL locks what claimSQL would pick.
const peekSQL = `with ` + clockSQL + `
	select i.id, i.home, i.size
	` + availableSQL

// dealtSQL leases the items with the keys $5 and $6, in this order, each for the
// taker in $12. They are locked already.
var dealtSQL = `with ` + clockSQL + `, picked as (
	select ` + chosenColumns + `, u.taker, u.n
	from unnest($5::uuid[], $6::bigint[], $12::integer[]) with ordinality as u (id, home, taker, n)
	cross join lateral (select * from {s}.items i where i.id = u.id and i.queue = $3::bigint and i.home = u.home) i
), chosen as materialized (
	select * from picked
)` + leaseSQL

// A join by the queue as a parameter could be planned as one walk of all that the queue
// holds for each item, while the table is small, and that plan is kept. So the queue is
// a column of what is chosen.
//
// leaseSQL leases what is chosen, which is locked and so cannot slip away: $7 is the
// marker, $8 the call's index, $9 to $11 are the takers' owners, flags and times to live
// in microseconds. It answers one row an item, or one with nulls: now, whether anything
// was picked, then place, taker, the position before, and the item.
//
// The random part of a token are 64 of the bits that a UUID has from the database's
// cryptographic source; the others are its version.
//
// The marker's answer has one line a call: the keys, and the counters of the tokens.
// A row without an answer is of somebody who found that the batch was lost: it is not
// added to, and inserting it again fails.
var leaseSQL = `, leased as (
	update {s}.items i set held = true, owner = ($9::text[])[c.taker], lapse_counts = ($10::boolean[])[c.taker],
		counter = c.counter + 1, random = ('x' || right(c.lot, 12) || left(c.lot, 4))::bit(64)::bigint,
		deliveries = c.deliveries + 1,
		attempts = c.attempts + (c.held and c.lapse_counts)::integer,
		recoveries = c.recoveries + (c.held and not c.lapse_counts)::integer,
		due_at = case when c.held then c.available_at else i.due_at end,
		available_at = (select now from clock) + ($11::bigint[])[c.taker] * interval '1 microsecond',
		updated_at = (select now from clock)
	from chosen c
	where i.id = c.id and i.queue = c.queue and i.home = c.home
	returning c.n, c.taker, c.available_at as position, c.held as lapsed, ` + itemColumns("i", true) + `
), lapses as (
	` + recordSQL(`
		select n as place, 1 as turn, (select now from clock) as now, `+lapseRecord+` as type, 0 as next, id, $3::bigint as queue, home, deliveries, null::timestamptz as next_at,
			'' as subscription, null::timestamptz as started_at, 0 as duration, '' as verdict, 0 as status_code, '' as error, null::bytea as response, '' as node
		from chosen where held`) + `
), changes as (
	insert into {s}.deltas (queue, partition, total, held, failing, created, leased)
	select $3::bigint, $4::integer, 0, count(*) filter (where not held), count(*) filter (where held and lapse_counts and attempts = 0), 0,
		count(*) * ` + sinceEpoch("(select now from clock)") + ` - coalesce(sum(` + sinceEpoch("updated_at") + `) filter (where held), 0)
	from chosen having count(*) > 0
), line as materialized (
	select jsonb_build_array(jsonb_build_object('call', $8::integer, 'keys',
		encode(string_agg(uuid_send(id) || int8send(home) || int8send(counter + 1), ''::bytea order by n), 'base64'))) as line
	from chosen having count(*) > 0
), noted as (
	update {s}.batches b set answer = b.answer || l.line from line l where b.id = $7::uuid and b.answer is not null returning b.id
), marked as (
	insert into {s}.batches (id, at, answer) select $7::uuid, (select now from clock), line from line where not exists (select from noted)
)
select clock.now, exists (select from picked), l.* from clock left join leased l on true order by l.n`

// againSQL reads what was leased, by key and by the counter of the token.
var againSQL = `select u.n, ` + itemColumns("i", true) + `
	from unnest($2::uuid[], $3::bigint[], $4::bigint[]) with ordinality as u (id, home, counter, n)
	cross join lateral (select * from {s}.items i where i.id = u.id and i.queue = $1::bigint and i.home = u.home and i.counter = u.counter) i
	order by u.n`
