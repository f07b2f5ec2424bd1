// Package harness runs the real program under test: it builds it once for a test
// process, starts servers on free ports, and ends each by its own process id.
//
// A package that uses it has
//
//	func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
//
// which removes what Build made. Only the goroutine that runs the test may call
// what takes a testing.TB or ends in a failure of the test.
package harness
