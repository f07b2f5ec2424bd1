package badger

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
)

// FilesError says that files cannot be used as they are. Nothing was changed.
type FilesError struct {
	Files []DamagedFile
	// Items and Documents are how many there were when the store was written last.
	Items, Documents uint64
}

// DamagedFile is one of them. Keys is how many entries it has, deletions and older
// versions among them, or 0 if that cannot be read any more. An item has two or so.
type DamagedFile struct {
	Name string
	Err  error
	Keys uint64
}

// Error implements error.
func (e *FilesError) Error() string {
	var b strings.Builder
	for i, f := range e.Files {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "file %s is damaged: %v", f.Name, f.Err)
		if f.Keys > 0 {
			fmt.Fprintf(&b, " (%d keys are in the file)", f.Keys)
		}
	}
	fmt.Fprintf(&b, "; %d files of a store of %d items and %d documents in all: restore the directory from a copy, "+
		"or start with --accept-data-loss to set the files aside and go on without what only they have", len(e.Files), e.Items, e.Documents)
	return b.String()
}

// Unwrap returns what is wrong with each.
func (e *FilesError) Unwrap() []error {
	errs := make([]error, len(e.Files))
	for i := range e.Files {
		errs[i] = e.Files[i].Err
	}
	return errs
}

const (
	tableSuffix   = ".sst"
	vlogSuffix    = ".vlog"
	damagedSuffix = ".damaged"
)

// checkTables looks at the manifest and the tables before Badger does, which would
// end the process over one and remove the other. With AcceptDataLoss it sets aside
// what is damaged. It returns the newest commit in the tables, and whether all of
// them were read whole.
func checkTables(o Options, high level, logs []string) (newest uint64, whole bool, err error) {
	e := &FilesError{Items: high.mark.Items, Documents: high.mark.Documents}
	m, torn, err := readManifest(o.Dir)
	if err == nil && torn && len(logs) == 0 {
		err = errors.New("its end is missing, and no crash can have torn it off: the store was closed")
	}
	if err != nil {
		e.Files = append(e.Files, DamagedFile{Name: badger.ManifestFilename, Err: err})
		// Versions decide what is newer, so level 0 is right for any table.
		if m, err = allTables(o.Dir); err != nil {
			return 0, false, err
		}
	}
	reports, whole := inspectTables(o, m)
	for id, r := range reports {
		newest = max(newest, r.maxVersion)
		if r.damage != nil {
			e.Files = append(e.Files, DamagedFile{Name: table.IDToFilename(id), Err: r.damage, Keys: uint64(r.keys)})
		}
	}
	if len(e.Files) == 0 {
		return newest, whole, nil
	}
	if undone, err := undo(o, high, logs); undone || err != nil {
		if err != nil {
			return 0, false, err
		}
		return checkTables(o, high, logs)
	}
	slices.SortFunc(e.Files, func(a, b DamagedFile) int { return strings.Compare(a.Name, b.Name) })
	if !o.AcceptDataLoss {
		return 0, false, e
	}
	return newest, whole, e.setAside(o, m)
}

// undo takes the last changes out of the manifest if they were not carried out, and if
// tables and logs are whole without them: each log goes on where what is before it ends.
func undo(o Options, high level, logs []string) (bool, error) {
	m, err := undoLast(o.Dir)
	if m == nil || err != nil {
		return false, nil // the manifest is damaged, which is told of already
	}
	reports, _ := inspectTables(o, m)
	have := uint64(0)
	for _, r := range reports {
		if r.damage != nil {
			return false, nil
		}
		have = max(have, r.maxVersion)
	}
	for _, name := range logs {
		r, err := inspectLog(name)
		if err != nil {
			return false, err
		}
		if r.first > have+1 {
			return false, nil
		}
		have = max(have, r.last)
	}
	if have < high.number {
		return false, nil
	}
	o.Log.Warn("the last changes of the manifest were not carried out, and are undone", "commit", have)
	return true, m.write(o.Dir)
}

// setAside renames what is damaged and writes a manifest of the rest, the manifest
// first: a table that it names must be there.
func (e *FilesError) setAside(o Options, m manifest) error {
	for _, f := range e.Files {
		if id, ok := table.ParseFileID(f.Name); ok {
			delete(m, id)
		}
	}
	for _, f := range e.Files {
		if f.Name == badger.ManifestFilename {
			if err := setAside(o.Dir, f.Name, f.Err, o.Log); err != nil {
				return err
			}
		}
	}
	// A table that is not named is removed by Badger, so all have to be away by then.
	// If we do not get that far, the next start finds them named or unnamed, and away.
	for _, f := range e.Files {
		if f.Name != badger.ManifestFilename {
			if err := setAside(o.Dir, f.Name, f.Err, o.Log); err != nil {
				return err
			}
		}
	}
	if err := m.write(o.Dir); err != nil {
		return fmt.Errorf("write the manifest of what is left: %w", err)
	}
	return nil
}

