package pgtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// Kinds of messages, as the protocol names them. S, C and E mean other things when
// the server sends them; of its messages only readyForQuery is looked at.
const (
	bind          = 'B'
	closeNamed    = 'C'
	describe      = 'D'
	executeNamed  = 'E'
	functionCall  = 'F'
	parse         = 'P'
	query         = 'Q'
	readyForQuery = 'Z'
	syncPoint     = 'S'
)

// Codes with which a connection opens in place of a protocol version.
const (
	cancelRequest = 80877102
	tlsRequest    = 80877103
	gssRequest    = 80877104
)

// maxMessage is the longest message that PostgreSQL itself takes.
const maxMessage = 1 << 30

// message is one message of either side, as it stands on the wire.
type message []byte

// readMessage reads a message that has a kind, which all but the first have.
func readMessage(r io.Reader) (message, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	return readBody(r, head[:], head[1:])
}

// readOpening reads the message that opens a connection, and returns its code too.
func readOpening(r io.Reader) (message, uint32, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, 0, err
	}
	m, err := readBody(r, head[:], head[:])
	if err != nil {
		return nil, 0, err
	}
	if len(m) < 8 {
		return nil, 0, fmt.Errorf("an opening message of %d bytes", len(m))
	}
	return m, binary.BigEndian.Uint32(m[4:]), nil
}

// readBody completes a message by its length, which counts itself.
func readBody(r io.Reader, head, length []byte) (message, error) {
	n := binary.BigEndian.Uint32(length)
	if n < 4 || n > maxMessage {
		return nil, fmt.Errorf("a message of %d bytes", n)
	}
	m := make(message, len(head)+int(n)-4)
	copy(m, head)
	_, err := io.ReadFull(r, m[len(head):])
	return m, err
}

func (m message) kind() byte { return m[0] }

// strings returns the first two strings of the body, as Parse and Bind have them.
func (m message) strings() (first, second string) {
	a, rest, _ := bytes.Cut(m[5:], []byte{0})
	b, _, _ := bytes.Cut(rest, []byte{0})
	return string(a), string(b)
}

// group is what a client sends up to the point where it waits for an answer: a
// simple query, or messages up to Sync.
type group struct {
	raw      []byte   // not yet forwarded
	seen     []byte   // all of it, forwarded or not
	bound    []string // the SQL of statements that were prepared earlier
	executes bool
}

// add appends a message. Statements are those that the connection has prepared, by
// name; it keeps them up to date.
func (g *group) add(m message, statements map[string]string) {
	g.raw = append(g.raw, m...)
	if m.waits() || m.completes() {
		g.seen = append(g.seen, m...)
	}
	switch m.kind() {
	case parse:
		name, sql := m.strings()
		statements[name] = sql
	case bind:
		_, name := m.strings()
		g.bound = append(g.bound, statements[name])
	case query, executeNamed, functionCall:
		g.executes = true
	}
}

// matches says whether the group executes something and holds the text. Preparing
// a statement is not enough: nothing has happened by it.
func (g *group) matches(text string) bool {
	if !g.executes {
		return false
	}
	if bytes.Contains(g.seen, []byte(text)) {
		return true
	}
	for _, sql := range g.bound {
		if bytes.Contains([]byte(sql), []byte(text)) {
			return true
		}
	}
	return false
}

// waits says whether a message is one of the middle of a group, after which more
// is to come.
func (m message) waits() bool {
	switch m.kind() {
	case parse, bind, describe, executeNamed, closeNamed:
		return true
	}
	return false
}

// completes says whether a message is the last of a group, which the server
// answers with ReadyForQuery.
func (m message) completes() bool {
	switch m.kind() {
	case query, syncPoint, functionCall:
		return true
	}
	return false
}
