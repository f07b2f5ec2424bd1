package postgres

import "fmt"

// entryColumns name an item and prove a lease. place is the entry's in the batch,
// from 0.
var entryColumns = []column{
	{"place", "integer"}, {"id", "uuid"}, {"queue", "bigint"}, {"home", "bigint"}, {"counter", "bigint"}, {"random", "bigint"},
}

// lockSQL locks the items of the entries and returns the wanted columns of each as it
// is now, or nulls. The lateral join leaves the planner no choice: it probes the primary
// key once an entry, in the key's order, so that two batches never wait for each other.
func lockSQL(columns string) string {
	return `select e.*, i.*
	from (select * from entry order by id, queue, home) e
	left join lateral (
		select i.counter as has_counter, i.random as has_random, i.held, ` + columns + `
		from {s}.items i
		where i.id = e.id and i.queue = e.queue and i.home = e.home
		for update
	) i on true`
}

// The statuses, by [queue.SettleStatus].
const (
	statusApplied = "1"
	statusStale   = "2"
	statusGone    = "3"
	statusOver    = "4"
	statusUndone  = "5"
	statusBroken  = "6"
)

// The outcomes, by [queue.Outcome].
const (
	outcomeComplete = "1"
	outcomeRetry    = "2"
	outcomeRelease  = "3"
	outcomeBury     = "4"
)

// markSQL leaves a batch's marker, $3, with an answer for each statement of the batch,
// and returns all of them so far. The first statement must not find a marker: whoever
// put it there was told that this batch will never be.
func markSQL(first bool) string {
	if first {
		return `insert into {s}.batches (id, at, answer) select $3::uuid, (select now from clock), jsonb_build_array(answer) from answered returning answer`
	}
	return `update {s}.batches b set answer = b.answer || jsonb_build_array(a.answer) from answered a where b.id = $3 returning b.answer`
}

// micros is a time as answers tell it: microseconds since 1970.
func micros(column string) string { return `(extract(epoch from ` + column + `) * 1000000)::bigint` }

// settleColumns are an entry's arrays, from $4.
var settleColumns = append(append(entryColumns[:len(entryColumns):len(entryColumns)],
	column{"grp", "integer"}, column{"again", "boolean"}, column{"not_live", "boolean"}, column{"outcome", "smallint"},
	column{"wanted_at", "timestamptz"}, column{"delay", "bigint"}, column{"max_attempts", "integer"}, column{"undead", "boolean"},
	column{"dead_queue", "bigint"}, column{"reason", "text"}, column{"last_status", "integer"}, column{"last_error", "text"},
	column{"fresh", "bigint"}, column{"turn", "integer"}, column{"counts", "boolean"},
), recordColumns...)

// What follows the arrays of the entries, if they produce: how many turns there are,
// the turns of the items, the arrays of their guards, of their keys and their own.
var (
	turnsFirst   = 4 + len(settleColumns)
	guardedFirst = turnsFirst + 2
	keysFirst    = guardedFirst + len(guardColumns) + 2
	produceFirst = keysFirst + len(keyColumns)
)

