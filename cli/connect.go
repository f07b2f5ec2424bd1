package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// connection says which server is called, and how its answers are printed.
type connection struct {
	URL     string `name:"url" group:"connection" default:"http://127.0.0.1:2319" env:"POSTHASTE_URL" help:"The server."`
	KeyFile string `group:"connection" env:"POSTHASTE_KEY_FILE" placeholder:"FILE" help:"File with the key that the server wants; it wins over $POSTHASTE_KEY, which may hold the key itself. There is no flag for the key: command lines are shown to every user of a machine."`
	JSON    bool   `name:"json" group:"connection" help:"Print one JSON object a line, with the names of the API."`
}

// Somebody waits at the terminal: a server that is not there is told soon.
const (
	interactiveTries = 3
	interactiveWait  = 2 * time.Second
)

// open returns a client.
func (f *connection) open() (*client.Client, error) {
	return f.dial(client.Options{Tries: interactiveTries, MaxWait: interactiveWait})
}

func (f *connection) dial(o client.Options) (*client.Client, error) {
	key, err := f.key()
	if err != nil {
		return nil, err
	}
	o.URL, o.Key, o.UserAgent = f.URL, key, "posthaste-cli"
	c, err := client.New(o)
	if err != nil {
		return nil, usagef("%s", strings.TrimPrefix(err.Error(), "posthaste: "))
	}
	return c, nil
}

// key is in the file or else in the variable, which the client would not read along with
// a URL.
func (f *connection) key() (string, error) {
	if f.KeyFile == "" {
		return os.Getenv("POSTHASTE_KEY"), nil
	}
	text, err := os.ReadFile(f.KeyFile)
	if err != nil {
		return "", usagef("--key-file: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" {
		return "", usagef("--key-file %s: holds no key", f.KeyFile)
	}
	return key, nil
}

// with calls do with a client.
func (f *connection) with(ctx context.Context, do func(ctx context.Context, cl *client.Client) error) error {
	cl, err := f.open()
	if err != nil {
		return err
	}
	defer cl.Close()
	return f.named(do(ctx, cl))
}

// named adds which server it was that did not answer.
func (f *connection) named(err error) error {
	if e, ok := errors.AsType[*client.Error](err); ok && e.CodeText == "" {
		return fmt.Errorf("%s: %w", f.URL, err)
	}
	return err
}

// done tells people that something was done, or programs by an object.
func (f *connection) done(c *console, v any, format string, args ...any) error {
	if f.JSON {
		return c.object(v)
	}
	return c.printf("%s\n", printable(fmt.Sprintf(format, args...)))
}
