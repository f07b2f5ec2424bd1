-- Items, and what keeps them honest. {s} is the schema. Times are the database's.

create sequence {s}.seqs as bigint;
create sequence {s}.revisions as bigint;

create table {s}.items (
	id uuid not null,
	queue bigint not null,
	home bigint not null,
	partition integer not null,
	seq bigint not null default nextval('{s}.seqs'),
	created_at timestamptz not null,
	updated_at timestamptz not null,
	first_due_at timestamptz not null,
	due_at timestamptz not null,
	available_at timestamptz not null,
	held boolean not null default false,
	lapse_counts boolean not null default false,
	counter bigint not null default 0,
	random bigint not null default 0,
	owner text not null default '',
	generation integer not null default 0,
	deliveries integer not null default 0,
	attempts integer not null default 0,
	recoveries integer not null default 0,
	max_attempts integer not null default 0,
	expires_at timestamptz,
	size integer not null,
	kind text not null default '',
	ordering_key text not null default '',
	source_id text not null default '',
	last_status integer not null default 0,
	last_error text not null default '',
	dead_from bigint,
	dead_reason text,
	dead_at timestamptz,
	dead_status integer,
	dead_attempts integer,
	dead_recoveries integer,
	attributes bytea not null,
	body bytea,
	body_ref uuid,
	primary key (id, queue, home)
) with (
	fillfactor = 80,
	autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
	autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
	autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000,
	autovacuum_vacuum_cost_delay = 0,
	toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 5000,
	toast.autovacuum_vacuum_cost_delay = 0
);
-- Bodies are often compressed already, and are read whole.
alter table {s}.items alter column body set storage external;

-- The claim's. What stands behind another item of its ordering key is at the end of
-- time, and not in it.
create index items_claim on {s}.items (queue, partition, available_at, seq)
	where available_at < '294247-01-01 00:00:00+00';
create index items_ordering on {s}.items (queue, ordering_key, seq) where ordering_key <> '';
-- The sweep's: what a limit may bury.
create index items_held on {s}.items (available_at, id, queue, home) where held;
create index items_expiry on {s}.items (expires_at, id, queue, home) where expires_at is not null;

-- Idempotency keys.
create table {s}.dedupe (
	scope bigint not null,
	call boolean not null,
	key bytea not null,
	hash bytea not null,
	item uuid not null,
	until timestamptz not null,
	primary key (scope, call, key)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
create index dedupe_until on {s}.dedupe (until);

-- Counts: deltas are written by whoever changes items, and folded later. One row for
-- a queue would be locked by everybody.
create table {s}.counts (
	queue bigint not null,
	partition integer not null,
	total bigint not null,
	held bigint not null,
	failing bigint not null,
	created numeric not null, -- sum of created_at of all items, microseconds since 2020
	leased numeric not null, -- sum of updated_at of held items, likewise
	primary key (queue, partition)
);
create table {s}.deltas (
	number bigint generated always as identity primary key,
	queue bigint not null,
	partition integer not null,
	total bigint not null,
	held bigint not null,
	failing bigint not null,
	created numeric not null,
	leased numeric not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Markers of commits, with what a repeat has to answer.
create table {s}.batches (
	id uuid primary key,
	at timestamptz not null default clock_timestamp(),
	answer jsonb
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
create index batches_at on {s}.batches (at);

create table {s}.documents (
	kind text collate "C" not null,
	namespace bigint not null,
	name text collate "C" not null,
	revision bigint not null,
	wake_at timestamptz,
	value bytea not null,
	primary key (kind, namespace, name)
);
create index documents_wake on {s}.documents (kind, wake_at) where wake_at is not null;

-- The journal, in partitions of a day, so that old days are dropped and not deleted.
create table {s}.attempts (
	at timestamptz not null,
	number bigint not null default nextval('{s}.seqs'),
	namespace bigint not null,
	type smallint not null,
	next smallint not null,
	item uuid not null,
	queue bigint not null,
	home bigint not null,
	delivery integer not null,
	next_at timestamptz,
	subscription text not null default '',
	started_at timestamptz,
	duration bigint not null default 0, -- nanoseconds
	verdict text not null default '',
	status integer not null default 0,
	error text not null default '',
	response bytea,
	node text not null default ''
) partition by range (at);
create table {s}.attempts_other partition of {s}.attempts default;
create index attempts_at on {s}.attempts (namespace, at, number);
create index attempts_item on {s}.attempts (namespace, item, at, number);
create index attempts_subscription on {s}.attempts (namespace, subscription, at, number) where subscription <> '';
