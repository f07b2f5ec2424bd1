package badger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// flusher makes durable what Badger wrote to its newest log. Badger writes a log
// through a memory map, and the kernel keeps the same pages for the map and for our
// descriptor, so flushing the descriptor is enough. It belongs to the goroutine that
// commits. A nil flusher leaves it to the kernel.
type flusher struct {
	dir    string
	number int
	file   *os.File
	named  bool   // the name of file is durable
	next   string // where the log after this one will be
}

const logSuffix = ".mem"

// openFlusher begins with the newest log of a database that was just opened.
func openFlusher(dir string) (*flusher, error) {
	logs, err := sortedLogs(dir)
	if err != nil {
		return nil, err
	}
	newest := 0
	if len(logs) > 0 {
		newest, _ = logNumber(logs[len(logs)-1])
	}
	f := &flusher{dir: dir}
	if err := f.follow(newest); err != nil {
		return nil, fmt.Errorf("find the newest log: %w", err)
	}
	return f, nil
}

// sortedLogs are the names of the logs by number: from 100000 on, names do not sort
// any more.
func sortedLogs(dir string) ([]string, error) {
	logs, err := filepath.Glob(filepath.Join(dir, "*"+logSuffix))
	if err != nil {
		return nil, err
	}
	for _, name := range logs {
		if _, err := logNumber(name); err != nil {
			return nil, fmt.Errorf("log %s: %w", name, err)
		}
	}
	slices.SortFunc(logs, func(a, b string) int {
		m, _ := logNumber(a)
		n, _ := logNumber(b)
		return m - n
	})
	return logs, nil
}

func logNumber(name string) (int, error) {
	return strconv.Atoi(strings.TrimSuffix(filepath.Base(name), logSuffix))
}

// flush makes the commit that just returned durable. It lies in the log that is
// newest now: Badger may begin a new one before a commit, and never within it.
func (f *flusher) flush() error {
	if f == nil {
		return nil
	}
	switch err := syscall.Access(f.next, 0); {
	case err == nil:
		if err := f.follow(f.number + 1); err != nil {
			return fmt.Errorf("follow the log: %w", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("look for the next log: %w", err)
	}
	// Badger cuts a log to nothing when all of it is in a table. If that was done to
	// the one we take for the newest, the newest is somewhere else.
	if info, err := f.file.Stat(); err != nil || info.Size() == 0 {
		return errors.Join(fmt.Errorf("log %d is not the newest, and no newer one was found", f.number), err)
	}
	if err := datasync(f.file); err != nil {
		return fmt.Errorf("sync log %d: %w", f.number, err)
	}
	if !f.named {
		if err := syncDir(f.dir); err != nil {
			return fmt.Errorf("sync directory: %w", err)
		}
		f.named = true
	}
	return nil
}

// follow turns to a log. The one before needs nothing more: each commit in it was
// flushed when it was made.
func (f *flusher) follow(number int) error {
	file, err := os.Open(f.name(number))
	if err != nil {
		return err
	}
	err = f.close()
	f.number, f.file, f.named = number, file, false
	f.next = f.name(number + 1)
	return err
}

func (f *flusher) name(number int) string {
	return filepath.Join(f.dir, fmt.Sprintf("%05d%s", number, logSuffix))
}

func (f *flusher) close() error {
	if f == nil || f.file == nil {
		return nil
	}
	return f.file.Close()
}

// tidyLogs prepares the logs that a process left behind. What is in them may have
// been written and not flushed; Badger shows it all, and what is built on it must
// not be more durable than it is. A power cut can leave the name of a log that was
// cut to nothing or not begun, which Badger does not open.
func tidyLogs(dir string) error {
	for _, suffix := range []string{logSuffix, vlogSuffix} {
		names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := tidyLog(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func tidyLog(name string) (err error) {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	// What is shorter than a log's head has nothing in it.
	if info.Size() < logHead {
		return os.Remove(name)
	}
	return file.Sync()
}
