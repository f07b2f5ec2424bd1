// Package pgtest gives tests a real PostgreSQL, and ways to break it.
//
// [URL] is a fresh database on a cluster that all tests of the process share;
// [Start] is a cluster of one test's own, which may be stopped, killed and set
// otherwise; a [Proxy] cuts connections at exact points of a transaction; and
// [Bouncer] puts a PgBouncer in between. A package that uses any of them calls
// [Main] from its TestMain.
//
// The shared cluster is the server named by POSTHASTE_TEST_POSTGRES, the URL of
// a database from which databases may be created, and without it a private
// cluster of the newest PostgreSQL programs on the machine, 15 or later. Where
// the programs are missing the test is skipped, and with CI=true it fails: a
// build must not pass because nothing was tested.
//
// Private clusters are as durable as production: fsync and synchronous_commit
// are on. They collate text as people do and not by bytes, so that a statement
// which counts on the order of bytes without saying so is found out.
//
// Nothing outlives the test process, even if it is killed: on Linux the kernel
// then ends the servers, and a janitor, which waits for the process's end,
// removes their files. On other systems servers of a killed process have to be
// ended by hand. Run as root, servers run as another user, since PostgreSQL
// refuses root.
package pgtest
