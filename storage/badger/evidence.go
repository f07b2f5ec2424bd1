package badger

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/dgraph-io/badger/v4/table"
)

// evidence are copies of the logs that a process left behind which did not close
// its store, and of the tables that the manifest does not name. A damaged log is cut
// off when it is opened, and such a table is removed, and with that whatever could be
// saved by hand, or tell what happened. A store that was closed leaves neither.
type evidence struct{ copies []string }

// foundSuffix is added to the name of a log; Badger does not know such files.
const foundSuffix = ".found"

// keepEvidence copies the logs of a directory. What was copied by an earlier
// start, which then refused, is the better evidence and stays. A disk without room
// for a copy is no reason not to start.
func keepEvidence(dir string, logs []string, log *slog.Logger) evidence {
	var e evidence
	unnamed, err := unnamedTables(dir)
	keep := func(names []string, copy func(from, to string) error) {
		for _, name := range names {
			if err != nil && !errors.Is(err, fs.ErrExist) {
				return
			}
			to := name + foundSuffix
			if err = copy(name, to); !errors.Is(err, fs.ErrExist) {
				e.copies = append(e.copies, to)
			}
		}
	}
	keep(logs, copySparse)
	// A table is never changed, so a second name is a copy.
	keep(unnamed, os.Link)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		log.Warn("files could not be copied before they are opened", "err", err)
	}
	return e
}

// unnamedTables are those that Badger will remove.
func unnamedTables(dir string) ([]string, error) {
	named, _, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	all, err := allTables(dir)
	var names []string
	for id := range all {
		if _, ok := named[id]; !ok {
			names = append(names, table.NewFilename(id, dir))
		}
	}
	return names, err
}

// discard removes the copies of this start, since nothing is missing.
func (e evidence) discard() error {
	var err error
	for _, name := range e.copies {
		if e := os.Remove(name); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
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
