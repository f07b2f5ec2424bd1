//go:build !race

package schedules_test

const slower = 1
