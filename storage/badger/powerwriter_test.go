//go:build linux

package badger_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/badger"
)

// A store whose disk is gone may be killed by the kernel, since Badger writes
// through a memory map. So the writer is a process of its own: this test binary
// with these in its environment.
const (
	writerDir    = "POSTHASTE_TEST_WRITER_DIR"
	writerNoSync = "POSTHASTE_TEST_WRITER_NO_SYNC"
	writerFills  = "POSTHASTE_TEST_WRITER_FILLS"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		o := badger.Options{UnsafeNoSync: os.Getenv(writerNoSync) != ""}
		write := writeAll
		if os.Getenv(writerFills) != "" {
			write = fillDisk
		}
		if err := write(powerOptions(dir, o)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// powerOptions make a store that begins a new log, and writes a table, several
// times a second. One that does not flush has a log for many seconds, since Badger
// flushes its tables always.
func powerOptions(dir string, o badger.Options) badger.Options {
	o.Dir, o.MinFree = dir, 1
	if o.UnsafeNoSync {
		return badger.Sized(o, 256<<20)
	}
	return badger.Sized(o, 8<<20)
}

// The lines that a writer says: each begins with what happened to the item whose id
// follows.
const (
	saidProduced = "produced" // and the number of commits
	saidLeased   = "leased"   // and the token's random half
	saidSettling = "settling" // before the call
	saidComplete = "complete"
)

func say(what string, id queue.ID, n uint64) {
	fmt.Printf("%s %s %d\n", what, hex.EncodeToString(id[:]), n) // one write, and whole
}

// writeAll writes until the disk fails. That is how it is meant to end, so only an
// open that fails is an error.
func writeAll(o badger.Options) error {
	s, err := badger.Open(o)
	if err != nil {
		return err
	}
	payload := make([]byte, 8000)
	if o.UnsafeNoSync {
		payload = payload[:10]
	}
	var writers sync.WaitGroup
	for n := range 8 {
		q := queue.NewNumber(1, uint32(n+1))
		writers.Go(func() {
			for writeOnce(s, q, payload) == nil {
			}
		})
	}
	writers.Wait()
	return nil
}

// writeOnce produces a few items, leases as many, and completes all but one, whose
// lease stays.
func writeOnce(s *badger.Store, q queue.Number, payload []byte) error {
	ctx := context.Background()
	group := queue.ProduceGroup{Items: make([]queue.NewItem, 4)}
	for i := range group.Items {
		group.Items[i] = queue.NewItem{ID: queue.NewID(), Queue: q, Content: queue.Content{Payload: payload}}
	}
	if _, err := s.Produce(ctx, []queue.ProduceGroup{group}); err != nil {
		return err
	}
	for i := range group.Items {
		say(saidProduced, group.Items[i].ID, badger.Commits(s))
	}
	leased, err := s.Lease(ctx, []queue.LeaseCall{{Queue: q, Takers: []queue.Taker{{Limit: 3, TTL: time.Hour}}}})
	if err != nil {
		return err
	}
	for i, it := range leased.Calls[0].Takers[0] {
		if i == 0 {
			say(saidLeased, it.ID, it.Token.Random)
			continue
		}
		say(saidSettling, it.ID, 0)
		entry := queue.Settlement{Key: it.Key, Token: it.Token, Outcome: queue.Complete}
		settled, err := s.Settle(ctx, []queue.SettleGroup{{Entries: []queue.Settlement{entry}}})
		if err != nil {
			return err
		}
		if settled.Groups[0][0].Status == queue.Applied {
			say(saidComplete, it.ID, 0)
		}
	}
	return nil
}

// writer is the process, as its parent has it.
type writer struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan line
}

type line struct {
	what string
	id   queue.ID
	n    uint64
}

func startWriter(t *testing.T, dir string, o badger.Options) *writer {
	t.Helper()
	return startUnder(t, dir, o, nil)
}

// startUnder starts a writer as an argument of another program, and with more in its
// environment.
func startUnder(t *testing.T, dir string, o badger.Options, env []string, program ...string) *writer {
	t.Helper()
	command := append(program, os.Args[0])
	w := &writer{t: t, cmd: exec.Command(command[0], command[1:]...), lines: make(chan line)}
	w.cmd.Env = append(append(os.Environ(), writerDir+"="+dir), env...)
	if o.UnsafeNoSync {
		w.cmd.Env = append(w.cmd.Env, writerNoSync+"=1")
	}
	w.cmd.Stderr = t.Output()
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if w.cmd.ProcessState == nil { // the test failed
			w.end()
		}
	})
	go func() {
		defer close(w.lines)
		said := bufio.NewScanner(out)
		for said.Scan() {
			var l line
			var id []byte
			// A last line that was cut short says nothing.
			if n, _ := fmt.Sscanf(said.Text(), "%s %x %d", &l.what, &id, &l.n); n == 3 {
				copy(l.id[:], id)
				w.lines <- l
			}
		}
	}()
	return w
}

// readUntil writes down what the writer says: so many lines, or for so long.
func (w *writer) readUntil(known ledger, lines int, most time.Duration) {
	w.t.Helper()
	enough := time.After(most)
	for range lines {
		select {
		case l, ok := <-w.lines:
			if !ok {
				w.t.Fatalf("the writer ended before the cut: %v", w.cmd.Wait())
			}
			known.write(l)
		case <-enough:
			return
		}
	}
}

// end kills the writer and the program that it runs under, which are a group.
func (w *writer) end() { _ = syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL) }

// kill ends the writer, which may have ended by itself, and writes down what it
// still said.
func (w *writer) kill(known ledger) {
	w.end()
	for l := range w.lines {
		known.write(l)
	}
	_ = w.cmd.Wait() // killed, by us or by the kernel
}

func (l ledger) write(said line) {
	f := l.of(said.id)
	switch said.what {
	case saidProduced:
		f.produced, f.commits = time.Now(), said.n
	case saidLeased:
		f.token = said.n
	case saidSettling:
		f.settling = true
	case saidComplete:
		f.complete = time.Now()
	}
}
