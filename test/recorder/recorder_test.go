package recorder_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/posthaste-io/posthaste/test/recorder"
)

func TestRecorder_ReadsBackWhatWasWritten(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	r := recorder.New(&file)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				op := r.Invoke("p", recorder.Produce, "q", recorder.Item{Payload: recorder.Hash([]byte("x"))})
				r.End(recorder.Event{Op: op, Client: "p", Verb: recorder.Produce, Phase: recorder.OK})
			}
		})
	}
	wg.Wait()
	r.Note("nemesis", recorder.Kill, "", "pid 1")
	if err := r.Flush(); err != nil {
		t.Fatal(err)
	}
	events, err := recorder.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 801 {
		t.Fatalf("events: got %d, want 801", len(events))
	}
	open := map[uint64]bool{}
	for i, e := range events {
		if i > 0 && e.Mono < events[i-1].Mono {
			t.Fatalf("line %d is older than the line before it", e.Seq)
		}
		if e.Phase == recorder.OK && e.Verb == recorder.Produce && !open[e.Op] {
			t.Fatalf("line %d ends an operation that was not invoked", e.Seq)
		}
		open[e.Op] = e.Phase == recorder.Invoked
	}
}

func TestRead_RefusesAHistoryWithAHole(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a line is missing": `{"seq":1}` + "\n" + `{"seq":3}`,
		"a line is cut":     `{"seq":1}` + "\n" + `{"seq":2,"op"`,
	} {
		if _, err := recorder.Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s: read without an error", name)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestRecorder_FlushTellsThatLinesWereLost(t *testing.T) {
	t.Parallel()
	r := recorder.New(fullDisk{})
	for range 2000 {
		r.Note("nemesis", recorder.Kill, "", strings.Repeat("x", 100))
	}
	if err := r.Flush(); err == nil {
		t.Error("flush: no error, though nothing could be written")
	}
}
