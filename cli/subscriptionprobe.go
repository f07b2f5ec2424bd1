package cli

import (
	"context"
	"fmt"

	"github.com/posthaste-io/posthaste/api/client"
)

type subscriptionsTestCommand struct {
	subscriptionName
	Payload *string `arg:"" optional:"" help:"What is sent. Without it and --file it is a sample of the server's."`

	File      string            `short:"f" placeholder:"FILE" help:"Send what this file holds; - is standard input."`
	Kind      string            `short:"k" placeholder:"KIND" help:"What it is, such as order.paid."`
	Encoding  string            `short:"t" placeholder:"TYPE" help:"Media type of the payload. Default application/json for an object or a list, text/plain for other text."`
	Reference string            `placeholder:"TEXT" help:"A note of yours."`
	Header    map[string]string `short:"H" sep:"none" mapsep:"none" placeholder:"NAME=VALUE" help:"Sent along. May be repeated."`
	targetFlags
	connection
}

// run implements Command.
func (f *subscriptionsTestCommand) run(ctx context.Context, c *console) error {
	item, err := f.item(ctx, c)
	if err != nil {
		return err
	}
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		a, err := cl.TestSubscription(ctx, f.Subscription, item)
		if err != nil {
			return err
		}
		if f.JSON {
			err = c.object(attemptViewOf(a))
		} else {
			err = outcomeRecord(a).print(c)
		}
		if err == nil && isFailure(a) {
			err = &statusError{fmt.Errorf("%s: the endpoint did not take it: %s", f.Subscription, printable(a.Verdict)), exitFailed}
		}
		return err
	})
}

// item is what is to be sent, nil for the server's sample.
func (f *subscriptionsTestCommand) item(ctx context.Context, c *console) (*client.Item, error) {
	if f.Payload != nil && f.File != "" {
		return nil, usagef("a payload and --file: want one of them")
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	var payload []byte
	var err error
	switch {
	case f.Payload != nil:
		payload = []byte(*f.Payload)
	case f.File == "-":
		payload, err = readPayload(ctx, c, "")
	case f.File != "":
		payload, err = readPayload(ctx, c, f.File)
	case f.Kind == "" && f.Encoding == "" && f.Reference == "" && len(f.Header) == 0 && f.target() == nil:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	attributes := itemFlags{Kind: f.Kind, Encoding: f.Encoding, Reference: f.Reference, Header: f.Header, targetFlags: f.targetFlags}
	return new(attributes.item(payload)), nil
}

// outcomeRecord shows what came of a push. The answer is an endpoint's, which may be
// anybody's: it stands on one line, escaped.
func outcomeRecord(a client.Attempt) *record {
	r := new(record)
	r.paint("verdict", a.Verdict, verdictColour(a))
	r.set("status", count(a.Status))
	r.set("took", shortSpan(a.Duration))
	r.paint("error", a.Error, red)
	r.set("item", a.ItemID)
	r.set("node", a.Node)
	if len(a.Response) > 0 {
		r.set("answer", excerpt(a.Response, len(a.Response)))
	}
	return r
}
