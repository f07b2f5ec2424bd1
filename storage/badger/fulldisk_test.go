//go:build linux

package badger_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/badger"
)

// A disk that is really full: 64 MiB of memory. Badger writes through a memory map,
// where that is a signal and not an error, so it must not come to it.
func TestB05_FullDiskRefusesProduceAndLosesNothing(t *testing.T) {
	dir := smallDisk(t)
	known := ledger{}
	// The writer ends when produce is refused.
	w := startUnder(t, dir, badger.Options{}, []string{writerFills + "=1"})
	if ended := w.readToEnd(known, 30*time.Second); !ended {
		t.Error("the writer was never refused")
	}
	w.kill(known)
	if state := w.cmd.ProcessState; !state.Success() {
		t.Errorf("the writer ended with %v, want a refusal and no signal", state)
	}
	// As full as it gets.
	ballast := filepath.Join(dir, "ballast")
	if err := fillUp(ballast); err != nil {
		t.Fatal(err)
	}
	if _, err := badger.Open(powerOptions(dir, badger.Options{})); err == nil || !strings.Contains(err.Error(), "are free on the disk") {
		t.Errorf("open on a full disk: got %v, want an error that says so", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	s, err := badger.Open(powerOptions(dir, badger.Options{}))
	if err != nil {
		t.Fatalf("open when there is room again: %v", err)
	}
	if got := known.judge(t, s, time.Now()); got != (judgement{}) || len(known) == 0 {
		t.Errorf("got %+v of %d items", got, len(known))
	}
	settled := 0
	for _, f := range known {
		if !f.complete.IsZero() {
			settled++
		}
	}
	if settled == 0 {
		t.Error("nothing was settled on the full disk")
	}
	t.Logf("%d items on a disk of 64 MiB, %d settled when it was full", len(known), settled)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// fillDisk produces until that is refused, and settles what it made after that.
func fillDisk(o badger.Options) error {
	s, err := badger.Open(o)
	if err != nil {
		return err
	}
	ctx := context.Background()
	payload := make([]byte, 8000)
	dice := rand.NewChaCha8([32]byte{})
	for {
		_, _ = dice.Read(payload) // it never fails
		item := queue.NewItem{ID: queue.NewID(), Queue: testQueue, Content: queue.Content{Payload: payload}}
		_, err := s.Produce(ctx, []queue.ProduceGroup{{Items: []queue.NewItem{item}}})
		if errors.Is(err, queue.ErrDiskFull) {
			break
		}
		if err != nil {
			return err
		}
		say(saidProduced, item.ID, 0)
	}
	leased, err := s.Lease(ctx, []queue.LeaseCall{{Queue: testQueue, Takers: []queue.Taker{{Limit: 200, TTL: time.Hour}}}})
	if err != nil {
		return err
	}
	for _, it := range leased.Calls[0].Takers[0] {
		say(saidSettling, it.ID, 0)
		entry := queue.Settlement{Key: it.Key, Token: it.Token, Outcome: queue.Complete}
		if _, err := s.Settle(ctx, []queue.SettleGroup{{Entries: []queue.Settlement{entry}}}); err != nil {
			return err
		}
		say(saidComplete, it.ID, 0)
	}
	return s.Close()
}

func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a small disk")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skip("root may not mount a small disk here: " + strings.TrimSpace(string(out)))
	}
	t.Cleanup(func() {
		if err := exec.Command("umount", dir).Run(); err != nil {
			_ = exec.Command("umount", "-l", dir).Run()
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// fillUp writes until there is no room.
func fillUp(name string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	block := make([]byte, 64<<10)
	for {
		if _, err := file.Write(block); err != nil {
			return file.Close()
		}
	}
}
