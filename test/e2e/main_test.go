// Package e2e_test drives the real program over HTTP, on each store, with a
// scripted receiver whose signatures are checked by the reference library of
// Standard Webhooks.
package e2e_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
	"github.com/posthaste-io/posthaste/test/harness"
)

func TestMain(m *testing.M) {
	code := pgtest.Main(m)
	harness.Clean()
	os.Exit(code)
}

// patience is how long a condition may take to come true on a busy machine. No test
// that passes waits for it.
const patience = 30 * time.Second

// stores are what every scenario runs on.
var stores = []struct {
	name string
	url  func(testing.TB) string
}{
	{"memory", func(testing.TB) string { return "memory:" }},
	{"badger", func(testing.TB) string { return "badger:data" }},
	{"postgres", pgtest.URL},
}

// loopback opens what receivers listen on.
var loopback = []string{"--egress-allow", "127.0.0.0/8"}

// TestScenarios runs all scenarios on one server a store, each on queues of its own.
func TestScenarios(t *testing.T) {
	t.Parallel()
	onEachStore(t, scenarios)
}

func onEachStore(t *testing.T, scenarios map[string]func(t *testing.T, e *env)) {
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			server := harness.Start(t, harness.Options{Store: store.url(t), Args: loopback})
			for name, run := range scenarios {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					run(t, newEnv(t, server))
				})
			}
		})
	}
}

// scenarios by the claim that each proves.
var scenarios = map[string]func(t *testing.T, e *env){
	"Push_G01_ArrivesSignedWithItsHeaders":       pushArrivesSigned,
	"Push_P11_BytesArriveAsTheyWere":             pushBytesArrive,
	"Push_FailingEndpointEndsInDeadLetters":      pushFailingEndpoint,
	"Push_C02_RetryAfterIsObeyedUncounted":       pushRetryAfter,
	"Push_C03_GoneDisablesAndEnableDrains":       pushGone,
	"Push_DelayedItemIsNotEarly":                 pushDelayed,
	"Push_PausedSubscriptionWaits":               pushPaused,
	"Push_SecondSubscriptionOfAQueueIsRefused":   pushSecondSubscription,
	"Pull_LeasedItemIsGoneOnceCompleted":         pullComplete,
	"Pull_RetriedItemComesBackCounted":           pullRetry,
	"Pull_ReleasedItemComesBackUncounted":        pullRelease,
	"Pull_BuriedItemIsKeptWithItsReason":         pullBury,
	"Pull_ExtendMovesTheDeadline":                pullExtend,
	"Pull_LongPollEndsWithTheItem":               pullLongPoll,
	"Pull_EmptyQueueAnswersNothing":              pullEmpty,
	"Pull_D02_StaleReceiptIsRefused":             pullStale,
	"Pull_UnreadLeaseIsGivenBackAtOnce":          pullUnsent,
	"Pull_P11_BytesArriveAsTheyWere":             pullBytes,
	"Input_UnknownQueueIsNotFound":               inputUnknownQueue,
	"Input_I03_FaultsNameTheirField":             inputFaults,
	"Input_I01_OversizeIsRefusedWhole":           inputOversize,
	"Input_UnknownTypeIsRefused":                 inputUnknownType,
	"Input_LaterFeaturesAreNotSupported":         inputNotSupported,
	"Input_I06_FiftyProducesOfOneKeyMakeOneItem": inputIdempotency,
	"Input_I06_KeyWithAnotherBodyIsAConflict":    inputMismatch,
	"Health_SaysWellAndWhichVersion":             health,
	"Health_A10_ProfilesAreForAdminsOnly":        profiles,
}

// env is what a scenario works with.
type env struct {
	*client
	server *harness.Server
	// queue is a name that no other scenario uses.
	queue string
	dead  string
}

func newEnv(t *testing.T, server *harness.Server) *env {
	parts := strings.Split(t.Name(), "/")
	name := strings.ReplaceAll(parts[len(parts)-1], "_", "-")
	return &env{client: newClient(t, server.URL), server: server, queue: name, dead: name + "~dead"}
}

// eventually waits for a condition; what says what it means.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	eventuallyIn(t, patience, what, condition)
}

// eventuallyIn is for what takes longer where more is asked of it.
func eventuallyIn(t *testing.T, patience time.Duration, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for {
		if condition() {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("after %s: not yet %s", patience, what)
		}
	}
}
