// Package cli are the commands that call a server: produce, lease, queues, top, doctor
// and the others. They are written over the client alone, so they do nothing that a
// program of a user could not.
//
// A command prints tables and colours on a terminal, lines with tabs elsewhere, and with
// --json one object a line, whose names are those of the API. What it prints is made
// printable first: endpoints and producers choose some of it, and must not reach into a
// terminal. Questions are asked on terminals alone.
//
// [Run] returns errors that know their exit status; see [ExitStatuses].
package cli
