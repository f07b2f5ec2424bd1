package cli

import (
	"context"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// endpointFlags are what create and update have in common.
type endpointFlags struct {
	Method       string            `placeholder:"POST" help:"POST, PUT or PATCH."`
	Header       map[string]string `short:"H" sep:"none" mapsep:"none" placeholder:"NAME=VALUE" help:"Sent with each push. May be repeated; an update replaces all of them."`
	HeaderFile   string            `placeholder:"FILE" help:"File with more of them, a line each, NAME: VALUE, for those that nobody should read from a command line."`
	Timeout      time.Duration     `placeholder:"DURATION" help:"Bounds one attempt, 1s to 30m. Default 30s."`
	MaxInFlight  int               `placeholder:"N" help:"How many requests run at one time. Default 32."`
	Rate         *perPeriod        `placeholder:"N/PERIOD" help:"How many requests may start, such as 100/s, 30/m or 5/10s; 0 is no limit. Default no limit."`
	MaxAttempts  int               `placeholder:"N" help:"How often an item is tried; --max-attempts=-1 is no limit. Default 12."`
	Schedule     []time.Duration   `placeholder:"DURATION,…" help:"The wait before each retry; the last one repeats. Instead of a wait that grows."`
	MinBackoff   time.Duration     `placeholder:"DURATION" help:"The first wait. Default 5s."`
	MaxBackoff   time.Duration     `placeholder:"DURATION" help:"The longest wait. Default 12h."`
	Multiplier   float64           `placeholder:"N" help:"By how much the wait grows. Default 3."`
	GiveUpAfter  *time.Duration    `placeholder:"DURATION" help:"Bury an item that fails when it is older; 0s is never. Default 168h."`
	BuryOn       []int             `placeholder:"STATUS,…" help:"HTTP statuses that bury an item at once."`
	DisableAfter *time.Duration    `placeholder:"DURATION" help:"Disable the subscription when nothing but failures came for so long; 0s is never. Default 120h."`
	AllowTarget  *bool             `negatable:"" help:"Let items bring their own endpoint; limits then count for each host."`
	HTTP2        *bool             `name:"http2" negatable:"" help:"Ask an https endpoint in HTTP/2."`
	Format       string            `enum:",plain,cloudevents" default:"" placeholder:"FORMAT" help:"plain, or cloudevents, which adds ce- headers. Default plain."`
	Defer        *bool             `negatable:"" help:"Let the endpoint answer 202 with posthaste-lease: keep and settle the item later, with the receipt that it was sent."`
	DeferTimeout time.Duration     `placeholder:"DURATION" help:"How long it may keep an item, unless it extends, 30s to 168h. Default 15m."`
	MaxDeferred  int               `placeholder:"N" help:"How many items it may keep at one time. Default 1000."`
	Log          string            `enum:",all,failures,off" default:"" placeholder:"WHICH" help:"Which attempts are kept: all, failures or off. Default all."`
	OnDone       *string           `placeholder:"QUEUE" help:"Tell this queue how items end, unless they name one themselves; an empty one tells nobody."`

	filterFlags
	batchFlags
	authFlags
}

// batchFlags are how several items go in one request.
type batchFlags struct {
	Batch         *int          `placeholder:"N" help:"Send up to so many items in one request, 2 to 1000; 0 sends them one by one. Default one by one."`
	BatchBytes    int           `placeholder:"N" help:"Bytes of payloads of a request, 1024 to 4194304. Default 1048576."`
	BatchWait     time.Duration `placeholder:"DURATION" help:"How long the first item waits for others, 60s at most. Default not at all."`
	BatchEncoding string        `enum:",json,multipart" default:"" placeholder:"ENCODING" help:"json, an array of objects, or multipart, a part for each item. Default json."`
}

func (f *batchFlags) givesBatch() bool {
	return f.Batch != nil || f.BatchBytes != 0 || f.BatchWait != 0 || f.BatchEncoding != ""
}

// changeBatch sets what was given.
func (f *batchFlags) changeBatch(b *client.Batch) error {
	if f.Batch != nil && *f.Batch == 0 {
		if f.BatchBytes != 0 || f.BatchWait != 0 || f.BatchEncoding != "" {
			return usagef("--batch 0 sends items one by one; leave the other --batch flags out")
		}
		*b = client.Batch{}
		return nil
	}
	if f.Batch != nil {
		b.MaxItems = *f.Batch
	}
	if b.MaxItems == 0 {
		return usagef("--batch-bytes, --batch-wait and --batch-encoding go with --batch, which says how many items a request has")
	}
	give(&b.MaxBytes, f.BatchBytes)
	give(&b.MaxWait, f.BatchWait)
	give(&b.Encoding, f.BatchEncoding)
	return nil
}

// headers are those of the flags and of the file.
func (f *endpointFlags) headers() (map[string]string, error) {
	if f.HeaderFile == "" {
		return f.Header, nil
	}
	text, err := os.ReadFile(f.HeaderFile)
	if err != nil {
		return nil, usagef("--header-file: %w", err)
	}
	all := maps.Clone(f.Header)
	if all == nil {
		all = map[string]string{}
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, usagef("--header-file: line %d: want NAME: VALUE", number) // not shown: it may be a secret
		}
		all[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return all, nil
}

func (f *endpointFlags) retry() client.RetryPolicy {
	return client.RetryPolicy{
		MaxAttempts: f.MaxAttempts, Schedule: f.Schedule, MinBackoff: f.MinBackoff, MaxBackoff: f.MaxBackoff,
		Multiplier: f.Multiplier, GiveUpAfter: f.GiveUpAfter, BuryOn: f.BuryOn, DisableAfter: f.DisableAfter,
	}
}

func (f *endpointFlags) givesRetry() bool {
	return f.MaxAttempts != 0 || len(f.Schedule) > 0 || f.MinBackoff != 0 || f.MaxBackoff != 0 || f.Multiplier != 0 ||
		f.GiveUpAfter != nil || len(f.BuryOn) > 0 || f.DisableAfter != nil
}

// creation is a subscription of what was given.
func (f *endpointFlags) creation(ctx context.Context, c *console) (client.Subscription, error) {
	headers, err := f.headers()
	if err != nil {
		return client.Subscription{}, err
	}
	filter, err := f.filter()
	if err != nil {
		return client.Subscription{}, err
	}
	s := client.Subscription{
		Method: f.Method, Headers: headers, Timeout: f.Timeout, MaxInFlight: f.MaxInFlight, Retry: f.retry(),
		AllowTarget: f.AllowTarget != nil && *f.AllowTarget, HTTP2: f.HTTP2 != nil && *f.HTTP2, Format: f.Format,
		Defer: f.Defer != nil && *f.Defer, DeferTimeout: f.DeferTimeout, MaxDeferred: f.MaxDeferred, Log: f.Log,
	}
	if f.Rate != nil {
		s.Rate = client.Rate(*f.Rate)
	}
	if f.OnDone != nil {
		s.OnDone = *f.OnDone
	}
	if filter != nil {
		s.Filter = *filter
	}
	if f.givesBatch() {
		b := new(client.Batch)
		if err := f.changeBatch(b); err != nil {
			return s, err
		}
		if *b != (client.Batch{}) {
			s.Batch = b
		}
	}
	if f.givesAuth() {
		s.Auth = new(client.Auth)
		err = f.checkAuth()
		if err == nil {
			err = f.changeAuth(ctx, c, s.Auth)
		}
	}
	return s, err
}

// update is what was given, but for batches and authentication, which are changed by
// what is there.
func (f *endpointFlags) update() (client.SubscriptionUpdate, error) {
	headers, err := f.headers()
	if err != nil {
		return client.SubscriptionUpdate{}, err
	}
	filter, err := f.filter()
	if err != nil {
		return client.SubscriptionUpdate{}, err
	}
	u := client.SubscriptionUpdate{
		Method: f.Method, Timeout: f.Timeout, MaxInFlight: f.MaxInFlight, Rate: (*client.Rate)(f.Rate),
		AllowTarget: f.AllowTarget, HTTP2: f.HTTP2, Format: f.Format,
		Defer: f.Defer, DeferTimeout: f.DeferTimeout, MaxDeferred: f.MaxDeferred, Log: f.Log, OnDone: f.OnDone, Filter: filter,
	}
	if len(headers) > 0 {
		u.Headers = headers
	}
	if f.givesRetry() {
		u.Retry = new(f.retry())
	}
	return u, f.checkAuth()
}
