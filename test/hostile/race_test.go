//go:build race

package hostile_test

// instrumented programs need several times the memory.
const instrumented = true
