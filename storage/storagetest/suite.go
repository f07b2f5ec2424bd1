package storagetest

import (
	"slices"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/storage"
)

// Harness hands the suite one store.
type Harness struct {
	// Open opens the store, which lives by the clock now. On a store that is Durable
	// the suite closes it and calls Open again, and finds the same data.
	Open func(now func() time.Time) (storage.Backend, error)
	// Sequences is how many random sequences of calls are compared with [Model]; 0
	// is 200, and 40 under the race detector. Stores that write to a disk take fewer.
	// The environment's POSTHASTE_SEQUENCES wins.
	Sequences int
}

// testCase is one claim about every store.
type testCase struct {
	name string
	run  func(f *fixture)
}

// Run judges a store. harness is called for every subtest, with its t, and must
// return one that holds nothing yet. The subtests run in parallel.
func Run(t *testing.T, harness func(t *testing.T) Harness) {
	for _, c := range slices.Concat(
		orderCases, keyCases, takerCases, scheduleCases, placeCases,
		fencingCases, counterCases, buryCases, groupCases, dedupeCases, topicCases, toldTopicCases,
		extendCases, sweepCases, guardCases, moveCases, purgeCases, importCases,
		listCases, statsCases, documentCases, changeCases, journalCases,
		contentCases, concurrencyCases, lifeCases, durabilityCases,
	) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(setup(t, harness(t)))
		})
	}
	t.Run("Random_CallsAnswerAsTheModelDoes", func(t *testing.T) {
		t.Parallel()
		compareWithModel(t, harness)
	})
}
