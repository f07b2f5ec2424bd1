// Package postgres is a store on PostgreSQL, shared by any number of equal nodes.
//
// The database is the only truth and owns the clock. Each batch of a verb is one
// statement, or a few in one pipeline: one round trip and one commit. A batch is
// retried whole after a deadlock or a serialization failure. If the connection is
// lost after it was sent, nobody knows whether it was committed: each batch leaves a
// marker with what a repeat has to answer, and the marker is asked on a new connection,
// where inserting it waits for the old backend to end.
//
// # Ordering keys
//
// Items behind the head of their key are at the end of time, where no claim looks, so a
// claim is the same with keys and without. Whoever puts an item where its key lives, or takes
// a head out, holds the key's lock, an advisory one of the transaction, by a statement of
// its own that comes first in the same pipeline: no round trip more, but the lock is held
// until the commit, so that a key has one commit at a time. What takes more than some
// hundreds of locks at once shuts out all others that have keys.
//
//   - What has no keys sends what it did before. Produce and Put see from their items
//     whether they need locks, and then send two statements.
//   - Settle and Purge do not: a node remembers for a minute in which queues it met keys,
//     by what it leases, settles and purges, and sends two statements for batches that name
//     one of these. Elsewhere it sends one, which undoes itself if it would need a lock, and
//     is sent again. A purge looks first what it is about.
//   - Move always looks first, and sends two statements where it finds keys.
//
// An item with a key has one index entry more, and one behind its head two more.
//
// # Sessions
//
// Nothing depends on a session: names are qualified by the schema, settings are
// set by each connection when it begins, and no lock outlives its transaction. Through a
// pooler in transaction mode the URL needs default_query_exec_mode=exec, since such
// poolers of old do not know prepared statements.
package postgres
