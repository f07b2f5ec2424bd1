package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/posthaste-io/posthaste/api/client"
)

// produceCommand puts one item on a queue, or those of JSON lines.
type produceCommand struct {
	Queue   string  `arg:"" help:"The queue or topic."`
	Payload *string `arg:"" optional:"" help:"The payload. Without it and --file standard input is."`

	File string `short:"f" placeholder:"FILE" type:"existingfile" help:"Read the payload, or the lines, from this file."`

	itemFlags

	Lines       bool `help:"Read items as JSON lines, of file or standard input, with the fields of an item of queue.produce: {\"kind\": \"order.paid\", \"json\": {\"order\": 17}, \"idempotency_key\": \"paid-17\"}. The payload is utf8, bytes in base64, or json, any value. What is refused is told by its line. A repeat is safe for lines with an idempotency_key."`
	Concurrency int  `default:"4" help:"With --lines, how many calls of 500 items run at one time. 1 keeps the order of the lines."`

	connection
}

// itemFlags are the attributes of one item.
type itemFlags struct {
	Kind        string            `short:"k" help:"What it is, such as order.paid."`
	Encoding    string            `short:"t" placeholder:"TYPE" help:"Media type of the payload, which a push sends as Content-Type. Default application/json for an object or a list, text/plain for other text."`
	Reference   string            `placeholder:"TEXT" help:"A note of yours."`
	Header      map[string]string `short:"H" sep:"none" mapsep:"none" placeholder:"NAME=VALUE" help:"Sent with a push. May be repeated."`
	Delay       time.Duration     `help:"Not before so long from now."`
	At          time.Time         `placeholder:"TIME" help:"Not before this instant, such as 2030-01-31T08:00:00Z."`
	Key         string            `placeholder:"KEY" help:"Idempotency key: a second item with it is none, for 24 hours."`
	OrderingKey string            `placeholder:"KEY" help:"Items of a queue that share it are given out strictly one after the other."`
	MaxAttempts int               `placeholder:"N" help:"How often it may fail; --max-attempts=-1 is no limit. Default is the queue's or the subscription's."`
	Expire      time.Duration     `placeholder:"DURATION" help:"How long it has, from when it is due, until it goes to the dead-letter queue. Default is the queue's."`
	OnDone      string            `placeholder:"QUEUE" help:"Tell this queue how the item ends. Default is the subscription's."`

	targetFlags
}

// targetFlags are an item's own endpoint.
type targetFlags struct {
	TargetURL     string        `name:"target-url" placeholder:"URL" help:"Send it there, on a queue whose subscription has --allow-target."`
	TargetMethod  string        `enum:",POST,PUT,PATCH,DELETE,GET" default:"" placeholder:"METHOD" help:"POST, PUT, PATCH, DELETE or GET. Default POST."`
	TargetTimeout time.Duration `placeholder:"DURATION" help:"Bounds one attempt, 1s to 30m. Default is the subscription's."`
}

func (f *targetFlags) target() *client.Target {
	if *f == (targetFlags{}) {
		return nil
	}
	return &client.Target{URL: f.TargetURL, Method: f.TargetMethod, Timeout: f.TargetTimeout}
}

// check refuses half a target.
func (f *targetFlags) check() error {
	switch {
	case f.TargetURL == "" && *f != (targetFlags{}):
		return usagef("--target-method and --target-timeout go with --target-url")
	case f.TargetTimeout < 0:
		return usagef("--target-timeout: want a duration that is not negative")
	}
	return nil
}

func (f *itemFlags) given() bool {
	return f.Kind != "" || f.Encoding != "" || f.Reference != "" || len(f.Header) > 0 || f.Delay != 0 || !f.At.IsZero() ||
		f.Key != "" || f.OrderingKey != "" || f.MaxAttempts != 0 || f.Expire != 0 || f.OnDone != "" || f.targetFlags != (targetFlags{})
}

func (f *itemFlags) item(payload []byte) client.Item {
	it := client.Item{
		Kind: f.Kind, Encoding: f.Encoding, Reference: f.Reference, Payload: payload, Headers: f.Header, Delay: f.Delay,
		EnqueueAt: f.At, IdempotencyKey: f.Key, MaxAttempts: f.MaxAttempts, ExpireTimeout: f.Expire,
		OnDone: f.OnDone, Target: f.target(), OrderingKey: f.OrderingKey,
	}
	if it.Encoding == "" {
		it.Encoding = encodingOf(payload)
	}
	return it
}

