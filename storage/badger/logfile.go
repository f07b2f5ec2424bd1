package badger

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"strconv"
)

// Layout of a log, as of Badger 4.9.6: number of a key 8 (0, since we have none) and
// 12 bytes that go with it, then entries: flags 2, length of the key, of the value, and
// an expiry as varints, key, value, CRC32C of all that 4. A transaction is entries with
// one flag and an entry with another, whose value is the commit's number in digits.
// Behind the last entry there are zeros, to where the file was made to reach.
const (
	logHead     = 8 + 12
	logKeyBytes = 8

	entryInTransaction = 1 << 6
	entryEnds          = 1 << 7
)

// logReport is what was learned about a log.
type logReport struct {
	first, last uint64 // commits; 0 if there is none in it
	end         int64  // of the last one
	garbage     bool   // something is behind it that is no commit
	foreign     bool   // the head names a key
}

// inspectLog reads a log as Badger will, but without trust in its lengths.
func inspectLog(name string) (r logReport, err error) {
	file, err := os.Open(name)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	in := &entryReader{in: bufio.NewReaderSize(file, 256<<10)}
	var head [logHead]byte
	if _, err := io.ReadFull(in.in, head[:]); err != nil {
		return r, fmt.Errorf("read the head: %w", err)
	}
	r.foreign = !bytes.Equal(head[:logKeyBytes], make([]byte, logKeyBytes))
	r.end = logHead
	at, open := r.end, uint64(0)
	for {
		flags, version, err := in.next()
		if errors.Is(err, errNoEntry) {
			break
		}
		if err != nil {
			return r, err
		}
		at += in.size
		switch {
		case flags&entryInTransaction != 0 && (open == 0 || open == version):
			open = version
			continue
		case flags&entryEnds != 0 && version == open:
			open = 0
		default:
			version = 0
		}
		if version == 0 || open != 0 {
			break
		}
		if r.first == 0 {
			r.first = version
		}
		r.last, r.end = version, at
	}
	r.garbage, err = hasMore(file, r.end)
	return r, err
}

// errNoEntry says that what comes next is not an entry: the end, or damage.
var errNoEntry = errors.New("no entry")

// entryReader reads entries of a log.
type entryReader struct {
	in     *bufio.Reader
	size   int64 // of the last entry
	buffer []byte
	head   [2 + 3*binary.MaxVarintLen64]byte
}

// next reads an entry and returns its flags and its commit.
func (e *entryReader) next() (flags byte, version uint64, err error) {
	head, err := e.in.Peek(len(e.head))
	if err != nil && err != io.EOF {
		return 0, 0, err
	}
	n := 2
	var lengths [3]uint64
	for i := range lengths {
		v, size := binary.Uvarint(head[min(n, len(head)):])
		if size <= 0 {
			return 0, 0, errNoEntry
		}
		lengths[i] = v
		n += size
	}
	key, value := lengths[0], lengths[1]
	// Ours are far shorter than a key may be, and never without a version.
	if key < versionSize || key > math.MaxUint16 || value > valueThreshold {
		return 0, 0, errNoEntry
	}
	size := n + int(key+value) + crc32.Size
	if cap(e.buffer) < size {
		e.buffer = make([]byte, 2*size)
	}
	b := e.buffer[:size]
	if _, err := io.ReadFull(e.in, b); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = errNoEntry
		}
		return 0, 0, err
	}
	body := b[:size-crc32.Size]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(b[len(body):]) {
		return 0, 0, errNoEntry
	}
	e.size = int64(size)
	flags = b[0]
	if flags&entryEnds != 0 {
		version, err = strconv.ParseUint(string(body[n+int(key):]), 10, 64)
		if err != nil {
			return 0, 0, errNoEntry
		}
		return flags, version, nil
	}
	return flags, math.MaxUint64 - binary.BigEndian.Uint64(body[n+int(key)-versionSize:]), nil
}

// hasMore says whether anything but zeros is in a file from a place on.
func hasMore(file *os.File, from int64) (bool, error) {
	block, zeros := make([]byte, 256<<10), make([]byte, 256<<10)
	for {
		n, err := file.ReadAt(block, from)
		if !bytes.Equal(block[:n], zeros[:n]) {
			return true, nil
		}
		from += int64(n)
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// cut ends a log behind its last commit, and takes the key out of its head: Badger
// would meet neither well, and makes nothing of what is behind the damage.
func (r logReport) cut(name string) (err error) {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if r.garbage {
		err = file.Truncate(r.end)
	}
	if r.foreign && err == nil {
		_, err = file.WriteAt(make([]byte, logKeyBytes), 0)
	}
	return errors.Join(err, file.Sync())
}
