package badger

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// InUseError says that another process has the directory.
type InUseError struct {
	Dir string
	// Holder is what the other one wrote of itself, such as "process 1234 on host h
	// since 2026-03-01T12:00:00Z".
	Holder string
}

// Error implements error.
func (e *InUseError) Error() string {
	return fmt.Sprintf("directory %s is in use by %s; stop that one first, or choose another directory", e.Dir, e.Holder)
}

// lock is the directory's lock, held for the life of the store. The kernel lets
// go of it when the process ends, however it ends; the file stays, and is nobody's
// to remove.
type lock struct{ file *os.File }

const lockName = "posthaste.lock"

func acquire(dir string) (*lock, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, _ := io.ReadAll(io.LimitReader(file, 1024))
		return nil, errors.Join(&InUseError{Dir: dir, Holder: holderText(string(holder))}, file.Close())
	}
	if err == nil {
		err = writeHolder(file)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", file.Name(), err), file.Close())
	}
	return &lock{file}, nil
}

// holderText is the first line of a lock file, or what can be said without.
func holderText(written string) string {
	if line, _, _ := strings.Cut(written, "\n"); line != "" {
		return line
	}
	return "another process, which did not say which"
}

func writeHolder(file *os.File) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	text := fmt.Sprintf("process %d on host %s since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err = file.WriteAt([]byte(text), 0)
	return err
}

// release unlocks before it closes: a process that is being started at this moment has
// the file too until it begins.
func (l *lock) release() error {
	err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
	return errors.Join(err, l.file.Close())
}
