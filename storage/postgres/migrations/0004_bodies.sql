-- Payloads that the copies of a topic's item share. items.body_ref, which is there since the
-- beginning, refers to one; the item's own body is null then.
--
-- This makes a table and locks nothing.

create table {s}.bodies (
	ref uuid primary key,
	item uuid not null,
	made_at timestamptz not null,
	look_at timestamptz not null, -- when to look again whether any row refers to it
	body bytea not null
) with (
	autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
	autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
	autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000,
	autovacuum_vacuum_cost_delay = 0,
	toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 5000,
	toast.autovacuum_vacuum_cost_delay = 0
);
alter table {s}.bodies alter column body set storage external;
create index bodies_look on {s}.bodies (look_at);
