package badger

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// evidence are copies of the logs that a process left behind which did not close
// its store. Badger cuts off a damaged one when it opens it, and with that whatever
// could be saved by hand, or tell what happened. A store that was closed leaves no
// log.
type evidence struct{ copies []string }

// foundSuffix is added to the name of a log; Badger does not know such files.
const foundSuffix = ".found"

// keepEvidence copies the logs of a directory. What was copied by an earlier
// start, which then refused, is the better evidence and stays. A disk without room
// for a copy is no reason not to start.
func keepEvidence(dir string, log *slog.Logger) evidence {
	var e evidence
	logs, err := filepath.Glob(filepath.Join(dir, "*"+logSuffix))
	for _, name := range logs {
		to := name + foundSuffix
		if err = copySparse(name, to); errors.Is(err, fs.ErrExist) {
			continue
		}
		e.copies = append(e.copies, to)
		if err != nil {
			break
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		log.Warn("logs could not be copied before they are opened", "err", err)
	}
	return e
}

// discard removes the copies of this start, since nothing is missing.
func (e evidence) discard() error {
	var err error
	for _, name := range e.copies {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// copySparse copies a file that is mostly holes to a new one.
func copySparse(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	block, zeros := make([]byte, 256<<10), make([]byte, 256<<10)
	size := int64(0)
	for {
		n, err := io.ReadFull(in, block)
		if !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := out.WriteAt(block[:n], size); err != nil {
				return err
			}
		}
		size += int64(n)
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return out.Truncate(size)
		case err != nil:
			return err
		}
	}
}
