// Package crash_test breaks the real binary while it works, many times, on one
// store, and asks a judge outside the store whether every promise was kept. Nodes
// are killed, one on a directory or three on a database, and so is the database
// that nodes work on.
//
// Producers, consumers and a receiver write down what they asked for and what
// they were told (package recorder). After the last fault the nodes run
// undisturbed until their queues are empty; then the history and the journal of
// the store go to package judge, whose own tests prove that it catches each kind
// of fault.
//
// POSTHASTE_CRASH_KILLS and POSTHASTE_CRASH_RESTARTS raise the number of faults,
// POSTHASTE_CRASH_SEED repeats a run's choices (not its timing).
package crash_test
