// Package api is the HTTP interface: it reads calls, strictly, asks the broker and
// the subscriptions, and writes answers.
//
// A call is POST /v1/<method> with one message in and one message out, in JSON or
// protobuf; see the .proto files in api/v1. One wrapper, [method], does for every call what every
// call needs: it bounds the body, reads it, asks whether the caller may, sets the
// deadline, and turns what comes back into an answer. errors.go alone knows which
// error is which status.
//
// What is promised: a body is read whole or refused, never cut; a field, header or
// method of a later release is refused, never ignored; items of a lease whose
// answer could not be written are given back at once; a line of the log for each
// request, without payloads and without keys.
package api
