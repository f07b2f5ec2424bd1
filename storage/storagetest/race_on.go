//go:build race

package storagetest

// Random sequences are one goroutine: the race detector finds nothing in them and
// makes them eight times as slow.
const defaultSequences = 40
