package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// benchCommand measures a server by the calls that everybody makes.
type benchCommand struct {
	Duration  time.Duration `default:"10s" help:"How long items are produced, 10m at most. What is on its way then is still waited for."`
	Items     int           `placeholder:"N" help:"Stop before that after so many items."`
	Producers int           `default:"4" help:"How many produce at a time, 1 to 128."`
	Consumers int           `default:"4" help:"How many lease and complete at a time, 1 to 128."`
	Batch     int           `short:"n" default:"10" help:"How many items a call has at most, 1 to 1000."`
	Size      int           `default:"200" help:"Bytes of an item, 8 to 1000000."`
	Rate      int           `placeholder:"N" help:"Produce so many items a second, evenly, which shows what waiting there is below the server's limit. Default is as many as it takes."`

	connection
}

// Bounds of the flags. A client keeps 256 idle connections, one for each at a time.
const (
	mostBenchTime    = 10 * time.Minute
	mostBenchClients = 128
	mostBenchRate    = 1_000_000
	mostPayload      = 1_000_000
	mostCallBytes    = 5_000_000
)

func (f *benchCommand) check() error {
	switch {
	case f.Duration <= 0 || f.Duration > mostBenchTime:
		return usagef("--duration %s: want more than none, and %s at most", f.Duration, shortSpan(mostBenchTime))
	case f.Items < 0:
		return usagef("--items %d: want a number above 0", f.Items)
	case f.Producers < 1 || f.Producers > mostBenchClients:
		return usagef("--producers %d: want 1 to %d", f.Producers, mostBenchClients)
	case f.Consumers < 1 || f.Consumers > mostBenchClients:
		return usagef("--consumers %d: want 1 to %d", f.Consumers, mostBenchClients)
	case f.Batch < 1 || f.Batch > maxIDs:
		return usagef("--batch %d: want 1 to %d", f.Batch, maxIDs)
	case f.Size < stampSize || f.Size > mostPayload:
		return usagef("--size %d: want %d to %d", f.Size, stampSize, mostPayload)
	case f.Batch*f.Size > mostCallBytes:
		return usagef("--batch %d --size %d: a call holds %d bytes at most", f.Batch, f.Size, mostCallBytes)
	case f.Rate < 0 || f.Rate > mostBenchRate:
		return usagef("--rate %d: want 1 to %d", f.Rate, mostBenchRate)
	}
	return nil
}

// cleanUpTime bounds how long the queue's deletion may take, also after an interrupt.
const cleanUpTime = 15 * time.Second

// run implements Command.
func (f *benchCommand) run(ctx context.Context, c *console) error {
	if err := f.check(); err != nil {
		return err
	}
	// One try: a repeat would hide a refusal in a long call.
	cl, err := f.dial(client.Options{Tries: 1})
	if err != nil {
		return err
	}
	defer cl.Close()
	return f.named(f.measure(ctx, c, cl))
}

// measure makes a queue, takes the figures on it and deletes it, whatever happens.
func (f *benchCommand) measure(ctx context.Context, c *console, cl *client.Client) (err error) {
	name := "bench-" + strings.ToLower(rand.Text())
	err = cl.CreateQueue(ctx, client.Queue{Name: name, LeaseTimeout: benchLease, Reference: "made by posthaste bench, which deletes it"})
	if e, ok := errors.AsType[*client.Error](err); err != nil && (!ok || !e.Uncertain) {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
		defer cancel()
		switch e := cl.DeleteQueue(ctx, name, true); {
		case e == nil || client.Is(e, client.CodeNotFound):
		case err == nil:
			err = fmt.Errorf("%s is left behind: %w", name, e)
		default:
			c.note("%s is left behind: %v", name, e)
		}
	}()
	if err != nil {
		return err // but it may have been made
	}
	c.note("measuring on queue %s for %s at most; it is deleted at the end", name, shortSpan(f.Duration))
	r := newBenchRun(cl, f, name)
	r.run(ctx)
	if err := f.print(c, r); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.completed == 0 {
		return fmt.Errorf("nothing was completed; errors: %s", cmp.Or(r.errorText(), "none"))
	}
	return nil
}

