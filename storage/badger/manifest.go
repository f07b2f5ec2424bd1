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
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"google.golang.org/protobuf/proto"
)

// manifest is which tables there are, each with its level. Badger removes tables that
// its manifest does not name, so a manifest that lost its end must not reach it.
//
// Layout, as of Badger 4.9.6: magic 8, then sets of changes, each behind its length 4
// and its CRC32C 4.
type manifest map[uint64]uint32

// manifestMagic ends with the versions: none of ours, and the eighth of Badger's.
var manifestMagic = []byte{'B', 'd', 'g', 'r', 0, 0, 0, 8}

// readManifest returns an empty one if there is none. An end that was torn when the process or
// the machine died is left out, as Badger does: a table is named before the log that
// has the same is removed. torn says that there was one.
func readManifest(dir string) (m manifest, torn bool, err error) {
	sets, torn, err := manifestSets(dir)
	if err != nil {
		return nil, false, err
	}
	m = manifest{}
	for i, set := range sets {
		if err := m.apply(set); err != nil {
			return nil, false, fmt.Errorf("set %d of changes: %w", i+1, err)
		}
	}
	return m, torn, nil
}

func manifestSets(dir string) (sets []*pb.ManifestChangeSet, torn bool, err error) {
	b, err := os.ReadFile(filepath.Join(dir, badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if len(b) < len(manifestMagic) || string(b[:len(manifestMagic)]) != string(manifestMagic) {
		return nil, false, errors.New("it does not begin as a manifest does")
	}
	for at := len(manifestMagic); at < len(b); {
		rest := b[at:]
		const head = 8
		if len(rest) < head {
			return sets, true, nil
		}
		length, sum := int64(binary.BigEndian.Uint32(rest)), binary.BigEndian.Uint32(rest[4:])
		if length > int64(len(rest)-head) {
			// A length that was damaged looks like an end that was torn off.
			if hasPrefixWithSum(rest[head:], sum) {
				return nil, false, fmt.Errorf("the length at byte %d leads out of the file", at)
			}
			return sets, true, nil
		}
		set := rest[head : head+length]
		if crc32.Checksum(set, castagnoli) != sum {
			return nil, false, fmt.Errorf("at byte %d: %w", at, errChecksum)
		}
		changes := &pb.ManifestChangeSet{}
		if err := proto.Unmarshal(set, changes); err != nil {
			return nil, false, fmt.Errorf("at byte %d: %w", at, err)
		}
		sets = append(sets, changes)
		at += head + int(length)
	}
	return sets, false, nil
}

// hasPrefixWithSum knows the empty prefix too: Badger begins with an empty set.
func hasPrefixWithSum(b []byte, sum uint32) bool {
	have := uint32(0)
	for i := 0; i < len(b) && have != sum; i++ {
		have = crc32.Update(have, castagnoli, b[i:i+1])
	}
	return have == sum
}

// undoLast returns the manifest without its last sets of changes if those were never
// carried out. Badger leaves such when the flush of the manifest is refused. It returns
// nil if there are none.
func undoLast(dir string) (manifest, error) {
	sets, _, err := manifestSets(dir)
	if err != nil {
		return nil, err
	}
	there, err := allTables(dir)
	if err != nil {
		return nil, err
	}
	n := len(sets)
	for n > 0 && isUndone(sets[n-1], there) {
		n--
	}
	if n == len(sets) {
		return nil, nil
	}
	m := manifest{}
	for _, set := range sets[:n] {
		if err := m.apply(set); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// isUndone says that what a set creates is not there, and what it deletes is.
func isUndone(set *pb.ManifestChangeSet, there manifest) bool {
	created := false
	for _, c := range set.Changes {
		_, found := there[c.Id]
		create := c.Op == pb.ManifestChange_CREATE
		if found == create {
			return false
		}
		created = created || create
	}
	return created
}

func (m manifest) apply(changes *pb.ManifestChangeSet) error {
	for _, c := range changes.Changes {
		switch c.Op {
		case pb.ManifestChange_CREATE:
			m[c.Id] = c.Level
		case pb.ManifestChange_DELETE:
			delete(m, c.Id)
		default:
			return fmt.Errorf("unknown change %d", c.Op)
		}
	}
	return nil
}

// write puts a manifest in the place of the one that there is.
func (m manifest) write(dir string) error {
	var changes pb.ManifestChangeSet
	for id, level := range m {
		changes.Changes = append(changes.Changes, &pb.ManifestChange{
			Id: id, Op: pb.ManifestChange_CREATE, Level: level, Compression: uint32(options.Snappy),
		})
	}
	set, err := proto.Marshal(&changes)
	if err != nil {
		return err
	}
	b := binary.BigEndian.AppendUint32(append([]byte(nil), manifestMagic...), uint32(len(set)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(set, castagnoli))
	return replaceFile(filepath.Join(dir, badger.ManifestFilename), append(b, set...))
}

// replaceFile writes a file anew: after a power cut there is the old one or the new.
func replaceFile(name string, b []byte) (err error) {
	file, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(b)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	return syncDir(filepath.Dir(name))
}
