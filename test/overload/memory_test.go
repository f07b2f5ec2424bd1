package overload_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// watchMemory looks at what a process has for itself, until the function that it returns
// is called, which says how many bytes that were at most. Files that are mapped are no
// part of it: the system takes them back as it likes.
func watchMemory(t *testing.T, pid int) (most func() int) {
	t.Helper()
	stop, result := make(chan struct{}), make(chan int, 1)
	go func() {
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		highest := 0
		for {
			select {
			case <-ticker.C:
				highest = max(highest, ownMemory(t, pid))
			case <-stop:
				result <- highest
				return
			}
		}
	}()
	return func() int {
		close(stop)
		return <-result
	}
}

func ownMemory(t *testing.T, pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Error(err)
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if kib, found := strings.CutPrefix(line, "RssAnon:"); found {
			n, err := strconv.Atoi(strings.Fields(kib)[0])
			if err != nil {
				t.Error(err)
			}
			return n << 10
		}
	}
	t.Errorf("process %d has no RssAnon", pid)
	return 0
}
