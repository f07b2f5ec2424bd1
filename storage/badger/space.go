package badger

import (
	"fmt"
	"log/slog"
	"sync"
	"syscall"

	"github.com/posthaste-io/posthaste/storage/resident"
)

// spaceWatch judges the free space. Badger writes through mapped memory, where a
// full disk is not an error but the end of the process, and again at every start.
type spaceWatch struct {
	dir string
	ask func(dir string) (free, total uint64, err error)
	min uint64
	log *slog.Logger

	mu     sync.Mutex
	judged resident.Room
}

// reserveTables is how many tables' size has to be free for what Badger writes without
// asking: the table in memory and the one that waits, and a merge of the four that
// begin one, before it removes them.
const reserveTables = 6

// newSpaceWatch fails if there is too little space to open a store in.
func newSpaceWatch(o Options) (*spaceWatch, error) {
	w := &spaceWatch{dir: o.Dir, ask: o.FreeSpace, min: o.MinFree, log: o.Log}
	free, total, err := o.FreeSpace(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("ask for free space: %w", err)
	}
	if w.min == 0 {
		w.min = max(total/20, DefaultMinFree)
	}
	w.min = max(w.min, reserveTables*uint64(o.tableSize))
	if free < w.min/4 {
		return nil, fmt.Errorf("%d MiB are free on the disk, and %d MiB are needed to open it; make room first, nothing is lost",
			free>>20, w.min/4>>20)
	}
	return w, nil
}

// room says how much there is, and logs when that changes. What cannot be asked
// is taken as it was.
func (w *spaceWatch) room() resident.Room {
	w.mu.Lock()
	defer w.mu.Unlock()
	free, _, err := w.ask(w.dir)
	if err != nil {
		w.log.Warn("free space is not known", "err", err)
		return w.judged
	}
	room := resident.Roomy
	switch {
	case free < w.min/4:
		room = resident.Full
	case free < w.min:
		room = resident.Tight
	}
	if room != w.judged {
		w.judged = room
		switch room {
		case resident.Full:
			w.log.Error("disk full: nothing is written any more", "free", free, "needed", w.min/4)
		case resident.Tight:
			w.log.Error("disk nearly full: no new items are taken", "free", free, "needed", w.min)
		default:
			w.log.Info("disk has room again", "free", free)
		}
	}
	return room
}

func freeSpace(dir string) (free, total uint64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	size := uint64(st.Bsize)
	return st.Bavail * size, st.Blocks * size, nil
}
