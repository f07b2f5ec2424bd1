// Package storagetest judges stores, and stands in for them.
//
// [Run] is the conformance suite: a backend is done when it passes. It says with
// one subtest each what the contract in queue/store.go and storage/storage.go
// asks for, and then compares the store with [Model], the contract in its
// plainest form, over random sequences of calls.
//
// [Faulty] wraps a store and fails on command; [Clock] is the time that stores
// are given. Both are for the tests of everything above the seam, too.
//
// What the suite does not judge: speed, and what a store does after a power cut.
package storagetest