// benchView is what --json prints.
type benchView struct {
	Seconds  float64 `json:"seconds"`
	Produced int64   `json:"produced"`
	// Completed counts items, Left those that were not completed in time.
	Completed      int64                  `json:"completed"`
	Left           int64                  `json:"left"`
	ItemsPerSecond float64                `json:"items_per_second"`
	Producers      int                    `json:"producers"`
	Consumers      int                    `json:"consumers"`
	Batch          int                    `json:"batch"`
	Size           int                    `json:"size"`
	Rate           int                    `json:"rate,omitempty"`
	Latency        map[string]latencyView `json:"latency"`
	Errors         map[string]int64       `json:"errors"`
}

// latencyView is in milliseconds.
type latencyView struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p99_9_ms"`
	Max   float64 `json:"max_ms"`
}

func (f *benchCommand) view(r *benchRun) benchView {
	v := benchView{
		Seconds: r.last.Seconds(), Produced: r.produced, Completed: r.completed,
		Producers: f.Producers, Consumers: f.Consumers, Batch: f.Batch, Size: f.Size, Rate: f.Rate,
		Latency: map[string]latencyView{}, Errors: r.errors,
	}
	v.Left = max(v.Produced-v.Completed, 0)
	if v.Seconds > 0 {
		v.ItemsPerSecond = float64(v.Completed) / v.Seconds
	}
	for _, s := range benchSteps {
		h := r.times[s]
		v.Latency[s.name()] = latencyView{
			Count: h.TotalCount(), P50: inMS(h.ValueAtQuantile(50)), P90: inMS(h.ValueAtQuantile(90)),
			P99: inMS(h.ValueAtQuantile(99)), P999: inMS(h.ValueAtQuantile(99.9)), Max: inMS(h.Max()),
		}
	}
	return v
}

func inMS(microseconds int64) float64 { return float64(microseconds) / 1000 }

func (f *benchCommand) print(c *console, r *benchRun) error {
	v := f.view(r)
	if f.JSON {
		return c.object(v)
	}
	rows := newTable("step", ">count", ">p50", ">p90", ">p99", ">p99.9", ">max")
	for _, s := range benchSteps {
		l := v.Latency[s.name()]
		rows.add(cells(strings.ReplaceAll(s.name(), "_", " "), strconv.FormatInt(l.Count, 10),
			msText(l.P50), msText(l.P90), msText(l.P99), msText(l.P999), msText(l.Max))...)
	}
	if err := rows.print(c); err != nil {
		return err
	}
	sums := new(record)
	sums.paint("items a second", strconv.FormatFloat(v.ItemsPerSecond, 'f', 0, 64), bold)
	sums.set("items", fmt.Sprintf("%d produced, %d completed, in %.1f s", v.Produced, v.Completed, v.Seconds))
	if v.Left > 0 {
		sums.paint("left", strconv.FormatInt(v.Left, 10)+" not completed in time", yellow)
	}
	if text := r.errorText(); text != "" {
		sums.paint("errors", text, red)
	}
	return sums.print(c)
}

// msText writes milliseconds with three digits or so.
func msText(ms float64) string {
	switch {
	case ms >= 100:
		return strconv.FormatFloat(ms, 'f', 0, 64) + " ms"
	case ms >= 10:
		return strconv.FormatFloat(ms, 'f', 1, 64) + " ms"
	default:
		return strconv.FormatFloat(ms, 'f', 2, 64) + " ms"
	}
}

// errorText counts errors by their word.
func (r *benchRun) errorText() string {
	var parts []string
	for _, word := range slices.Sorted(maps.Keys(r.errors)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.errors[word], word))
	}
	return strings.Join(parts, ", ")
}
