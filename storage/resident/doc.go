// Package resident is what one-process stores share: the order of all items in
// memory, as a state machine under one lock, over a [Disk] that a backend brings.
//
// # The order
//
// An item that nobody touched is 64 bytes without a pointer in a slab, and a
// four-byte slot in an index and in the ring of its partition: at most 100 bytes
// of heap in all. What was leased or moved has a second record beside it.
//
// A partition is three sequences and its order is their merge: a ring of what
// was available when it came in; a tree of what has another place (scheduled,
// retrying, released to where it stood); a tree of what is held, by deadline. Its
// head is the least of three heads. Nothing walks the backlog, what is held, or
// what is gone; lists and sweeps work in pages.
//
// # Writing
//
// A verb runs in memory, one group after the other, and hands each group's writes
// to the Disk before it goes on; then it waits, without the lock, for the last of
// them to be durable, and only then answers. Many callers' groups meet in one
// commit that way. What one verb saw of another that is not durable yet becomes
// durable before it: commits go in order, and a verb waits for what it saw. What
// was appended cannot be taken back, so any error of a Disk's commit ends the store.
//
// The Disk is an ordered set of bytes, and the keys are drawn here, in keys.go:
// whatever keeps ordered keys and commits atomically can be a backend, and none
// has a layout of its own to get wrong.
//
// # What does not fit into memory
//
// See cold.go. Documents are always in memory; contents and the journal are read
// from the Disk, but for a volatile store, which keeps contents in memory and
// writes no states.
//
// # What copies share
//
// See shared.go. The copies of a topic's item have one content on the Disk. It is named by
// topic, id and the number of the first copy, not by topic and id alone: the same item may
// come to the topic again while copies of it live, with other bytes, and would have to write
// over theirs. Nor need an end and an insert of the same item know of each other that way.
//
// An entry says which of the copies it is in two bytes that were free, and the topic stands
// beside its home in a table, so that copies cost no more memory than other items. There is
// no count of them, in memory or on the Disk: one in memory would have to hold what does
// not fit there, and one on the Disk would be read and written by every end. Whether a copy
// is left is asked at each end instead, and where that would take a read, by Tidy later.
//
// # Limits
//
// Copies of one item in many queues lie in one probe run of the index, so that
// Find needs no second index; with n copies a lookup takes up to n steps. Memory
// that items took is used again, and not given back. A Disk that cannot read in
// the middle of a group ends the store.
package resident
