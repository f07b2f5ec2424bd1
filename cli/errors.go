package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/posthaste-io/posthaste/api/client"
)

// Exit statuses beside 0.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitUnreached   = 4
	exitNothing     = 5
	exitInterrupted = 130
)

// ExitStatuses says what the exit statuses of these commands mean, for people. 3 is not
// among them: it is a server's.
const ExitStatuses = `0 done; 1 refused, not found, or did not work; 2 the command line makes no sense;
4 no server was reached, or it takes no calls now; 5 nothing came or ended in the time
that was given; 130 interrupted before it was done.`

// statusError is an error with the status that the program ends with.
type statusError struct {
	error
	status int
}

func (e *statusError) Unwrap() error { return e.error }

// ExitStatus is what the program should end with.
func (e *statusError) ExitStatus() int { return e.status }

func usagef(format string, args ...any) error {
	return &statusError{fmt.Errorf(format, args...), exitUsage}
}

// nothingf is for what did not happen in its time, which is no fault.
func nothingf(format string, args ...any) error {
	return &statusError{fmt.Errorf(format, args...), exitNothing}
}

// explain gives an error its exit status, and a refusal of the server the lines that
// help to find it again.
func explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*statusError](err); ok {
		return err
	}
	refused, ok := errors.AsType[*client.Error](err)
	switch {
	case ctx.Err() != nil && (!ok || refused.Err != nil):
		text := fmt.Sprintf("interrupted (%v)", context.Cause(ctx))
		if ok && refused.Uncertain {
			text += fmt.Sprintf("; whether %s was done is not known", refused.Method)
		}
		return &statusError{errors.New(text), exitInterrupted}
	case !ok:
		return &statusError{err, exitFailed}
	}
	return &statusError{fmt.Errorf("%s%w", refusalText(err, refused), silent{err}), statusOf(refused)}
}

// silent keeps an error in a chain whose text is told in other words.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }

// statusOf says whether the server refused, or rather did not answer.
func statusOf(e *client.Error) int {
	switch e.Status {
	case 0, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return exitUnreached
	default:
		if e.CodeText == "" {
			return exitUnreached // somebody else answered
		}
		return exitFailed
	}
}

// refusalText is err's text, which is the server's message and what we were about, with
// its field and request id on lines of their own.
func refusalText(err error, e *client.Error) string {
	var b strings.Builder
	b.WriteString(printable(strings.Replace(err.Error(), "posthaste: ", "", 1)))
	more := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "\n  %s: %s", name, printable(value))
		}
	}
	if field := e.Details["field"]; !strings.HasPrefix(e.Message, field) {
		more("field", field)
	}
	more("cause", e.Details["cause"])
	more("request id", e.RequestID)
	if e.Uncertain {
		more("note", "it may have been done all the same")
	}
	if e.CodeText == client.CodeUnauthenticated {
		more("hint", "$POSTHASTE_KEY or --key-file give the key")
	}
	return b.String()
}

// statusOfAny is the exit status of any error of the client.
func statusOfAny(err error) int {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return statusOf(e)
	}
	return exitFailed
}
