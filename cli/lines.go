package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

const (
	// A call has as many items and bytes at most, well below what servers take.
	batchItems = 500
	batchBytes = 2 << 20
	// batchWait is how long the first line of a batch waits for more of them, so that
	// lines that somebody types or a program drips arrive.
	batchWait = 200 * time.Millisecond
	// lastCalls is how long calls that run may take once no more is read.
	lastCalls = 10 * time.Second
	// A run over many lines goes on through a restart of the server.
	patientTries = 12
)

// producer puts lines on a queue. Its counts are of lines.
type producer struct {
	cl    *client.Client
	from  *connection
	queue string
	json  bool
	// stop ends reading.
	stop context.CancelCauseFunc

	mu         sync.Mutex
	c          *console
	bar        *progress
	kept       int
	duplicates int
	unwanted   int
	refused    int
	// next is the line behind the last one that was read. open are the first lines of
	// batches that were read and are not settled.
	next int
	open []int
}

func (f *produceCommand) produceLines(ctx context.Context, c *console) error {
	in, size, err := openInput(c, f.File)
	if err != nil {
		return err
	}
	defer in.Close()
	cl, err := f.dial(client.Options{Tries: patientTries})
	if err != nil {
		return err
	}
	defer cl.Close()
	// Asked once before: a wrong URL is told at once, and not after many tries.
	if err := cl.Ping(ctx); err != nil {
		return f.named(err)
	}

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	p := &producer{cl: cl, from: &f.connection, queue: f.Queue, json: f.JSON, stop: stop, c: c, bar: newProgress(c, size), next: 1}
	lines := make(chan line)
	var readErr error
	// Not waited for if ctx ends: a read of a terminal or a pipe cannot be broken off.
	go func() {
		defer close(lines)
		readErr = readLines(in, func(l line) bool {
			select {
			case lines <- l:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	p.work(ctx, lines, f.Concurrency)
	if ctx.Err() != nil {
		return p.stopped(ctx)
	}
	return p.finish(readErr)
}

// work sends lines until there are no more or ctx ends, and returns when all calls have.
func (p *producer) work(ctx context.Context, lines <-chan line, concurrency int) {
	// Calls that run when ctx ends are let finish, so that little is left unknown.
	calls, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(lastCalls, func() { end(context.Cause(ctx)) })
	})()
	batches := make(chan []line)
	var workers sync.WaitGroup
	for range concurrency {
		workers.Go(func() {
			for batch := range batches {
				if err := p.send(calls, batch); err != nil {
					p.stop(p.from.named(err))
					return
				}
				p.settled(batch)
			}
		})
	}
	p.gather(ctx, lines, func(batch []line) bool {
		select {
		case batches <- batch:
			return true
		case <-ctx.Done():
			return false
		}
	})
	close(batches)
	workers.Wait()
}

// gather makes batches of lines and gives them on, until give refuses.
func (p *producer) gather(ctx context.Context, lines <-chan line, give func([]line) bool) {
	var batch []line
	size := 0
	pause := time.NewTimer(batchWait)
	pause.Stop()
	defer pause.Stop()
	for {
		full := false
		select {
		case l, more := <-lines:
			if !more {
				if len(batch) > 0 {
					give(batch)
				}
				return
			}
			p.took(l, len(batch) == 0)
			if l.err != nil {
				p.refuse(l, l.err.Error(), "")
				if len(batch) == 0 {
					p.settled([]line{l})
				}
				continue
			}
			if len(batch) == 0 {
				pause.Reset(batchWait)
			}
			batch = append(batch, l)
			size += l.size
			full = len(batch) >= batchItems || size >= batchBytes
		case <-pause.C:
			full = len(batch) > 0
		case <-ctx.Done():
			return
		}
		if full {
			if !give(batch) {
				return
			}
			batch, size = nil, 0
		}
	}
}

func (p *producer) took(l line, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = l.number + 1
	if first {
		p.open = append(p.open, l.number)
	}
}

func (p *producer) settled(batch []line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = slices.DeleteFunc(p.open, func(n int) bool { return n == batch[0].number })
}

// send produces a batch, without those of its lines that the server refuses. Its error
// ends everything.
func (p *producer) send(ctx context.Context, batch []line) error {
	batch = slices.Clone(batch)
	for len(batch) > 0 {
		items := make([]client.Item, len(batch))
		for i := range batch {
			items[i] = batch[i].item
		}
		produced, err := p.cl.Produce(ctx, p.queue, items...)
		if err == nil {
			return p.keep(batch, produced)
		}
		refused, ok := errors.AsType[*client.Error](err)
		if !ok {
			return err
		}
		i, named := refusedItem(refused, len(batch))
		switch {
		case named:
			text := strings.ReplaceAll(refused.Message, fmt.Sprintf("items[%d].", i), "")
			p.refuse(batch[i], text, refused.CodeText)
			batch = slices.Delete(batch, i, i+1)
		case refused.CodeText != client.CodeTooLarge && refused.CodeText != client.CodeFanOutTooLarge:
			return err
		case len(batch) == 1:
			p.refuse(batch[0], refused.Message, refused.CodeText)
			return nil
		default: // the server takes less at once than others, or the topic has many subscriptions
			half := len(batch) / 2
			if err := p.send(ctx, batch[:half]); err != nil {
				return err
			}
			batch = batch[half:]
		}
	}
	return nil
}

var itemPlace = regexp.MustCompile(`^items\[(\d+)\]`)

// refusedItem says which of the items of a call is at fault, if it is one of them.
func refusedItem(e *client.Error, n int) (int, bool) {
	m := itemPlace.FindStringSubmatch(e.Details["field"])
	if m == nil {
		return 0, false
	}
	i, err := strconv.Atoi(m[1])
	return i, err == nil && i < n
}

// lineView is what --json prints for each line.
type lineView struct {
	Line int `json:"line"`
	// One of the two.
	*producedView
	*lineRefusal
}

type lineRefusal struct {
	CodeText string `json:"code_text,omitempty"`
	Message  string `json:"message"`
}

// keep counts lines that are kept. It fails when nobody reads what it prints: whoever
// wanted the ids is gone.
func (p *producer) keep(batch []line, produced []client.Produced) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	size := 0
	for i, l := range batch {
		size += l.size
		p.kept++
		if produced[i].Duplicate {
			p.duplicates++
		}
		if n := produced[i].Copies; n != nil && *n == 0 {
			p.unwanted++
		}
		if p.json {
			v := lineView{Line: l.number, producedView: new(producedViewOf(produced[i]))}
			if err := p.c.object(v); err != nil {
				return err
			}
		}
	}
	p.bar.add(size, p.kept)
	if p.json {
		return p.c.flush()
	}
	return nil
}

// refuse tells of a line that is no item, or that the server refused.
func (p *producer) refuse(l line, text, word string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused++
	p.bar.hide()
	if p.json {
		// A failure to print is met again at the next line that is kept, or at the end.
		_ = p.c.object(lineView{Line: l.number, lineRefusal: &lineRefusal{word, text}})
	} else {
		p.c.note("line %d: %s", l.number, printable(text))
	}
	p.bar.add(l.size, p.kept)
}

// finish tells what became of all lines.
func (p *producer) finish(readErr error) error {
	p.bar.close()
	if !p.json {
		known := ""
		if p.duplicates > 0 {
			known = fmt.Sprintf(", %d of them known already", p.duplicates)
		}
		if p.unwanted > 0 {
			known += fmt.Sprintf(", %d of them taken by no subscription", p.unwanted)
		}
		if err := p.c.printf("%s kept%s\n", plural(p.kept, "line"), known); err != nil {
			return err
		}
	}
	switch {
	case readErr != nil:
		return fmt.Errorf("read: %w; what came before is kept", readErr)
	case p.refused > 0:
		return &statusError{fmt.Errorf("%s refused", plural(p.refused, "line")), exitFailed}
	default:
		return nil
	}
}

// stopped tells where to go on after a break.
func (p *producer) stopped(ctx context.Context) error {
	p.bar.close()
	from := p.next
	for _, n := range p.open {
		from = min(from, n)
	}
	why := context.Cause(ctx)
	status := exitInterrupted
	if refused, ok := errors.AsType[*client.Error](why); ok {
		why, status = fmt.Errorf("%s%w", refusalText(why, refused), silent{why}), statusOf(refused)
	} else if errors.Is(why, errOutput) {
		status = exitFailed
	}
	return &statusError{fmt.Errorf("%w\nstopped at line %d: those before it are done (%d kept, %d refused), of the others some may be; "+
		"repeat it from there, or all of it: a line with an idempotency_key adds nothing twice", why, from, p.kept, p.refused), status}
}
