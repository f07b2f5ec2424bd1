// Package v1 holds the messages of the HTTP interface, generated from the .proto
// files beside it, and nothing else.
//
// In JSON, names are snake_case, bytes base64, instants RFC 3339. Durations are
// texts such as 90s or 1m30s; there are no 64-bit integers, so that every
// language's JSON reader gets the number that was sent.
package v1

//go:generate go run ./gen
