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
// # Payloads of topics
//
// The copies of a topic's item share their payload if it is not small: it is sent and stored
// once, in bodies, and items refer to it by body_ref. Each insertion makes a name of its own
// for it; the item's id would not do, since an item may come to its topic a second time, by
// a redrive or a repeat, while what it had is being dropped. So:
//
//   - Only the statement that writes a payload inserts items that refer to it. Later nobody
//     begins to: an item is changed and moved under its reference, or deleted, and what is
//     left out since it lives already keeps the one that it has.
//   - A payload is seen by no snapshot in which its items had not come. If a snapshot has
//     the payload and no item that refers to it, they have left, for ever. Tidy looks at both
//     in one, and so it needs no lock against those who insert, lease or settle.
//   - Whoever reads an item reads its payload in the same statement. What Tidy deletes, no
//     snapshot needs that has the item; and an item that was changed since the snapshot, as
//     one may be that is locked, has the reference that it had.
//
// Nothing counts references: whoever ends a copy would have to wait for others of the item.
// Instead Tidy looks for one, by the primary key of items, a minute after a payload came and
// then when it is twice as old as at the last look, once an hour at least. So it stays at
// most an hour longer than it is needed, and one that is needed for long costs little. No
// payload is written for copies that are all left out.
//
// Rows with such a reference have a number of their own before their attributes, by which nodes
// of versions before take them for damage. Those read an item without a payload as one that has
// an empty one.
//
// # Sessions
//
// Nothing depends on a session: names are qualified by the schema, settings are
// set by each connection when it begins, and no lock outlives its transaction. Through a
// pooler in transaction mode the URL needs default_query_exec_mode=exec, since such
// poolers of old do not know prepared statements.
package postgres
