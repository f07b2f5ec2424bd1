package main

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLogger_WritesInstantsInUTCAndDurationsAsText(t *testing.T) {
	t.Parallel()
	var out lockedBuffer
	zone := time.FixedZone("", 3600)
	at := time.Date(2026, 3, 8, 3, 0, 0, 0, zone)
	log := newLogger(&out, logJSON, slog.LevelInfo).With("wait", 90*time.Second)
	log.Info("told", "at", at, "took", 1500*time.Millisecond, "n", 3)
	got := out.String()
	for _, want := range []string{`"wait":"1m30s"`, `"at":"2026-03-08T02:00:00Z"`, `"took":"1.5s"`, `"n":3`} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s in it", got, want)
		}
	}
	if _, line, _ := strings.Cut(got, `"time":"`); !strings.Contains(line[:strings.IndexByte(line, '"')], "Z") {
		t.Errorf("got %s, want its time in UTC", got)
	}
}

func TestGatheringLogger_WritesLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		log, flush := newGatheringLogger(&out, slog.LevelInfo)
		log.Info("one")
		log.Info("two")
		if got := out.String(); got != "" {
			t.Errorf("got %s at once, want nothing yet", got)
		}
		time.Sleep(lineDelay) // the bubble's clock: no time passes
		synctest.Wait()
		if got := out.String(); strings.Count(got, "\n") != 2 {
			t.Errorf("got %q after the delay, want two lines", got)
		}
		log.Info("three")
		flush()
		if got := out.String(); !strings.Contains(got, "three") {
			t.Errorf("got %q after a flush, want the third line", got)
		}
		log.Info("four")
		log.Warn("five")
		if got := out.String(); !strings.Contains(got, "four") || !strings.Contains(got, "five") {
			t.Errorf("got %q after a warning, want it and what was before it", got)
		}
		time.Sleep(lineDelay)
	})
}
