package badger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"

	"github.com/posthaste-io/posthaste/storage/resident"
)

// DamagedError says that acknowledged commits are not in the database: its log was
// cut off at a record that cannot be read, or files were put back from a copy.
type DamagedError struct {
	// File is the log that is damaged, if that is known.
	File string
	// Missing commits lie after commit Have; Want is the newest that was acknowledged.
	Missing uint64
	Have    uint64
	Want    uint64
}

// Error implements error.
func (e *DamagedError) Error() string {
	log := "the log"
	if e.File != "" {
		log += " " + e.File
	}
	return fmt.Sprintf("%d commits are missing after commit %d: they were acknowledged up to %d, and %s ends before that; "+
		"restore the directory from a copy, or start with --accept-data-loss to go on without them", e.Missing, e.Have, e.Want, log)
}

// level is how far the store got: the number of a commit, and its mark.
type level struct {
	number uint64
	mark   resident.Mark
}

const levelSize = 5 * 8

func (l level) append(b []byte) []byte {
	for _, n := range [...]uint64{l.number, l.mark.Seq, uint64(l.mark.Stamp), l.mark.Items, l.mark.Documents} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func parseLevel(b []byte) level {
	if len(b) < levelSize {
		return level{}
	}
	return level{
		number: binary.BigEndian.Uint64(b),
		mark: resident.Mark{
			Seq:       binary.BigEndian.Uint64(b[8:]),
			Stamp:     int64(binary.BigEndian.Uint64(b[16:])),
			Items:     binary.BigEndian.Uint64(b[24:]),
			Documents: binary.BigEndian.Uint64(b[32:]),
		},
	}
}

// highWater is the file that knows the number of the newest commit. It has two
// slots, which are written in turn, so that a write that was torn spoils only the
// older knowledge: format 1, level 40, CRC32C of both 4.
type highWater struct {
	file  *os.File
	level level // as it was found
}

const (
	highWaterName   = "highwater"
	highWaterFormat = 1
	slotDistance    = 512 // so that slots lie in different sectors
	slotSize        = 1 + levelSize + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errHighWater = errors.New("the file " + highWaterName + " is damaged or missing, so nobody can say whether commits are missing; " +
	"start with --accept-data-loss to go on")

// openHighWater opens the file, or makes it. With errHighWater it can be used, and
// knows nothing.
func openHighWater(dir string) (*highWater, error) {
	file, err := os.OpenFile(filepath.Join(dir, highWaterName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	h := &highWater{file: file}
	b := make([]byte, slotDistance+slotSize)
	n, _ := file.ReadAt(b, 0)
	if n == 0 {
		return h, h.begin(dir)
	}
	good := false
	for _, slot := range [][]byte{b[:slotSize], b[slotDistance:]} {
		sum := binary.BigEndian.Uint32(slot[1+levelSize:])
		if slot[0] != highWaterFormat || sum != crc32.Checksum(slot[:1+levelSize], castagnoli) {
			continue
		}
		good = true
		if l := parseLevel(slot[1:]); l.number >= h.level.number {
			h.level = l
		}
	}
	if !good {
		return h, errHighWater
	}
	return h, nil
}

// begin makes the file's first knowledge durable, before there is a database: an
// empty file beside one has lost what it knew.
func (h *highWater) begin(dir string) error {
	switch _, err := os.Stat(filepath.Join(dir, badger.ManifestFilename)); {
	case err == nil:
		return errHighWater
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := errors.Join(h.set(level{}), h.sync()); err != nil {
		return err
	}
	return syncDir(dir)
}

// set writes a level. It is in the kernel's hands then, which is enough for a
// process that dies; sync is for machines that do.
func (h *highWater) set(l level) error {
	b := l.append([]byte{highWaterFormat})
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if _, err := h.file.WriteAt(b, int64(l.number%2)*slotDistance); err != nil {
		return fmt.Errorf("write %s: %w", highWaterName, err)
	}
	return nil
}

func (h *highWater) sync() error {
	if err := h.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", highWaterName, err)
	}
	return nil
}

// preserve keeps a copy of the file, for whoever has to find out what was lost.
func (h *highWater) preserve(have, want uint64) (name string, err error) {
	b, err := os.ReadFile(h.file.Name())
	if err != nil {
		return "", err
	}
	name = fmt.Sprintf("%s.lost-%d-%d", h.file.Name(), have, want)
	return name, os.WriteFile(name, b, 0o600)
}

func (h *highWater) close() error {
	if h == nil {
		return nil
	}
	return h.file.Close()
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
