// Package hostile is endpoints that misbehave: a table of scripts that speak raw bytes
// over TCP, TLS and HTTP/2, each with what an attempt that meets it must come to.
//
// It knows nothing of who sends. The sender's own tests run the table against one
// attempt, and the tests of this folder against the whole pipeline on each store.
package hostile
