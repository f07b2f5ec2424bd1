-- Ordering keys: who is before whom, and who waits.
--
-- Until now no item has a key, so these are made empty. They are looked for in the whole
-- table, though, and until that is done nothing can be written.

-- The items that a key binds: it does not bind what is dead. Keys are compared as bytes.
create index items_bound on {s}.items (queue, ordering_key collate "C", seq)
	where ordering_key <> '' and dead_from is null;
drop index {s}.items_ordering;
-- What stands behind another, by its place in the order of arrival and by its key.
create index items_behind on {s}.items (queue, partition, seq)
	where available_at >= '294247-01-01 00:00:00+00';
create index items_waiting on {s}.items (queue, ordering_key collate "C")
	where available_at >= '294247-01-01 00:00:00+00';