// settleSQL settles entries, of which no two groups are about one place. first says
// whether it is the first statement of its batch, produces whether entries bring items
// along, and bound whether the locks are held of all ordering keys that bind the entries'
// items. Without them the statement is undone if it meets a key that it would need one
// of: where a head leaves, or what stands behind is changed.
//
//   - charged: what a lapse and the outcome make of the counters
//   - ruled: whether each entry is good, and whether its group is
//   - applied: the entries of good groups, with where their items go. What is buried
//     gets its place in the order of the entries, in turn with what they produce. Where it is joined with items it is
//     filtered by equality with outcomes: the planner takes few rows for equal to
//     something, and so probes instead of reading the table.
//   - removed: what is complete, and earlier copies that give way in a dead-letter
//     queue. It is counted by moved, which must not begin before: the copies' keys are
//     taken again.
//   - moved: the others. What stands behind another stays there, unless it is the next.
func settleSQL(first, produces, bound bool) string {
	seqs, seq, overtaken := ``, nextSQL, ``
	if produces {
		overtaken = `
		when l.grp in (select grp from overtaken) then ` + statusBroken
		seqs = fmt.Sprintf(`, seqs as materialized (
	select array(select nextval('{s}.seqs') from generate_series(1, $%d::integer)) as s
)`, turnsFirst) + `, ` + overtakenSQL(guardedFirst)
		seq = `(select s from seqs)[r.turn]`
	}
	keys := withoutKeys
	if bound {
		keys = withKeys
	}
	inserts, check := ``, keys.check
	if produces {
		inserts = settledInsertSQL(bound) + `, `
	}
	if produces && bound {
		check = `
	where ` + arrivedSQL
	}
	text := `with ` + clockSQL + seqs + `, entry as materialized (
	select * from ` + unnestSQL(4, "e", settleColumns) + `
), locked as materialized (
	` + lockSQL(`i.available_at, i.due_at, i.lapse_counts, i.deliveries, i.attempts, i.recoveries, i.max_attempts as own_attempts,
			i.partition, i.created_at, i.updated_at, `+boundSQL+` as bound`+keys.locked) + `
), charged as (
	select l.*, clock.now, lapse.lapsed,
		case when lapse.lapsed then l.available_at else l.due_at end as stands_at,
		l.attempts + (lapse.lapsed and l.lapse_counts)::integer + (l.outcome = ` + outcomeRetry + ` or l.counts)::integer as new_attempts,
		case when not l.not_live and l.outcome in (` + outcomeComplete + `, ` + outcomeRetry + `) then 0
			else l.recoveries + (lapse.lapsed and not l.lapse_counts)::integer end as new_recoveries,
		case when l.own_attempts <> 0 then l.own_attempts else l.max_attempts end as attempts_limit
	from locked l cross join clock
	cross join lateral (select l.not_live and l.held and l.available_at <= clock.now as lapsed) lapse
), limited as (
	select c.*, c.outcome = ` + outcomeBury + ` or c.outcome = ` + outcomeRetry + ` and not c.undead
		and c.attempts_limit > 0 and c.new_attempts >= c.attempts_limit as buries
	from charged c
), judged as (
	select l.*, case` + overtaken + `
		when l.held is null then ` + statusGone + `
		when l.has_counter <> l.counter or l.has_random <> l.random then ` + statusStale + `
		when not l.not_live and not l.held then ` + statusStale + `
		when l.not_live and l.held and not l.lapsed then ` + statusStale + `
		when l.buries and l.dead_queue = 0 then ` + statusOver + `
		when l.again then ` + statusStale + `
		else ` + statusApplied + ` end as status
	from limited l
), ruled as materialized (
	select j.*, bool_and(j.status = ` + statusApplied + `) over (partition by j.grp) as good
	from judged j
), applied as materialized (
	select r.*, case when r.buries then ` + seq + ` end as new_seq,
		case when r.buries then r.dead_queue else r.queue end as new_queue,
		case when r.buries then 0 else r.partition end as new_partition,
		case
			when r.buries then r.now
			when r.outcome = ` + outcomeRelease + ` and r.wanted_at is null and r.delay is null then r.stands_at
			when asked.at < r.now + interval '` + soonMicros + ` microseconds' then r.now
			else asked.at end as new_at
	from (select * from ruled where good order by place) r
	cross join lateral (select coalesce(r.wanted_at, r.now + coalesce(r.delay, 0) * interval '1 microsecond') as at) asked
), removed as (
	delete from {s}.items i
	using (
		select id, queue, home from applied where outcome = ` + outcomeComplete + `
		union
		select id, dead_queue, home from applied
		where buries and outcome in (` + outcomeRetry + `, ` + outcomeBury + `) and dead_queue <> queue
	) r
	where i.id = r.id and i.queue = r.queue and i.home = r.home
	returning i.queue, i.partition, i.held, i.attempts, i.created_at, i.updated_at, ` + boundSQL + ` as bound` + keys.removed + `
), ` + keys.promote + `moved as (
	update {s}.items i set
		queue = a.new_queue, partition = a.new_partition, seq = coalesce(a.new_seq, i.seq),
		attempts = case when a.buries then 0 else a.new_attempts end,
		recoveries = case when a.buries then 0 else a.new_recoveries end,
		last_status = case when a.last_status = 0 and a.last_error = '' then i.last_status else a.last_status end,
		last_error = case when a.last_status = 0 and a.last_error = '' then i.last_error else a.last_error end,
		dead_from = case when a.buries then a.queue else i.dead_from end,
		dead_reason = case when a.buries then a.reason else i.dead_reason end,
		dead_at = case when a.buries then a.now else i.dead_at end,
		dead_status = case
			when not a.buries then i.dead_status
			when a.last_status = 0 and a.last_error = '' then i.last_status
			else a.last_status end,
		dead_attempts = case when a.buries then a.new_attempts else i.dead_attempts end,
		dead_recoveries = case when a.buries then a.new_recoveries else i.dead_recoveries end,
		expires_at = case when a.buries then null else i.expires_at end,
		counter = i.counter + 1, random = a.fresh, held = false, owner = '', lapse_counts = false,
		due_at = a.new_at, available_at = ` + keys.position + `, updated_at = a.now
	from applied a
	where (select count(*) from removed) >= 0
		and a.outcome in (` + outcomeRetry + `, ` + outcomeRelease + `, ` + outcomeBury + `)
		and i.id = a.id and i.queue = a.queue and i.home = a.home
	returning a.queue, a.partition, a.held, a.attempts, a.created_at, a.updated_at,
		a.new_queue, a.new_partition, i.attempts as new_attempts` + keys.moved + `
), changed as (
	select queue, partition, -1 as total, -held::integer as held, -(attempts > 0)::integer as failing,
		-` + sinceEpoch("created_at") + ` as created, case when held then -` + sinceEpoch("updated_at") + ` else 0 end as leased
	from (
		select queue, partition, held, attempts, created_at, updated_at from removed
		union all
		select queue, partition, held, attempts, created_at, updated_at from moved
	) was
	union all
	select new_queue, new_partition, 1, 0, (new_attempts > 0)::integer, ` + sinceEpoch("created_at") + `, 0 from moved
), deltas as (
	insert into {s}.deltas (queue, partition, total, held, failing, created, leased)
	select queue, partition, sum(total), sum(held), sum(failing), sum(created), sum(leased)
	from changed group by queue, partition
	having sum(total) <> 0 or sum(held) <> 0 or sum(failing) <> 0 or sum(created) <> 0 or sum(leased) <> 0
), recorded as (
	` + recordSQL(`
		select place, 1 as turn, now, `+lapseRecord+` as type, 0 as next, id, queue, home, deliveries, null::timestamptz as next_at,
			'' as subscription, null::timestamptz as started_at, 0 as duration, '' as verdict, 0 as status_code, '' as error,
			null::bytea as response, '' as node
		from applied where lapsed
		union all
		select place, 2, now, record_type,
			case when buries then `+stepBury+` when outcome = `+outcomeRetry+` then `+stepRetry+`
				when outcome = `+outcomeRelease+` then `+stepRelease+` else `+stepComplete+` end,
			id, queue, home, deliveries,
			case when not buries and outcome <> `+outcomeComplete+` then `+keys.told+` end,
			subscription, started_at, duration, verdict, status_code, error, response, node
		from applied a where record_type is not null
	`) + `
), said as (
	select place, ` + statusApplied + ` as status, buries and outcome = ` + outcomeRetry + ` as buried, ` + keys.told + ` as at, new_partition as partition
	from applied a where outcome <> ` + outcomeComplete + `
	union all
	select place, case status when ` + statusApplied + ` then ` + statusUndone + ` else status end, false, null, 0
	from ruled where not good
), ` + inserts + `answered as materialized (
	select jsonb_build_object('now', ` + micros("clock.now") + `, 'entries', (
		select jsonb_agg(jsonb_build_array(place, status, buried, ` + micros("at") + `, partition)) from said
	)` + keys.answer + `) as answer
	from clock` + check + `
), mark as (
	` + markSQL(first) + `
)`
	return text + `
select answer from mark`
}

