package webhooks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"
)

// maxError bounds [Result.Error], in bytes.
const maxError = 400

// What carriers say in the same words.
const textNoAnswer = "the connection ended without an answer"

var textTooLargeHeaders = fmt.Sprintf("more than %d bytes of headers", maxHeaderAnswer)

func failure(verdict Verdict, class, text string, took time.Duration) Result {
	return Result{Verdict: verdict, Class: class, Error: cleanError(class + ": " + text), Duration: took}
}

// explain turns the error of a round trip into a verdict, a class and a text.
func (a *attempt) explain(ctx context.Context, err error) (Verdict, string, string) {
	if ctx.Err() != nil {
		return Aborted, ClassCanceled, context.Cause(ctx).Error()
	}
	if errors.Is(err, errBlocked) {
		return Blocked, ClassBlocked, errBlocked.Error()
	}
	class, text := a.classify(err)
	return Retryable, class, text
}

func (a *attempt) classify(err error) (class, text string) {
	var (
		handshake *handshakeError
		dns       *net.DNSError
		op        *net.OpError
	)
	switch {
	case errors.As(err, &handshake):
		return a.classifyHandshake(handshake.err)
	case !time.Now().Before(a.deadline) && a.via != nil:
		return ClassTimeout, fmt.Sprintf("no answer within %s", a.timeout)
	case !time.Now().Before(a.deadline):
		return ClassTimeout, fmt.Sprintf("no connection within %s", a.timeout)
	case errors.As(err, &dns):
		// Without the address of the name server, which the whole text has.
		return ClassDNS, fmt.Sprintf("look up %s: %s", dns.Name, dns.Err)
	case errors.As(err, &op) && op.Op == "dial":
		return classifyDial(op), err.Error()
	case a.via == nil:
		return ClassUnreachable, err.Error()
	default:
		return a.via.explain(err)
	}
}

func (a *attempt) classifyHandshake(err error) (class, text string) {
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return ClassTLSTimeout, fmt.Sprintf("no TLS handshake within %s", min(a.timeout, handshakeTimeout))
	case errors.As(err, &record):
		return ClassTLS, "the endpoint does not speak TLS on this port"
	default:
		return ClassTLS, err.Error()
	}
}

// tlsAlert says whether the endpoint ended a connection in words of TLS. In TLS 1.3 it
// refuses a client certificate only when the request is on its way.
func tlsAlert(err error) (text string, ok bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return "", false
	}
	return "the endpoint ended the connection: " + op.Err.Error(), true
}

func classifyDial(op *net.OpError) string {
	switch {
	case op.Timeout():
		return ClassTimeout
	case errors.Is(op, syscall.ECONNREFUSED):
		return ClassRefused
	case errors.Is(op, syscall.ECONNRESET):
		return ClassReset
	default:
		return ClassUnreachable
	}
}

// unquoted cuts a text before what it quotes of an answer: an endpoint may send back what
// we sent to it, credentials and all.
func unquoted(text string) string {
	text, _, _ = strings.Cut(text, `"`)
	return strings.TrimRight(text, " :")
}

// cleanError makes a text fit for logs, terminals and databases, whatever an
// endpoint put into it.
func cleanError(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
	return clip(text, maxError)
}