// encodingOf is what a payload looks like.
func encodingOf(payload []byte) string {
	text := bytes.TrimSpace(payload)
	switch {
	case len(text) > 0 && (text[0] == '{' || text[0] == '[') && json.Valid(text):
		return "application/json"
	case len(payload) > 0 && utf8.Valid(payload):
		return "text/plain; charset=utf-8"
	default:
		return ""
	}
}

// run implements Command.
func (f *produceCommand) run(ctx context.Context, c *console) error {
	switch {
	case f.Delay < 0 || f.Expire < 0:
		return usagef("--delay and --expire: want a duration that is not negative")
	case f.Delay != 0 && !f.At.IsZero():
		return usagef("--delay and --at: want one of them")
	case f.Payload != nil && f.File != "":
		return usagef("a payload and --file: want one of them")
	case f.Lines && f.Payload != nil:
		return usagef("--lines reads --file or standard input, and takes no payload")
	case f.Lines && f.given():
		return usagef("--lines: each line has its own attributes; leave the other flags out")
	case f.Concurrency < 1 || f.Concurrency > 64:
		return usagef("--concurrency %d: want 1 to 64", f.Concurrency)
	case f.Lines:
		return f.produceLines(ctx, c)
	}
	if err := f.check(); err != nil {
		return err
	}
	payload, err := f.payload(ctx, c)
	if err != nil {
		return err
	}
	return f.with(ctx, func(ctx context.Context, cl *client.Client) error {
		produced, err := cl.Produce(ctx, f.Queue, f.item(payload))
		if err != nil {
			return err
		}
		if f.JSON {
			return c.object(producedViewOf(produced[0]))
		}
		if produced[0].Duplicate {
			c.note("the key is known: this is the first item with it, and no other was added")
		}
		if n := produced[0].Copies; n != nil && *n == 0 {
			c.note("%s", f.unwanted(ctx, cl))
		}
		return c.printf("%s\n", produced[0].ItemID)
	})
}

// unwanted says why a topic made no copies of an item.
func (f *produceCommand) unwanted(ctx context.Context, cl *client.Client) string {
	t, err := cl.GetTopic(ctx, f.Queue)
	switch {
	case err != nil: // what matters was done, and is told
		return f.Queue + ": no subscription took the item, and it is gone"
	case t.Subscriptions == 0:
		return f.Queue + " has no subscriptions, so nobody gets the item, and it is gone; posthaste subscriptions create --topic makes one"
	default:
		return fmt.Sprintf("%s: no filter of its %s takes the item, and it is gone; posthaste subscriptions info shows a filter",
			f.Queue, plural(t.Subscriptions, "subscription"))
	}
}

// maxRead bounds what is read as one payload: more than any server takes, so that it is
// the server who says what its limit is.
const maxRead = 8 << 20

func (f *produceCommand) payload(ctx context.Context, c *console) ([]byte, error) {
	if f.Payload != nil {
		return []byte(*f.Payload), nil
	}
	return readPayload(ctx, c, f.File)
}

// readPayload reads one payload from a file, or standard input without one.
func readPayload(ctx context.Context, c *console, file string) ([]byte, error) {
	in, _, err := openInput(c, file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var payload []byte
	err = c.read(ctx, func(io.Reader) (err error) {
		payload, err = io.ReadAll(io.LimitReader(in, maxRead+1))
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("payload: %w", err)
	case len(payload) > maxRead:
		return nil, usagef("payload: longer than %d bytes, which no server takes", maxRead)
	}
	return payload, nil
}

// openInput opens the file or standard input, and tells its size or -1.
func openInput(c *console, name string) (io.ReadCloser, int64, error) {
	if name == "" {
		if _, waits := terminal(c.in); waits {
			c.note("reading from the terminal; end with Ctrl-D")
		}
		return io.NopCloser(c.in), -1, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, 0, usagef("--file: %w", err)
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return file, -1, nil // its size is for the progress bar alone
	}
	return file, info.Size(), nil
}