// settledInsertSQL inserts what entries of good groups produce, each in its turn.
func settledInsertSQL(bound bool) string {
	where := `(f.grp in (select place from applied)) is true and ` + keyedSQL
	seq := fmt.Sprintf(`(select s from seqs)[($%d::integer[])[f.ord]]`, turnsFirst+1)
	// Ids are not always new, as those of what is redriven to a topic: by their order two
	// transactions that insert the same never wait for each other.
	const order = `f.id, f.queue`
	insert := insertAtSQL(produceFirst, where, seq, `f.due`, order)
	if bound {
		insert = insertBoundSQL(produceFirst, where, seq, order, "gone")
	}
	return keySQL(keysFirst, `k.entry in (select place from applied)`) + `, ` + insert
}

// settleKeys are the parts of [settleSQL] that are about ordering keys.
type settleKeys struct {
	locked, removed, moved string // columns
	promote                string // comes before moved
	position, told         string // where an item of applied a is put, and where its settler hears that it is
	answer, check          string // ends of answered
}

var withoutKeys = settleKeys{
	position: `a.new_at`, told: `a.new_at`,
	check: `
	where ` + unboundSQL(`select from removed where bound
		union all
		select from applied a where a.bound and (a.buries or `+follows+`)`),
}

// follows says of an item of applied a that a head is before it and that it goes nowhere.
const follows = `a.available_at >= ` + foreverSQL + ` and a.bound and not a.buries`

