// Package postgres is a store on PostgreSQL, shared by any number of equal nodes.
//
// The database is the only truth and owns the clock. Each batch of a verb is one
// statement, or a few in one pipeline: one round trip and one commit. A batch is
// retried whole after a deadlock or a serialization failure. If the connection is
// lost after it was sent, nobody knows whether it was committed: each batch leaves a
// marker with what a repeat has to answer, and the marker is asked on a new connection,
// where inserting it waits for the old backend to end.
//
// Nothing depends on a session: names are qualified by the schema, settings are
// set by each connection when it begins, and no lock outlives its transaction. Through a
// pooler in transaction mode the URL needs default_query_exec_mode=exec, since such
// poolers of old do not know prepared statements.
package postgres
