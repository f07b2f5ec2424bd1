package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"google.golang.org/protobuf/proto"
)

// DefaultURL is where a server listens that was not told otherwise.
const DefaultURL = "http://127.0.0.1:2319"

// Options configure a client; the zero value speaks to a server on this machine.
type Options struct {
	// URL is the server's, without a path below it, or that of what balances load
	// between equal nodes. Empty takes POSTHASTE_URL, and without that [DefaultURL].
	URL string
	// Key is sent as a bearer token. Empty takes POSTHASTE_KEY if URL is empty as well:
	// the environment's key is for the environment's server. Without one none is sent.
	Key string
	// HTTP makes the requests. Nil takes one that keeps up to 256 idle connections. A
	// Timeout there cuts long polls: contexts bound calls.
	HTTP *http.Client
	// Tries is how often a call is sent at most: 5. 1 never repeats.
	Tries int
	// MinWait and MaxWait bound the wait between tries, which doubles and is spread:
	// 100 ms and 10 s. A Retry-After of the server counts, up to MaxWait.
	MinWait, MaxWait time.Duration
	// Logger is told of repeats, at debug level; nil is told nothing.
	Logger *slog.Logger
	// UserAgent goes before the client's own.
	UserAgent string
}

// Client calls a server. Make it with [New]. Safe for concurrent use.
type Client struct {
	base  string
	key   string
	agent string
	http  *retryablehttp.Client
}

// New returns a client. It does not connect; [Client.Ping] does.
func New(o Options) (*Client, error) {
	base, err := checkURL(cmp.Or(o.URL, os.Getenv("POSTHASTE_URL"), DefaultURL))
	if err != nil {
		return nil, err
	}
	if o.Tries < 0 || o.MinWait < 0 || o.MaxWait < 0 {
		return nil, fmt.Errorf("posthaste: Tries is %d, MinWait %s and MaxWait %s; want none below 0", o.Tries, o.MinWait, o.MaxWait)
	}
	key := o.Key
	if key == "" && o.URL == "" {
		key = os.Getenv("POSTHASTE_KEY")
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		// Not shown: it may be most of a good key.
		return nil, errors.New("posthaste: the key has characters that no key has; look for a line feed at its end")
	}
	c := &Client{base: base, key: key, agent: strings.TrimSpace(o.UserAgent + " " + userAgent)}
	c.http = newRetrying(&o)
	return c, nil
}

// userAgent tells an operator whose requests these are.
const userAgent = "posthaste-go"

func checkURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", fmt.Errorf("posthaste: URL %q is none, such as %s", text, DefaultURL)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "", fmt.Errorf("posthaste: URL %q: want http:// or https:// and a host, such as %s", text, DefaultURL)
	case u.User != nil:
		return "", errors.New("posthaste: the URL has a user; give the key as Key or POSTHASTE_KEY")
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("posthaste: URL %s://%s has a query or a fragment; want none", u.Scheme, u.Host)
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// newTransport is net/http's own with room for more idle connections: a worker and
// its producers call one host, which gets two of them by default.
func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 256
	t.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	// All calls share one connection over TLS. If it dies without a word, as behind a
	// firewall that forgot it, only a ping finds out.
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second}
	return t
}

// Close closes idle connections. Calls that run go on.
func (c *Client) Close() { c.http.HTTPClient.CloseIdleConnections() }

// call sends one message and reads the answer into reply, which may be nil.
func (c *Client) call(ctx context.Context, method string, request, reply proto.Message, header ...string) error {
	body, err := proto.Marshal(request)
	if err != nil {
		return unwritable(method, request, err)
	}
	h := http.Header{"Content-Type": {protobuf}}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return c.post(ctx, method, method, h, body, reply)
}

// post sends a body to a path below /v1.
func (c *Client) post(ctx context.Context, method, path string, h http.Header, body []byte, reply proto.Message) error {
	if ctx.Err() != nil {
		return &Error{Method: method, Err: context.Cause(ctx)}
	}
	ctx, tries := withTries(ctx)
	req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/"+path, body)
	if err != nil {
		return fmt.Errorf("posthaste: %s: %w", method, err)
	}
	h.Set("Accept", protobuf)
	h.Set("User-Agent", c.agent)
	if c.key != "" {
		h.Set("Authorization", "Bearer "+c.key)
	}
	req.Header = h
	inject(ctx, h)
	resp, err := c.http.Do(req)
	if err == nil {
		resp.Body.Close() // it was read by the try, and is empty
		err = tries.broken
	}
	switch {
	case err == nil:
		return readAnswer(method, tries, reply)
	case ctx.Err() != nil && tries.refused != nil:
		// What the server said last tells more than that the time was up.
		e := refusal(method, tries.refused, tries)
		e.Err = context.Cause(ctx)
		return e
	default:
		return &Error{Method: method, Err: cause(ctx, err), Tries: tries.n, Uncertain: tries.uncertain}
	}
}

// cause is why a request had no answer, without the URL around it, which the caller
// knows, and with the reason why the context ended.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// Ping asks whether the server takes calls, and says why if not.
func (c *Client) Ping(ctx context.Context) error {
	req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, c.base+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("posthaste: ping: %w", err)
	}
	resp, err := c.http.HTTPClient.Do(req.Request) // not repeated: whoever asks wants to know how it is now
	if err != nil {
		return &Error{Method: "readyz", Err: cause(ctx, err), Tries: 1}
	}
	a, err := receive(resp)
	switch {
	case err != nil:
		return &Error{Method: "readyz", Err: err, Tries: 1}
	case a.status == http.StatusOK:
		return nil
	default:
		return refusal("readyz", a, &tries{n: 1})
	}
}
