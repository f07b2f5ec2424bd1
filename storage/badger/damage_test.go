package badger_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/badger"
)

var testQueue = queue.NewNumber(1, 1)

// produce makes one item, in a commit of its own.
func produce(t testing.TB, s *badger.Store) queue.ID {
	t.Helper()
	item := queue.NewItem{ID: queue.NewID(), Queue: testQueue, Content: queue.Content{Payload: []byte("payload")}}
	answer, err := s.Produce(t.Context(), []queue.ProduceGroup{{Items: []queue.NewItem{item}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Groups[0].Err; err != nil {
		t.Fatal(err)
	}
	return item.ID
}

func total(t testing.TB, s *badger.Store) int {
	t.Helper()
	stats, err := s.Stats(t.Context(), []queue.Number{testQueue})
	if err != nil {
		t.Fatal(err)
	}
	if len(stats) == 0 {
		return 0
	}
	return stats[0].Total
}

// copyDir copies a directory as a kill would leave it.
func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// logFile is the log of the table that is in memory.
func logFile(t testing.TB, dir string) string {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no log in %s: %v", dir, err)
	}
	return logs[len(logs)-1]
}

func TestB02_KilledStoreHasAllThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, badger.Options{Dir: dir})
	for range 200 {
		produce(t, s)
	}
	killed := copyDir(t, dir)
	again := open(t, badger.Options{Dir: killed})
	if got := total(t, again); got != 200 {
		t.Errorf("got %d items, want 200", got)
	}
	if kept, _ := filepath.Glob(filepath.Join(killed, "*.found")); len(kept) > 0 {
		t.Errorf("nothing is missing, and copies were left behind: %v", kept)
	}
}

func TestB02_DamagedLogIsRefusedWithTheNumberOfMissingCommits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, badger.Options{Dir: dir})
	const acknowledged = 400
	marker := ""
	for i := range acknowledged {
		id := produce(t, s)
		if i == acknowledged/2 {
			marker = string(id[:])
		}
	}
	killed := copyDir(t, dir)
	log := logFile(t, killed)
	flipBit(t, log, marker)
	asFound, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}

	var damaged *badger.DamagedError
	if _, err := badger.Open(badger.Options{Dir: killed, MinFree: 1}); !errors.As(err, &damaged) {
		t.Fatalf("open: got %v, want a DamagedError", err)
	}
	if damaged.Want != acknowledged || damaged.Have != acknowledged/2 || damaged.Missing != damaged.Want-damaged.Have {
		t.Errorf("got %+v, want %d of %d missing", damaged, acknowledged/2, acknowledged)
	}
	if text := damaged.Error(); !strings.Contains(text, "200 commits are missing after commit 200") || !strings.Contains(text, "--accept-data-loss") {
		t.Errorf("the error does not say what is missing and what to do: %s", text)
	}

	// To ask again changes nothing.
	if _, err := badger.Open(badger.Options{Dir: killed, MinFree: 1}); !errors.As(err, &damaged) {
		t.Fatalf("second open: got %v, want a DamagedError", err)
	}

	// Badger has cut the log off by now; it was copied before.
	if kept, err := os.ReadFile(log + ".found"); err != nil || !bytes.Equal(kept, asFound) {
		t.Errorf("the log is not kept as it was found: %d bytes, %v, want %d", len(kept), err, len(asFound))
	}

	accepted, err := badger.Open(badger.Options{Dir: killed, MinFree: 1, AcceptDataLoss: true})
	if err != nil {
		t.Fatalf("open with loss: %v", err)
	}
	if got := total(t, accepted); got != acknowledged/2 {
		t.Errorf("got %d items, want the %d before the damage", got, acknowledged/2)
	}
	if err := accepted.Close(); err != nil {
		t.Fatal(err)
	}
	if kept, _ := filepath.Glob(filepath.Join(killed, "highwater.lost-200-400")); len(kept) != 1 {
		t.Error("the record of what was acknowledged was not kept")
	}
	open(t, badger.Options{Dir: killed}) // the loss was accepted once and for all
}

// flipBit damages a file at the first place where a text stands.
func flipBit(t testing.TB, file, text string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(b), text)
	if at < 0 {
		t.Fatalf("%s does not hold what was looked for", file)
	}
	b[at] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestB02_TornHighWaterFallsBackToItsOtherSlot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, badger.Options{Dir: dir})
	for range 10 {
		produce(t, s)
	}
	killed := copyDir(t, dir)
	damageAt(t, filepath.Join(killed, "highwater"), 0) // the slot of commit 10
	again := open(t, badger.Options{Dir: killed})
	if got := total(t, again); got != 10 {
		t.Errorf("got %d items, want 10", got)
	}
}

func TestB02_UnreadableHighWaterIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, badger.Options{Dir: dir})
	for range 10 {
		produce(t, s)
	}
	killed := copyDir(t, dir)
	damageAt(t, filepath.Join(killed, "highwater"), 0, 512)
	if _, err := badger.Open(badger.Options{Dir: killed, MinFree: 1}); err == nil || !strings.Contains(err.Error(), "--accept-data-loss") {
		t.Errorf("open: got %v, want a refusal that says what to do", err)
	}
	again := open(t, badger.Options{Dir: killed, AcceptDataLoss: true})
	if got := total(t, again); got != 10 {
		t.Errorf("got %d items, want 10", got)
	}
}

func damageAt(t testing.TB, file string, offsets ...int) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range offsets {
		b[at+5] ^= 0x40
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Tokens of leases that were lost with the log must not be given out again.
func TestB02_SeqGoesOnAboveWhatWasLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, badger.Options{Dir: dir})
	var last queue.ID
	for range 20 {
		last = produce(t, s)
	}
	found, err := s.Find(t.Context(), []queue.ID{last}, true)
	if err != nil || len(found) != 1 {
		t.Fatalf("find: %v, %v", found, err)
	}
	killed := copyDir(t, dir)
	flipBit(t, logFile(t, killed), string(last[:]))
	again := open(t, badger.Options{Dir: killed, AcceptDataLoss: true})
	if found, _ := again.Find(t.Context(), []queue.ID{last}, true); len(found) != 0 {
		t.Fatal("the damage hit nothing, so the test shows nothing")
	}
	next, err := again.Find(t.Context(), []queue.ID{produce(t, again)}, true)
	if err != nil || len(next) != 1 {
		t.Fatalf("find: %v, %v", next, err)
	}
	if next[0].Seq <= found[0].Seq {
		t.Errorf("seq: got %d, want above %d, which was lost", next[0].Seq, found[0].Seq)
	}
}
