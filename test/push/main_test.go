// Package push_test holds the contract of pushing against the real program, with
// receivers that fail, die, finish later, and answer for several items at once.
package push_test

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
	"github.com/posthaste-io/posthaste/test/harness"
)

func TestMain(m *testing.M) {
	// Most of them wait for time to pass, some for half a minute; that costs no processor.
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	code := pgtest.Main(m)
	harness.Clean()
	os.Exit(code)
}

// patience is how long a condition may take to come true on a busy machine. No test
// that passes waits for it.
const patience = time.Minute

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

// scenarios by the claim that each proves.
var scenarios = map[string]func(t *testing.T, e *env){
	"Rotation_G05_OldSecretSignsUntilTheOverlapIsOver": rotationOverlap,
	"Rotation_G05_TwoOldSecretsSignAtMost":             rotationAtMostTwo,
	"Rotation_G03_NewSecretMayBeEd25519":               rotationEd25519,

	"Later_CompletesWithTheReceiptAlone":     laterCompletes,
	"Later_ExtendsThenCompletes":             laterExtends,
	"Later_ExtensionBeforeTheAnswerHolds":    laterExtendsBeforeTheAnswer,
	"Later_RetryIsCountedAndSentAgain":       laterRetries,
	"Later_LapseCountsAsAnAttempt":           laterLapses,
	"Later_MaxDeferredHoldsBackTheRest":      laterAtMost,
	"Later_KeepIsNotAskedWithoutDefer":       laterNotAllowed,
	"Later_ReceiptOpensNothingButItsOwnItem": laterReceiptIsAllItOpens,

	"Outcome_OfEachKindIsInTheLog":                   outcomeInTheLog,
	"Outcome_BeforeTheAnswerIsInTheLog":              outcomeBeforeTheAnswer,
	"Outcome_RetryMeetsTheSubscriptionsLimit":        outcomeAtTheLimit,
	"Outcome_ResultThatNothingKeepsIsNoReasonToFail": outcomeResultIsDropped,

	"Target_ItemsGoToTheirOwnEndpoints":         targetOwn,
	"Target_HostThatIsDownHoldsUpNoOther":       targetHostDown,
	"Target_HostThatHangsHoldsUpNoOther":        targetHostHangs,
	"Target_OwnEndpointThatHangsHoldsUpNoOther": targetOwnEndpointHangs,
	"Target_N09_GuardForbidsPrivateOnes":        targetForbidden,
	"Target_IsRefusedWithoutAllowTarget":        targetNotAllowed,
	"Done_EachEndIsToldOnce":                    doneToldOnce,
	"Done_OfAnItemWinsOverTheQueues":            doneOfAnItem,
	"Done_WhatConsumersEndIsToldByTheItemAlone": donePulled,
	"Done_WhatEndpointsFinishLaterIsTold":       doneLater,
	"Done_DeadLettersArePushed":                 doneDeadLetters,
	"CloudEvents_OfTheSDKArriveTheSame":         eventsOfTheSDK,
	"CloudEvents_StayAsTheyCameOnAllWays":       eventsAsTheyCame,
	"Batch_BareSuccessSettlesAll":               batchBare,
	"Batch_NamedItemsAloneComeAgain":            batchPartial,
	"Batch_NeverBuriesTheOneThatIsNamed":        batchNever,
	"Batch_AnswerThatBreaksOffHasAllTriedAgain": batchBrokenOff,
	"Batch_IsRefusedBesideWhatItDoesNotGoWith":  batchRefused,
	"Batch_MultipartBringsBytesAsTheyAre":       batchMultipart,
	"Batch_FailureIsOfAll":                      batchFails,
	"Order_INV12_KeysArePushedStrictly":         orderByKey,
	"Order_BlockedKeyIsToldOfAndSkipped":        orderBlockedKey,
	"Partitions_ChangeWhileAllTakeFromThem":     partitionsChange,
	"Policy_LogKeepsWhatItSays":                 policyLog,
	"Policy_C03_GoneParksUntilEnabled":          policyGone,
	"Policy_NeverBuriesAtOnce":                  policyNever,
	"Policy_BuryOnBuriesAtOnce":                 policyBuryOn,
	"Policy_GiveUpAfterBuriesWhatIsOld":         policyGiveUp,
	"Policy_ItemsOwnLimitsWin":                  policyItemsOwn,
	"Policy_EndedItemTellsItsAttempts":          policyEndedItem,
	"Policy_H11_AnswerIsKeptWithTheRecord":      policyAnswer,
}

// TestScenarios runs all scenarios on one server a store, each on queues of its own.
func TestScenarios(t *testing.T) {
	t.Parallel()
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

// env is what a scenario works with.
type env struct {
	*client
	server *harness.Server
	// queue is a name that no other scenario uses, dead its dead-letter queue.
	queue string
	dead  string
}

func newEnv(t *testing.T, server *harness.Server) *env {
	parts := strings.Split(t.Name(), "/")
	name := strings.ReplaceAll(parts[len(parts)-1], "_", "-")
	return &env{client: newClient(t, server.URL, harness.Key), server: server, queue: name, dead: name + "~dead"}
}

// eventually waits for a condition; what says what it means.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	within(t, patience, what, condition)
}

func within(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(limit)
	for !condition() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("after %s: not yet %s", limit, what)
		}
	}
}

// until waits for an instant.
func until(t *testing.T, at time.Time) {
	t.Helper()
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
