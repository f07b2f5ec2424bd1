package badger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/proto"
)

// Badger ends the process over a table whose footer or index is damaged, and takes a
// block that cannot be read for the end of its table. So we read tables ourselves,
// with read calls rather than through a map, where a medium that fails is a signal.
//
// Layout of a table, as of Badger 4.9.6: blocks, index, length of the index 4,
// checksum of the index, its length 4. A block, compressed as a whole by Snappy:
// entries, places of the entries and their number, checksum of all that, its length 4.
// A checksum is a pb.Checksum, and CRC32C in every table that was ever written.

// tableReport is what was learned about a table's file.
type tableReport struct {
	keys       uint32 // entries, deletions and old versions among them; 0 if not known
	maxVersion uint64 // the newest commit in it
	blocks     int
	damage     error  // the first that was met
	spans      []span // the keys that cannot be read; none if not even the index can be
}

// span is a range of keys, both ends included; a nil end is that of the table.
type span struct{ from, to []byte }

// versionSize is what Badger adds to a key.
const versionSize = 8

// maxBlock bounds what a block may unpack to: one entry of ours, and what stood in
// the block before it.
const maxBlock = 4 << 20

// inspectTable reads a table's index and, if whole is set, all of its blocks. It
// tells pace after how many bytes it goes on, and ends with the error of that.
func inspectTable(name string, whole bool, pace func(n int) error) (r tableReport, err error) {
	file, err := os.Open(name)
	if err != nil {
		r.damage = err
		return r, nil
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	index, start, damage := readIndex(file)
	if damage != nil {
		r.damage = damage
		return r, nil
	}
	r.keys, r.maxVersion, r.blocks = index.KeyCount(), index.MaxVersion(), index.OffsetsLength()
	if !whole {
		return r, nil
	}
	var packed, plain []byte
	var at fb.BlockOffset
	for i := range r.blocks {
		index.Offsets(&at, i)
		offset, size := int64(at.Offset()), int64(at.Len())
		if err := pace(int(size)); err != nil {
			return r, err
		}
		if packed, plain, err = readBlock(file, offset, size, start, packed, plain); err == nil {
			continue
		}
		if r.damage == nil {
			r.damage = fmt.Errorf("block %d of %d, at byte %d: %w", i+1, r.blocks, offset, err)
		}
		s := span{from: userKey(at.KeyBytes())}
		if i+1 < r.blocks {
			index.Offsets(&at, i+1)
			s.to = userKey(at.KeyBytes())
		}
		r.spans = append(r.spans, s)
	}
	return r, nil
}

// userKey is a copy of a key without its version.
func userKey(key []byte) []byte {
	return bytes.Clone(key[:max(0, len(key)-versionSize)])
}

// readIndex also tells where the index begins, which is where the blocks end.
func readIndex(file *os.File) (index *fb.TableIndex, start int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	at := info.Size()
	// The parts lie one before the other, each behind its length.
	part := func() []byte {
		var length [4]byte
		if at -= 4; at < 0 || err != nil {
			err = errors.Join(err, errShort)
			return nil
		}
		if _, err = file.ReadAt(length[:], at); err != nil {
			return nil
		}
		n := int64(binary.BigEndian.Uint32(length[:]))
		if at -= n; at < 0 {
			err = errShort
			return nil
		}
		b := make([]byte, n)
		_, err = file.ReadAt(b, at)
		return b
	}
	sum := part()
	data := part()
	if err == nil && len(data) < 8 {
		err = errShort
	}
	if err == nil {
		err = verify(data, sum)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("index: %w", err)
	}
	return fb.GetRootAsTableIndex(data, 0), at, nil
}

var (
	errShort    = errors.New("a length leads out of the file")
	errChecksum = errors.New("checksum does not match")
)

func verify(data, sum []byte) error {
	var want pb.Checksum
	if err := proto.Unmarshal(sum, &want); err != nil {
		return fmt.Errorf("%w: %w", errChecksum, err)
	}
	if want.Algo != pb.Checksum_CRC32C || want.Sum != uint64(crc32.Checksum(data, castagnoli)) {
		return errChecksum
	}
	return nil
}

// readBlock checks a block. It returns the buffers that it was given, or larger ones.
func readBlock(file *os.File, offset, size, end int64, packed, plain []byte) (p, q []byte, err error) {
	if size <= 0 || offset+size > end {
		return packed, plain, errShort
	}
	if int64(cap(packed)) < size {
		packed = make([]byte, size)
	}
	packed = packed[:size]
	if _, err := file.ReadAt(packed, offset); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return packed, plain, err
	}
	n, err := snappy.DecodedLen(packed)
	if err != nil || n > maxBlock {
		return packed, plain, errors.Join(errChecksum, err)
	}
	if cap(plain) < n {
		plain = make([]byte, n)
	}
	block, err := snappy.Decode(plain[:n], packed)
	if err != nil {
		return packed, plain, fmt.Errorf("%w: %w", errChecksum, err)
	}
	if len(block) < 4 {
		return packed, plain, errShort
	}
	body := block[:len(block)-4]
	length := int64(binary.BigEndian.Uint32(block[len(body):]))
	if length > int64(len(body)) {
		return packed, plain, errShort
	}
	cut := len(body) - int(length)
	return packed, plain, verify(body[:cut], body[cut:])
}
