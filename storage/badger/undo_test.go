package badger_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4/pb"
	"google.golang.org/protobuf/proto"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/badger"
)

// Badger writes a change, is refused the flush, removes the new table and keeps what
// the change was made of; the change stays in the file.
func TestB04_ManifestWhoseFlushWasRefusedOpensWhole(t *testing.T) {
	t.Parallel()
	dir, ids := t.TempDir(), map[queue.ID]string{}
	s := open(t, badger.Small(badger.Options{Dir: dir}))
	fill(t, s, ids, 50)
	killed := copyDir(t, dir)
	set, err := proto.Marshal(&pb.ManifestChangeSet{Changes: []*pb.ManifestChange{{Id: 9, Op: pb.ManifestChange_CREATE}}})
	if err != nil {
		t.Fatal(err)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(len(set)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(set, crc32.MakeTable(crc32.Castagnoli)))
	manifest, err := os.OpenFile(filepath.Join(killed, "MANIFEST"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = manifest.Write(append(b, set...))
	if err := errors.Join(err, manifest.Close()); err != nil {
		t.Fatal(err)
	}
	judgeItems(t, open(t, badger.Small(badger.Options{Dir: killed})), maps.Clone(ids), 0)
}

// To the manifest alone, a table that somebody removed looks the same.
func TestB09_RemovedTableIsRefusedByName(t *testing.T) {
	t.Parallel()
	dir, file, ids := tableOf(t, 50)
	s := open(t, badger.Options{Dir: dir})
	fill(t, s, ids, 10)
	for name, dir := range map[string]string{"killed": copyDir(t, dir), "closed": closedTable(t)} {
		if err := os.Remove(filepath.Join(dir, filepath.Base(file))); err != nil {
			t.Fatal(err)
		}
		var files *badger.FilesError
		_, err := badger.Open(badger.Options{Dir: dir, MinFree: 1})
		if !errors.As(err, &files) || files.Files[0].Name != filepath.Base(file) {
			t.Errorf("%s: got %v, want %s", name, err, filepath.Base(file))
		}
	}
}

func closedTable(t *testing.T) string {
	t.Helper()
	dir, _, _ := tableOf(t, 50)
	return dir
}
