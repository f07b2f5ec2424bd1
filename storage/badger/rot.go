package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"

	"github.com/posthaste-io/posthaste/storage/resident"
)

// errRot says that what was asked for lies, or may lie, where a table is damaged.
var errRot = errors.New("a table is damaged there")

// rot is the damage that was found while the store was open. Badger says "not there"
// of a key in a block that it cannot read, and drops it when it merges the table; so
// reads of such keys are refused, and all others go on.
type rot struct {
	dir string
	log *slog.Logger

	spans atomic.Pointer[[]span] // nil: none

	mu     sync.Mutex
	tables map[uint64]*rottenTable
}

type rottenTable struct {
	file  DamagedFile
	spans []span
	last  []byte // of its keys
	gone  bool   // Badger has merged it
}

// check refuses a read that would meet damage.
func (r *rot) check(from, to []byte) error {
	spans := r.spans.Load()
	if spans == nil {
		return nil
	}
	for _, s := range *spans {
		if bytes.Compare(from, s.to) <= 0 && bytes.Compare(to, s.from) >= 0 {
			return fmt.Errorf("read %x: %w", from, errRot)
		}
	}
	return nil
}

// checkRange is check for a scan.
func (r *rot) checkRange(x resident.Range) error { return r.check(x.From, x.To) }

// add notes a damaged table, once.
func (r *rot) add(info badger.TableInfo, report tableReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tables[info.ID] != nil {
		return
	}
	t := &rottenTable{
		file: DamagedFile{Name: table.IDToFilename(info.ID), Err: report.damage, Keys: uint64(report.keys)},
		last: userKey(info.Right),
	}
	t.spans = report.spans
	if len(t.spans) == 0 {
		t.spans = []span{{from: userKey(info.Left)}}
	}
	for i := range t.spans {
		if t.spans[i].to == nil {
			t.spans[i].to = t.last
		}
	}
	if r.tables == nil {
		r.tables = map[uint64]*rottenTable{}
	}
	r.tables[info.ID] = t
	r.log.Error("table is damaged: what lies there cannot be read, and is not lost yet from other copies", "file", t.file.Name,
		"keys", t.file.Keys, "damaged_blocks", len(report.spans), "blocks", report.blocks, "err", report.damage)
	r.publish()
}

// follow is called every second. A table that Badger has merged lost all that was
// behind its first damaged block.
func (r *rot) follow(tables func() []badger.TableInfo) {
	if r.spans.Load() == nil {
		return
	}
	there := map[uint64]bool{}
	for _, info := range tables() {
		there[info.ID] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, t := range r.tables {
		if !there[id] && !t.gone {
			t.gone = true
			t.spans = []span{{from: t.spans[0].from, to: t.last}}
			r.log.Error("damaged table was merged, and what followed the damage is lost", "file", t.file.Name)
		}
	}
	r.publish()
}

func (r *rot) publish() {
	var all []span
	for _, t := range r.tables {
		all = append(all, t.spans...)
	}
	r.spans.Store(&all)
}

// err is a [*FilesError] if there is damage.
func (r *rot) err(mark resident.Mark) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.tables) == 0 {
		return nil
	}
	e := &FilesError{Items: mark.Items, Documents: mark.Documents}
	for _, t := range r.tables {
		e.Files = append(e.Files, t.file)
	}
	slices.SortFunc(e.Files, func(a, b DamagedFile) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return e
}

// What a walk over all tables may cost, and how long it rests after one. At this rate
// it takes one or two in a hundred of a core.
const (
	walkRate = 8 << 20 // bytes a second
	walkRest = time.Hour
)

// walk reads all tables again and again, slowly. The first walk is at once if now is
// set, which is when not all was read at open.
func (d *disk) walk(ctx context.Context, now bool, rate int, rest time.Duration) {
	for {
		if !now && !pause(ctx, rest) {
			return
		}
		now = false
		if err := d.walkOnce(ctx, rate); err != nil {
			return
		}
	}
}

// pause waits, and says whether it waited to the end.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// walkOnce ends with the context's error only.
func (d *disk) walkOnce(ctx context.Context, rate int) error {
	const step = 1 << 20
	unpaid := 0
	pace := func(n int) error {
		if unpaid += n; unpaid < step {
			return ctx.Err()
		}
		owed := time.Duration(unpaid) * time.Second / time.Duration(rate)
		unpaid = 0
		if !pause(ctx, owed) {
			return context.Cause(ctx)
		}
		return nil
	}
	for _, info := range d.db.Tables() {
		report, err := inspectTable(table.NewFilename(info.ID, d.rot.dir), true, pace)
		if err != nil {
			return err
		}
		// Badger forgets a table before it removes the file, so one that it still knows was
		// not being removed while we read it.
		if report.damage != nil && slices.ContainsFunc(d.db.Tables(), func(t badger.TableInfo) bool { return t.ID == info.ID }) {
			d.rot.add(info, report)
		}
	}
	return nil
}

// rescue turns a panic of Badger over a block's contents into an error. What Badger
// reads of a block before it compares the checksum may lead out of it.
func rescue(err *error) {
	switch r := recover().(type) {
	case nil:
	case runtime.Error:
		*err = fmt.Errorf("%w: %w", errRot, r)
	default:
		panic(r)
	}
}
