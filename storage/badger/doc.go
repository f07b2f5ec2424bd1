// Package badger keeps items in a Badger database in one directory that one
// process owns. The order is in memory, see storage/resident; this package is the
// disk below it.
//
// # What is promised
//
// One goroutine commits. It takes everything that waits, writes it in one
// transaction, and wakes all who wait for it; while it syncs, the next commit
// gathers by itself. So a verb that returned is on the medium, and 64 callers
// share a sync. Any error of a commit ends the store: a sync that was refused is
// never tried again, since the kernel may have dropped what it could not write.
//
// A commit costs one flush, and it is ours: Badger's own SyncWrites flushes the value
// log as well, where there is never anything. Our flush stands on what Badger does,
// as of 4.9.6:
//
//   - A transaction is one request to the one goroutine that writes. That goroutine
//     begins a new log before a request if the old one is full, and never within it.
//     So a commit lies whole in the log that is newest when it returns.
//   - Logs are named by numbers that go up by one. To look for the next name after a
//     commit tells whether there was a change.
//   - Badger flushes tables and its manifest always, and removes a log after that.
//   - SyncWrites decides of nothing else but the value log's flush when that is full.
//   - Logs that were found at open are tables soon; until then they are the only place
//     of what is in them, and are flushed before anything is built on it.
//
// Badger opens a damaged log by cutting it off at the first bad record, without a
// word. So each commit carries its number, and the number of the newest is also
// kept in a file of our own, written after the commit and synced every second. If
// the database comes back with less than the file says, [Open] refuses with a
// [DamagedError] that tells how much is missing; the logs as they were found are
// kept beside, with the suffix .found.
//
// Badger ends the process over a damaged table, and removes tables that a damaged
// manifest does not name. So all files are looked at before it opens them: manifest and
// logs whole, of each table the index, and the blocks of the newest gigabyte. That
// takes the place of Badger's own look at every block, and a million small items open
// in 0.9 s (2 cores; 1.2 s before). [Open] refuses with a [FilesError] that names
// the files; with AcceptDataLoss they are renamed to *.damaged, never removed, and a
// manifest of the others is written. What only they had is missing then, and what they
// had deleted may be back; the difference in items and documents is logged. Files that
// Badger has and we put nothing into (value log, DISCARD, KEYREGISTRY) are set aside
// without asking.
//
// While the store is open, all tables are read again every hour at 8 MB a second, and
// at once if not all were read at open. What is found is logged and told by
// [Store.Damage]. Badger takes an unreadable block for the end of its table: a key in
// it is "not there". So from then on reads of keys in it are refused, all others go on.
// A content that is missing or does not check is counted as corrupt, found or not: it
// carries a checksum of its own, and an item that lives has one. States, keys and
// documents have the checksum of their block only, which is verified at each read from
// the file.
//
// A table or a manifest that cannot be written ends the store as a commit does: Badger
// would try again.
//
// Commits are Badger's managed transactions, under our numbers. Then a read needs
// no transaction time from Badger, for which it would wait until the commit in
// flight is done: a lookup under the store's lock would stop the gathering.
//
// # What is not
//
//   - A commit that was written in the last second before a power cut, and whose
//     loss the medium hides, may be missing from our own file as well.
//   - Damage that arises while the store is open and that the walk has not met: until
//     then a deduplication key or a record of the journal in it reads as absent. If
//     Badger merges the table before, what followed the damage in it is dropped; items
//     that are missing are reported at the next open, contents when they are leased.
//   - So it is with what points at a copy of a topic's item that is on the disk only: if
//     that reads as absent, the content that copies share may go with the last of the others,
//     and this one is counted as corrupt. Damage that the walk has met keeps the content, and
//     what points at items is counted, and made anew where it is missing, at each open.
//   - A block that goes bad in memory may end the process while Badger merges it, and
//     so does a medium that cannot read a page of a map (SIGBUS). The next open tells.
//   - A manifest that was cut exactly at a change of its own is whole for us. Tables that
//     it does not name are kept beside as *.found if items or commits turn out missing.
//   - The value log holds nothing: every value is below Badger's threshold, and a
//     commit with a larger one is refused. So there is nothing in it to flush or to
//     collect, and its collector is never run.
package badger
