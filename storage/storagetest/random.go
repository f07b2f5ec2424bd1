package storagetest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

const (
	sequenceSteps = 200
	// checkEvery is after how many steps everything that can be read is compared.
	checkEvery = 20
)

// compareWithModel runs random sequences of calls on the store and on a [Model]
// with the same clock. A failure names the seed, which repeats it.
func compareWithModel(t *testing.T, harness func(t *testing.T) Harness) {
	sequences := cmp.Or(harness(t).Sequences, defaultSequences)
	if text := os.Getenv("POSTHASTE_SEQUENCES"); text != "" {
		var err error
		if sequences, err = strconv.Atoi(text); err != nil {
			t.Fatalf("POSTHASTE_SEQUENCES: %v", err)
		}
	}
	for seed := range uint64(sequences) {
		if err := compareSequence(t.Context(), harness(t), seed, sequenceSteps); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// comparison is one sequence. Both sides are given the same calls; tokens and
// revisions, which a store chooses, are kept in pairs.
type comparison struct {
	ctx   context.Context
	rng   *rand.Rand
	open  func(now func() time.Time) (storage.Backend, error)
	clock *Clock
	sides [2]storage.Backend
	ids   idMaker

	queues   []queue.Number
	dead     queue.Number
	receipts []pairedReceipt
	// counters holds the newest token counter that the judged store gave each item.
	counters map[copyKey]uint64
	// revisions holds each document's, by its key.
	revisions map[storage.DocumentKey][2]uint64
}

// The sides of a comparison.
const (
	judged = iota
	model
)

// copyKey names one copy of an item wherever it is.
type copyKey struct {
	id   queue.ID
	home queue.Number
}

// pairedReceipt is one lease as both sides know it.
type pairedReceipt struct {
	key    queue.Key
	tokens [2]queue.Token
}

func compareSequence(ctx context.Context, h Harness, seed uint64, steps int) (err error) {
	clock := NewClock()
	store, err := h.Open(clock.Now)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	c := &comparison{
		ctx:   ctx,
		rng:   rand.New(rand.NewPCG(seed, 0)),
		open:  h.Open,
		clock: clock,
		sides: [2]storage.Backend{store, NewModel(clock.Now)},
		queues: []queue.Number{
			queue.NewNumber(1, 1), queue.NewNumber(1, 2), queue.NewNumber(2, 1), queue.NewNumber(1, 9),
		},
		dead:      queue.NewNumber(1, 9),
		counters:  map[copyKey]uint64{},
		revisions: map[storage.DocumentKey][2]uint64{},
	}
	defer func() {
		if closeErr := c.sides[judged].Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("close: %w", closeErr)
		}
	}()
	for step := range steps {
		verb, run := c.choose()
		if err := run(); err != nil {
			return fmt.Errorf("step %d: %s: %w", step, verb, err)
		}
		if (step+1)%checkEvery != 0 && step+1 != steps {
			continue
		}
		if err := c.checkEverything(); err != nil {
			return fmt.Errorf("after step %d: %s: %w", step, verb, err)
		}
	}
	return nil
}

// choose picks the next call by its weight.
func (c *comparison) choose() (string, func() error) {
	choices := []struct {
		weight int
		verb   string
		run    func() error
	}{
		{20, "produce", c.produce},
		{22, "lease", c.lease},
		{24, "settle", c.settle},
		{6, "extend", c.extend},
		{4, "sweep", c.sweepAndBury},
		{4, "move", c.move},
		{2, "purge", c.purge},
		{6, "document", c.changeDocument},
		{3, "documents", c.changeDocuments},
		{1, "tidy", c.tidy},
		{14, "advance", c.advance},
		{1, "reopen", c.reopen},
	}
	total := 0
	for _, choice := range choices {
		total += choice.weight
	}
	at := c.rng.IntN(total)
	for _, choice := range choices {
		if at -= choice.weight; at < 0 {
			return choice.verb, choice.run
		}
	}
	panic("unreachable")
}

// both gives a call to each side and compares what they answer, written down.
func (c *comparison) both(call func(side int, b storage.Backend) (string, error)) error {
	var answers [2]string
	for side, b := range c.sides {
		answer, err := call(side, b)
		if err != nil {
			return err
		}
		answers[side] = answer
	}
	if answers[judged] != answers[model] {
		return fmt.Errorf("the store and the model differ:\n%s", firstDifference(answers[judged], answers[model]))
	}
	return nil
}

func (c *comparison) advance() error {
	unit := pick(c.rng, time.Microsecond, 40*time.Millisecond, time.Second, 15*time.Second, time.Minute, 10*time.Minute)
	c.clock.Advance(unit*time.Duration(1+c.rng.IntN(6)) + time.Duration(c.rng.IntN(3))*time.Microsecond)
	return nil
}

func (c *comparison) reopen() error {
	if !c.sides[judged].Durable() {
		return nil
	}
	if err := c.sides[judged].Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	store, err := c.open(c.clock.Now)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	c.sides[judged] = store
	return c.checkEverything()
}

func (c *comparison) tidy() error {
	for _, b := range c.sides {
		for more, pages := true, 0; more; pages++ {
			var err error
			if more, err = b.Tidy(c.ctx, time.Hour); err != nil {
				return err
			}
			if pages == maxPages {
				return errEndless
			}
		}
	}
	return nil
}

// pick returns one of the values.
func pick[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// chance is true p times of a hundred.
func chance(rng *rand.Rand, p int) bool { return rng.IntN(100) < p }
