package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func TestCleanups_LastFirstAndAllOfThem(t *testing.T) {
	t.Parallel()
	var c cleanups
	var order []string
	step := func(name string, err error) {
		c.push(name, func(context.Context) error {
			order = append(order, name)
			return err
		})
	}
	disk := errors.New("disk")
	step("close the store", disk)
	step("drain", nil)
	step("end pushes", errors.New("late"))

	var out bytes.Buffer
	log := newLogger(&out, logJSON, slog.LevelInfo)
	err := c.run(t.Context(), log)
	if want := []string{"end pushes", "drain", "close the store"}; !slices.Equal(order, want) {
		t.Errorf("got %v, want %v", order, want)
	}
	if !errors.Is(err, disk) || !strings.Contains(err.Error(), "end pushes: late") {
		t.Errorf("got %v, want both errors", err)
	}
	if n := strings.Count(out.String(), `"duration":"`); n != 3 {
		t.Errorf("%d steps were logged with their duration, want 3:\n%s", n, out.String())
	}
	if err := c.run(t.Context(), log); err != nil || len(order) != 3 {
		t.Errorf("a second run took steps again: %v, %v", order, err)
	}
}

func TestAnnounce_WritesWhateverTheLevel(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	announce(newLogger(&out, logJSON, slog.LevelError), "listening", "api", "127.0.0.1:1")
	if !strings.Contains(out.String(), `"msg":"listening","api":"127.0.0.1:1"`) {
		t.Errorf("got %s", out.String())
	}
}
