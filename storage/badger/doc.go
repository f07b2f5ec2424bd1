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
// Commits are Badger's managed transactions, under our numbers. Then a read needs
// no transaction time from Badger, for which it would wait until the commit in
// flight is done: a lookup under the store's lock would stop the gathering.
//
// # What is not
//
//   - A commit that was written in the last second before a power cut, and whose
//     loss the medium hides, may be missing from our own file as well.
//   - Damage inside an older log that waits to become a table is not noticed if a
//     newer log is whole; the window is the time of one flush.
//   - The value log holds nothing: every value is below Badger's threshold, and a
//     commit with a larger one is refused. So there is nothing in it to flush or to
//     collect, and its collector is never run.
package badger