const stays = `((a.id, a.queue, a.home) in (select id, queue, home from next)) is not true`

// An entry that makes another one the head may come after the one that settles that: then
// it was not told yet.
var withKeys = settleKeys{
	locked:  `, i.ordering_key, i.seq`,
	removed: `, i.id, i.home, i.ordering_key, i.seq, i.available_at`,
	moved:   `, ` + follows + ` as followed, i.available_at as at`,
	promote: promoteSQL(`select queue, ordering_key, seq from removed where bound and available_at < `+foreverSQL+`
		union all
		select queue, ordering_key, seq from applied where bound and buries and available_at < `+foreverSQL,
		`select id, queue, home from removed where bound
	union all
	select id, queue, home from applied where bound and buries`, `applied`) + `, `,
	position: `case when ` + follows + ` and ` + stays + ` then ` + foreverSQL + ` else a.new_at end`,
	told: `case when ` + follows + ` and (` + stays + ` or exists (
			select from applied l
			where l.bound and (l.buries or l.outcome = ` + outcomeComplete + `) and l.place > a.place
				and l.queue = a.queue and l.ordering_key = a.ordering_key and l.seq < a.seq
		)) then ` + foreverSQL + ` else a.new_at end`,
	answer: `, 'promoted', ` + promotionsSQL(`select queue, partition, at from promoted
		union all
		select new_queue, new_partition, at from moved where followed and at < `+foreverSQL),
}

// settleTexts are the forms, by first, produces and bound.
var settleTexts = [2][2][2]string{
	{{settleSQL(false, false, false), settleSQL(false, false, true)}, {settleSQL(false, true, false), settleSQL(false, true, true)}},
	{{settleSQL(true, false, false), settleSQL(true, false, true)}, {settleSQL(true, true, false), settleSQL(true, true, true)}},
}

// keyColumns are the idempotency keys of items to produce: row is the place of the item's
// first copy among them, from 1, and copies how many follow each other.
var keyColumns = []column{
	{"row", "bigint"},
	{"copies", "integer"},
	{"entry", "integer"},
	{"scope", "bigint"},
	{"call", "boolean"},
	{"key", "bytea"},
	{"hash", "bytea"},
	{"item", "uuid"},
	{"queue", "bigint"},
	{"ttl", "bigint"},
}

// keySQL takes the idempotency keys that are not known, each for the first item that
// has it and does not live already, which is probed for each. where is a condition on the
// rows k of keyed. Keys are taken in their order, so
// that two batches never wait for each other.
func keySQL(first int, where string) string {
	return `keyed as materialized (
	select * from ` + unnestSQL(first, "k", keyColumns) + `
), keyed_rows as materialized (
	select k.row as first, k.row + n as row from keyed k cross join generate_series(0, k.copies - 1) n
), offered as materialized (
	select distinct on (k.scope, k.call, k.key) k.*
	from keyed k
	where (` + where + `) is true
		and (select i.id from {s}.items i where i.id = k.item and i.queue = k.queue and i.home = k.queue) is null
	order by k.scope, k.call, k.key, k.row
), taken as (
	insert into {s}.dedupe as d (scope, call, key, hash, item, until)
	select o.scope, o.call, o.key, o.hash, o.item, clock.now + o.ttl * interval '1 microsecond'
	from offered o cross join clock
	order by o.scope, o.call, o.key
	on conflict (scope, call, key) do update set hash = excluded.hash, item = excluded.item, until = excluded.until
		where d.until <= (select now from clock)
	returning d.scope, d.call, d.key
)`
}

// keyedSQL is the condition on fresh items f that their key, if they have one, was
// taken for them. "Is true" keeps the planner from making joins of what it can look up
// in a hash.
const keyedSQL = `(f.ord not in (select row from keyed_rows) or f.ord in (
		select r.row from keyed_rows r where (r.first in (
			select o.row from offered o where ((o.scope, o.call, o.key) in (select scope, call, key from taken)) is true
		)) is true
	))`
