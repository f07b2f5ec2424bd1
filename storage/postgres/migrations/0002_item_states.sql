-- No item may be where nobody finds it: held without a token or without an end, or waiting
-- for ever without anything before it.
--
-- This locks items for a moment, in which nothing is read or written. Rows that are there
-- are not looked at, but are when they are changed.

alter table {s}.items add constraint items_state check (
	isfinite(available_at)
	and (not held or counter > 0)
	and (available_at < '294247-01-01 00:00:00+00' or not held and ordering_key <> '')
) not valid;
