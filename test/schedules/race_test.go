//go:build race

package schedules_test

// slower is by how much the race detector slows what is measured.
const slower = 5
