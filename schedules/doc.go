// Package schedules keeps cron schedules and fires them: exactly one item for each of a
// schedule's times, for any number of nodes, restarts and crashes.
//
// A schedule is a document. It fires by one write, which puts the items of the times that
// are due and the next time in one transaction, guarded by the document's revision: of
// several nodes that see it due one writes, and the others do nothing. So there is no
// leader, and nothing in memory that a crash could lose. Should the outcome of the write
// not be known, the repeat either finds the revision gone, or an idempotency key by the
// schedule and the time.
//
// A time is one of the expression's. A schedule fires then, moved by its jitter, which is a
// hash of its id: the same each time, and another for each schedule.
package schedules
