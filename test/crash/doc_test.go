// Package crash_test kills the real binary while it works, many times, on one
// directory, and asks a judge outside the store whether every promise was kept.
//
// Producers, consumers and a receiver write down what they asked for and what
// they were told (package recorder). After the last kill the server runs
// undisturbed until its queues are empty; then the history and the journal of
// the stopped store go to package judge, whose own tests prove that it catches
// each kind of fault.
//
// POSTHASTE_CRASH_KILLS raises the number of kills, POSTHASTE_CRASH_SEED repeats
// a run's choices (not its timing).
package crash_test
