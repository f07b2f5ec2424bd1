package wirejson

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner knows JSON's words, and nothing of messages. Its methods answer a
// problem in words, empty if there is none, and leave pos where it is.
type scanner struct {
	data []byte
	pos  int
	// scratch holds the newest string that had escapes.
	scratch []byte
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the byte at pos, 0 at the end: JSON has no place for a NUL.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// literal reads word, if it stands here alone.
func (s *scanner) literal(word string) bool {
	rest := s.data[s.pos:]
	if len(rest) < len(word) || string(rest[:len(word)]) != word {
		return false
	}
	if len(rest) > len(word) && isWord(rest[len(word)]) {
		return false
	}
	s.pos += len(word)
	return true
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// found names what stands at pos, for people.
func (s *scanner) found() string {
	switch c := s.peek(); {
	case s.pos >= len(s.data):
		return "the end of the body"
	case c == '{':
		return "an object"
	case c == '[':
		return "a list"
	case c == '"':
		return "a string"
	case c == '-' || c >= '0' && c <= '9':
		return "a number"
	case s.literal("true"), s.literal("false"):
		return "a bool"
	case s.literal("null"):
		return "null; leave out what has no value"
	default:
		return "no JSON value"
	}
}

// str reads the string that begins here. The answer is good until the next call.
func (s *scanner) str() (text []byte, problem string) {
	start := s.pos + 1
	end := bytes.IndexByte(s.data[start:], '"')
	if end < 0 {
		return nil, "a string without an end"
	}
	text = s.data[start : start+end]
	if escape := bytes.IndexByte(text, '\\'); escape >= 0 {
		return s.escaped(start, escape)
	}
	if problem := checkText(text); problem != "" {
		return nil, problem
	}
	s.pos = start + end + 1
	return text, ""
}

func checkText(text []byte) (problem string) {
	for _, c := range text {
		if c < ' ' {
			return "a control character in a string; write it as an escape"
		}
	}
	if !utf8.Valid(text) {
		return "not valid UTF-8"
	}
	return ""
}

// escaped reads a string into scratch. It begins at start, its first backslash
// stands plain bytes later.
func (s *scanner) escaped(start, plain int) (text []byte, problem string) {
	out := s.scratch[:0]
	rest := s.data[start:]
	for {
		stop := plain
		if stop < 0 {
			stop = bytes.IndexAny(rest, "\\\"")
		}
		if stop < 0 {
			return nil, "a string without an end"
		}
		plain = -1
		if problem := checkText(rest[:stop]); problem != "" {
			return nil, problem
		}
		out = append(out, rest[:stop]...)
		if rest[stop] == '"' {
			s.scratch = out
			s.pos = len(s.data) - len(rest) + stop + 1
			return out, ""
		}
		out, rest, problem = unescape(out, rest[stop:])
		if problem != "" {
			return nil, problem
		}
	}
}

// simpleEscapes maps the letter behind a backslash to what it stands for.
var simpleEscapes = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// unescape appends what the escape at the head of rest stands for.
func unescape(out, rest []byte) (newOut, newRest []byte, problem string) {
	if len(rest) < 2 {
		return nil, nil, "a string without an end"
	}
	if c := simpleEscapes[rest[1]]; c != 0 {
		return append(out, c), rest[2:], ""
	}
	if rest[1] != 'u' {
		return nil, nil, "an escape that JSON does not have"
	}
	r, ok := hex4(rest[2:])
	if !ok {
		return nil, nil, `an escape \u without four hexadecimal digits`
	}
	rest = rest[6:]
	if utf16.IsSurrogate(r) {
		var low rune
		if len(rest) >= 2 && rest[0] == '\\' && rest[1] == 'u' {
			low, _ = hex4(rest[2:])
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return nil, nil, "a lone surrogate in a string"
		}
		rest = rest[6:]
	}
	return utf8.AppendRune(out, r), rest, ""
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// digits reads a number by JSON's grammar. The text is nil if none begins here;
// whole says that it has neither a point nor an exponent.
func (s *scanner) digits() (text []byte, whole bool, problem string) {
	const malformed = "not a number as JSON writes them"
	i := s.pos
	next := func() byte {
		if i < len(s.data) {
			return s.data[i]
		}
		return 0
	}
	run := func() (n int) {
		for c := next(); c >= '0' && c <= '9'; c = next() {
			i++
			n++
		}
		return n
	}
	if c := next(); c != '-' && (c < '0' || c > '9') {
		return nil, false, ""
	}
	if next() == '-' {
		i++
	}
	zero := next() == '0'
	if n := run(); n == 0 || zero && n > 1 {
		return nil, false, malformed
	}
	whole = true
	if next() == '.' {
		i++
		if whole = false; run() == 0 {
			return nil, false, malformed
		}
	}
	if c := next(); c == 'e' || c == 'E' {
		whole = false
		if i++; next() == '+' || next() == '-' {
			i++
		}
		if run() == 0 {
			return nil, false, malformed
		}
	}
	if isWord(next()) || next() == '.' {
		return nil, false, malformed
	}
	text = s.data[s.pos:i]
	s.pos = i
	return text, whole, ""
}
