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
// What time it is, and what is due by it, the store says: the clock of a node decides nothing.
//
// A change of the settings has what is due fire first, as the settings were, so that it drops
// nothing; where that cannot be it is refused, but for a pause, which has to work when nothing
// else does, and counts what is due as missed.
//
// While a schedule is at most [OnTime] late nothing of it was missed, and all times since are
// produced: a hiccup of the store drops no time of one that fires each second. Later than
// that, what it says of missed times holds for all of them.
//
// What a node cannot read or fire, since another release or machine wrote it, it lets be for a
// minute by itself: the document is not touched, so that a node that can fires it on time.
//
// Its revision is that of its settings, not the document's, which rises with each fire.
//
// A time is one of the expression's. A schedule fires then, moved by its jitter, which is a
// hash of its id: the same each time, and another for each schedule.
package schedules
