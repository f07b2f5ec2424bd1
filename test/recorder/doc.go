// Package recorder keeps the history of a test run outside the store under
// test: what producers, consumers, receivers and the test itself asked for, and
// what they were told, one line of JSON an event, only ever appended.
//
// An operation is two events that share a number: its invocation, written before
// the first byte is sent, and its end, written after the last byte came. The end
// says one of three things: ok, the server said that it was done; fail, the
// server said that nothing was done (or no byte reached it); unknown, anything
// else. What has no end at all is unknown too: it may take effect at any later
// time, or never.
//
// The history says nothing about right and wrong; package judge does.
package recorder
