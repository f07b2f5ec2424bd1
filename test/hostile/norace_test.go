//go:build !race

package hostile_test

const instrumented = false
