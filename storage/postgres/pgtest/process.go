package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

const (
	// readyTimeout bounds a start, recovery after a crash included.
	readyTimeout = 60 * time.Second
	// readyPoll is how often a starting server is asked whether it is ready.
	readyPoll = 10 * time.Millisecond
	// endTimeout bounds how long a server may take to end after its signal.
	endTimeout = 60 * time.Second
	// shownLog is how much of a log a failure shows, in bytes.
	shownLog = 16 << 10
)

// process is a server that runs.
type process struct {
	*os.Process

	// gone is closed when the process and all its children have ended.
	gone chan struct{}
}

// start runs a server. Its output goes to log.
func start(cmd *exec.Cmd, log *os.File) (*process, error) {
	cmd.Stdout, cmd.Stderr = log, log
	// Whoever the server forks inherits the writing end of the pipe; the reading
	// end says when the last of them is gone.
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{writer}

	p := &process{gone: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel ends the server when the thread that forked it ends, not the
		// process, so the thread is kept for as long as the server runs.
		runtime.LockOSThread()
		defer close(p.gone)
		defer reader.Close()
		err := cmd.Start()
		writer.Close()
		p.Process = cmd.Process
		started <- err
		if err != nil {
			return
		}
		// How a server ends after a signal is of no interest, and that it ended by
		// itself is seen by those who wait for it to be ready.
		_ = cmd.Wait()
		_, _ = io.Copy(io.Discard, reader)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// await asks a server every so often until there is no error, for as long as it runs.
func (p *process) await(ask func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-p.gone:
			return errors.New("it ended by itself")
		case <-ctx.Done():
			return fmt.Errorf("after %v: %w", readyTimeout, err)
		case <-tick.C:
		}
	}
}

// end sends a signal and waits until the process and its children are gone.
func (p *process) end(signal os.Signal) error {
	if err := p.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.gone:
		return nil
	case <-time.After(endTimeout):
		return fmt.Errorf("process %d or a child is there %v after the signal %q", p.Pid, endTimeout, signal)
	}
}

// sizeOf is where a log ends now.
func sizeOf(log *os.File) int64 {
	info, err := log.Stat()
	if err != nil {
		return 0 // it is then shown from its start
	}
	return info.Size()
}

// readLog returns a log from an offset on, without the middle of a long one.
func readLog(log *os.File, from int64) string {
	b, err := io.ReadAll(io.NewSectionReader(log, from, sizeOf(log)-from))
	if err != nil {
		return fmt.Sprintf("read the log: %v", err)
	}
	if len(b) > shownLog {
		return fmt.Sprintf("%s\n… %d bytes …\n%s", b[:shownLog/2], len(b)-shownLog, b[len(b)-shownLog/2:])
	}
	return string(b)
}
