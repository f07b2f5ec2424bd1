// Package webhooks is one signed HTTP request, the guard that decides where it
// may go, and the verdict on what came back. Receivers import it as well, to
// verify what they were sent.
//
// # Sending
//
// [Sender.Send] makes one attempt and answers with a verdict, never an error: the
// caller always has something to settle with. An attempt is one POST on the wire.
// No redirect is followed, no proxy or cookie is used, and nothing of which a byte
// may have reached the endpoint is sent again. One deadline covers the whole of it.
// The status line and headers decide; a body that is endless, slow or broken
// changes nothing about a 2xx.
//
// The body is sent as given, byte for byte, and signed as Standard Webhooks 1.0.0
// lays down: HMAC-SHA256 or ed25519 over id.timestamp.body, one signature for each secret.
//
// The requests are written and their connections kept by this package; the answers are
// read by net/http. Its client would do, but repeats what it takes for safe to repeat, lets
// a dial outlive the attempt that asked for it, does not tell how far a request got, and
// has two goroutines for each connection: three fifths of the processor time of a push
// were its own.
//
// [Credentials] are what an endpoint wants to see beside the signature: basic, bearer, a
// token by OAuth2, a client certificate, or authorities of its own. Connections are shared
// only by requests of one tenant that show the same certificate and trust the same
// authorities.
//
// HTTP/2 is for endpoints that want it ([Request.HTTP2]). There net/http reads and writes the
// frames, one connection at a time and without its pool, so that here, too, nothing is sent
// twice; what an endpoint may send for one request is counted below it.
//
// # The guard
//
// [Guard] judges the address that is really dialled, after name resolution, so
// that a name which resolves differently the next time gains nothing. Everything
// that is not globally routable is denied unless the operator listed it.
//
// # Receiving
//
//	receiver, err := webhooks.NewReceiver(handler, webhooks.ReceiverOptions{
//		Secrets: strings.Fields(os.Getenv("WEBHOOK_SECRET")),
//		History: webhooks.NewMemoryHistory(0),
//	})
//
// [Receiver] stands before a handler and passes on only what is signed, with what the
// headers say as a [Delivery]. [Verifier] is the part of it for who has a framework of
// their own.
//
// An item is delivered at least once: remember webhook-id for as long as repeats would
// hurt, best where the work's result is kept. [History] is the place for it.
//
// [ReadCloudEvent] reads what a request says as a CloudEvent, if it says so.
//
// # What is not here
//
// HTTP/2 without TLS. Retries, breakers and budgets belong to the caller.
package webhooks
