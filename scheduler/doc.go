// Package scheduler is the only part that waits for time: it wakes queues when
// items fall due, and has lapsed, exhausted and expired items swept.
//
// Waiting is by timer. The broker tells of each due time that it learns, the store
// of the earliest one per queue, at start, after each wake, and once a second, since
// other nodes write to it as well. A wake is a hint: whoever waits on the queue looks
// again, and the store's clock alone says what is due.
package scheduler