// setAside renames a file so that Badger does not see it. One that is missing is
// aside already.
func setAside(dir, name string, why error, log *slog.Logger) error {
	to := name + damagedSuffix
	for n := 2; ; n++ {
		if _, err := os.Lstat(filepath.Join(dir, to)); errors.Is(err, fs.ErrNotExist) {
			break
		}
		to = fmt.Sprintf("%s%s-%d", name, damagedSuffix, n)
	}
	err := os.Rename(filepath.Join(dir, name), filepath.Join(dir, to))
	if errors.Is(err, fs.ErrNotExist) {
		log.Error("file is missing", "file", name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("set aside: %w", err)
	}
	log.Error("damaged file set aside", "file", name, "kept_as", to, "err", why)
	return nil
}

// allTables is a manifest of whatever tables there are.
func allTables(dir string) (manifest, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+tableSuffix))
	if err != nil {
		return nil, err
	}
	m := manifest{}
	for _, name := range names {
		if id, ok := table.ParseFileID(name); ok {
			m[id] = 0
		}
	}
	return m, nil
}

// wholeAtOpen bounds what is read of tables before the store opens: at 300 MB/s of a
// core, and there are two of them at least, it is done in seconds. The rest is looked
// at while the store is open.
const wholeAtOpen = 1 << 30

// inspectTables reads the tables, the newest first.
func inspectTables(o Options, m manifest) (reports map[uint64]tableReport, whole bool) {
	ids := make([]uint64, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b uint64) int { return cmp.Compare(b, a) })
	reports = make(map[uint64]tableReport, len(m))
	var mu sync.Mutex
	var next, spent atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(ids); i = next.Add(1) - 1 {
				// Pace never fails here, so there is a report always.
				r, _ := inspectTable(table.NewFilename(ids[i], o.Dir), spent.Load() < o.wholeAtOpen, func(n int) error {
					spent.Add(int64(n))
					return nil
				})
				mu.Lock()
				reports[ids[i]] = r
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return reports, spent.Load() < o.wholeAtOpen
}

// checkLogs looks at the logs, oldest first, and cuts off what Badger could not read.
// That is all that a crash leaves behind the last commit, or damage: where the next
// log does not go on from there, commits are missing.
func checkLogs(o Options, logs []string, have uint64) error {
	reports := make([]logReport, len(logs))
	for i, name := range logs {
		var err error
		if reports[i], err = inspectLog(name); err != nil {
			return fmt.Errorf("log %s: %w", filepath.Base(name), err)
		}
	}
	for i, r := range reports {
		have = max(have, r.last)
		if !r.garbage {
			continue
		}
		for _, later := range reports[i+1:] {
			if later.first == 0 {
				continue
			}
			if later.first > have+1 {
				damaged := &DamagedError{File: filepath.Base(logs[i]), Missing: later.first - have - 1, Have: have, Want: later.first - 1}
				if !o.AcceptDataLoss {
					return damaged
				}
				o.Log.Error("opened with loss of data", "file", damaged.File, "missing_commits", damaged.Missing, "after_commit", have)
			}
			break
		}
	}
	for i, r := range reports {
		if !r.garbage && !r.foreign {
			continue
		}
		o.Log.Warn("log cut off behind its last commit", "file", filepath.Base(logs[i]), "commit", r.last, "at", r.end)
		if err := r.cut(logs[i]); err != nil {
			return fmt.Errorf("cut log: %w", err)
		}
	}
	return nil
}

// checkEmpty sets aside damaged files that Badger has and we put nothing into: their
// loss is none, and Badger makes new ones.
func checkEmpty(o Options) error {
	names, err := filepath.Glob(filepath.Join(o.Dir, "*"+vlogSuffix))
	if err != nil {
		return err
	}
	damaged := func(name string, empty func(file *os.File) (bool, error)) error {
		file, err := os.Open(filepath.Join(o.Dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		good, err := empty(file)
		if err = errors.Join(err, file.Close()); err != nil || good {
			return err
		}
		return setAside(o.Dir, name, errors.New("it is not as Badger makes it"), o.Log)
	}
	for _, name := range names {
		err = errors.Join(err, damaged(filepath.Base(name), isEmptyValueLog))
	}
	return errors.Join(err, damaged("DISCARD", isEmpty), damaged(badger.KeyRegistryFileName, isEmptyRegistry))
}

func isEmpty(file *os.File) (bool, error) {
	more, err := hasMore(file, 0)
	return !more, err
}

// isEmptyValueLog passes over the random bytes in the head.
func isEmptyValueLog(file *os.File) (bool, error) {
	var key [logKeyBytes]byte
	if _, err := file.ReadAt(key[:], 0); err != nil || key != [logKeyBytes]byte{} {
		return false, nil
	}
	more, err := hasMore(file, logHead)
	return !more, err
}

// isEmptyRegistry knows one without keys: 16 random bytes, and a text.
func isEmptyRegistry(file *os.File) (bool, error) {
	const random, text = 16, "Hello Badger"
	var b [random + len(text) + 1]byte
	n, err := file.ReadAt(b[:], 0)
	return n == random+len(text) && string(b[random:n]) == text && err != nil, nil
}
