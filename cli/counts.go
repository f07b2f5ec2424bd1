package cli

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/posthaste-io/posthaste/api/client"
)

// counted is a queue and what it holds.
type counted struct {
	name string
	// settings are empty for a queue that was asked for by name.
	settings client.Queue
	client.Stats
}

// rowHead are the names of a row's columns.
var rowHead = []string{"queue", ">ready", ">scheduled", ">behind", ">leased", ">failing", ">total", ">mean age", ">consumers"}

// row is a line of a table.
func (q *counted) row() []cell {
	age := ""
	if q.Total > 0 {
		age = shortSpan(q.MeanAge)
	}
	failing := cell{text: strconv.Itoa(q.Failing)}
	if q.Failing > 0 {
		failing.colour = yellow
	}
	return []cell{
		{text: q.name},
		{text: strconv.Itoa(q.Ready())},
		{text: q.atLeast(q.Scheduled)},
		{text: q.atLeast(q.Behind)},
		{text: strconv.Itoa(q.Leased)},
		failing,
		{text: strconv.Itoa(q.Total)},
		{text: age},
		{text: count(q.LeaseWaiting)},
	}
}

// atLeast writes a count that goes up to a bound.
func (q *counted) atLeast(n int) string {
	if q.Capped && n > 0 {
		return strconv.Itoa(n) + "+"
	}
	return strconv.Itoa(n)
}

// callsAtOnce bounds what one command asks a server at one time.
const callsAtOnce = 8

// countQueues counts the queues of these names, or all, by name. A queue that goes away
// meanwhile is left out, unless it was asked for.
func countQueues(ctx context.Context, cl *client.Client, names []string) ([]counted, error) {
	var queues []counted
	for _, name := range names {
		queues = append(queues, counted{name: name})
	}
	if len(names) == 0 {
		for q, err := range cl.Queues(ctx) {
			if err != nil {
				return nil, err
			}
			queues = append(queues, counted{name: q.Name, settings: q})
		}
	}
	err := each(ctx, len(queues), func(ctx context.Context, i int) error {
		s, err := cl.Stats(ctx, queues[i].name)
		if client.Is(err, client.CodeNotFound) && len(names) == 0 {
			queues[i].name = ""
			return nil
		}
		queues[i].Stats = s
		return err
	})
	return slices.DeleteFunc(queues, func(q counted) bool { return q.name == "" }), err
}

// each calls do with 0 to n-1, several at one time, and returns the first error, which
// ends the others.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		workers sync.WaitGroup
		mu      sync.Mutex
		next    int
		failed  error
	)
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if failed != nil || next == n {
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range min(n, callsAtOnce) {
		workers.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				if err := do(ctx, i); err != nil {
					mu.Lock()
					if failed == nil {
						failed = err
						cancel()
					}
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	return failed
}

// sorted walks a map by its keys.
func sorted(m map[string]string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}
