package postgres

import (
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// cursorFormat is the first byte of a cursor; another layout gets another one. The
// second one tells the calls apart.
const cursorFormat = 1

const (
	cursorList = iota + 1
	cursorSweep
	cursorRecords
)

var errCursor = queue.Invalid("cursor", "is not one that this call gave out")

func cursor(purpose byte, place []byte) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{cursorFormat, purpose}, place...))
}

// parseCursor returns the place in a cursor, which has a size.
func parseCursor(text string, purpose byte, size int) ([]byte, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != 2+size || b[0] != cursorFormat || b[1] != purpose {
		return nil, errCursor
	}
	return b[2:], nil
}

// spot is a place in an order of time, in which a number tells apart what is of one
// instant.
type spot struct {
	at     time.Time
	number int64
}

const spotSize = 8 + 8

// start is before everything.
var start = spot{number: -1}

func (p spot) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(p.at.UnixMicro()))
	return binary.BigEndian.AppendUint64(b, uint64(p.number))
}

func readSpot(b []byte) (spot, error) {
	p := spot{time.UnixMicro(int64(binary.BigEndian.Uint64(b))).UTC(), int64(binary.BigEndian.Uint64(b[8:]))}
	if p.at.Before(time.Time{}) || p.at.After(queue.Forever) {
		return p, errCursor // the database would refuse it
	}
	return p, nil
}
