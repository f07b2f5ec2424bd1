package wirejson

import (
	"strconv"
	"strings"

	"github.com/posthaste-io/posthaste/queue"
)

// Some JSON is no message of ours: its names are anybody's, and of one value the bytes
// count. It is read one level deep, as strictly as messages are.

// Member is a name of an object and its value.
type Member struct {
	Name  string
	Value Value
}

// Value is a value as it is written, without space around it.
type Value []byte

// maxDepth is how deep a value may nest.
const maxDepth = 1_000

// Object reads an object into its members, at most [MaxList], in their order. Values are
// parts of data. What it answers is a [queue.InvalidError], with the member's name as field
// or none, or a [queue.TooLargeError].
func Object(data []byte) ([]Member, error) {
	s := &scanner{data: data}
	if err := s.open('{', "an object"); err != nil {
		return nil, err
	}
	var members []Member
	known := make(map[string]bool)
	for more := s.peek() != '}'; more; {
		name, problem := s.name()
		if problem != "" {
			return nil, s.invalid("", problem)
		}
		switch {
		case known[name]:
			return nil, queue.Invalid(clipName(name), "is given twice")
		case len(members) == MaxList:
			return nil, &queue.TooLargeError{Field: "body", Limit: MaxList, Unit: "names"}
		}
		known[name] = true
		start := s.pos
		if problem := s.skip(); problem != "" {
			return nil, s.invalid(clipName(name), problem)
		}
		members = append(members, Member{name, Value(data[start:s.pos:s.pos])})
		if more, problem = s.another('}'); problem != "" {
			return nil, s.invalid(clipName(name), problem)
		}
	}
	return members, s.shut()
}

// List reads a list into its values, at most [MaxList], as [Object] does; the field of an
// error is the place, such as [3].
func List(data []byte) ([]Value, error) {
	s := &scanner{data: data}
	if err := s.open('[', "a list"); err != nil {
		return nil, err
	}
	var values []Value
	for more := s.peek() != ']'; more; {
		place := "[" + strconv.Itoa(len(values)) + "]"
		if len(values) == MaxList {
			return nil, &queue.TooLargeError{Field: "body", Limit: MaxList, Unit: "entries"}
		}
		start := s.pos
		problem := s.skip()
		if problem == "" {
			values = append(values, Value(data[start:s.pos:s.pos]))
			more, problem = s.another(']')
		}
		if problem != "" {
			return nil, s.invalid(place, problem)
		}
	}
	return values, s.shut()
}

// IsNull says whether the value is null.
func (v Value) IsNull() bool { return string(v) == "null" }

// Text returns the text of a string; ok is false for another value.
func (v Value) Text() (text string, ok bool) {
	if len(v) == 0 || v[0] != '"' {
		return "", false
	}
	s := scanner{data: v}
	b, problem := s.str()
	return string(b), problem == ""
}

// Kind names what the value is, for people.
func (v Value) Kind() string {
	s := scanner{data: v}
	return s.found()
}

// open enters the one value that the data is.
func (s *scanner) open(bracket byte, wanted string) error {
	s.space()
	if s.pos == len(s.data) {
		return queue.Invalid("body", "is empty; want %s", wanted)
	}
	if s.peek() != bracket {
		return queue.Invalid("", "wants %s, got %s", wanted, s.found())
	}
	s.pos++
	s.space()
	return nil
}

// shut leaves it, and nothing may follow.
func (s *scanner) shut() error {
	s.pos++
	if s.space(); s.pos < len(s.data) {
		return queue.Invalid("", "byte %d: something follows the value", s.pos)
	}
	return nil
}

func (s *scanner) invalid(field, problem string) error {
	return queue.Invalid(field, "byte %d: %s", s.pos, problem)
}

// name reads a name and its colon, up to the value.
func (s *scanner) name() (name, problem string) {
	if s.peek() != '"' {
		return "", "wants a name in quotes, got " + s.found()
	}
	text, problem := s.str()
	if problem != "" {
		return "", problem
	}
	name = string(text)
	if s.space(); s.peek() != ':' {
		return "", "wants a colon, got " + s.found()
	}
	s.pos++
	s.space()
	return name, ""
}

// another goes from the end of a value to the next one, or to the bracket that ends all.
func (s *scanner) another(closing byte) (more bool, problem string) {
	switch s.space(); s.peek() {
	case closing:
		return false, ""
	case ',':
		s.pos++
		s.space()
		return true, ""
	default:
		return false, "wants a comma or " + string(closing) + ", got " + s.found()
	}
}

// skip passes over one value, whatever it is.
func (s *scanner) skip() (problem string) {
	// The brackets that are to come, the innermost last.
	var closing []byte
	for {
		if next := s.bracket(); next != 0 {
			if len(closing) == maxDepth {
				return "nests more than " + strconv.Itoa(maxDepth) + " deep"
			}
			closing = append(closing, next)
			s.pos++
			if s.space(); s.peek() != next {
				if problem := s.nameIn(next); problem != "" {
					return problem
				}
				continue
			}
		} else if problem := s.scalar(); problem != "" {
			return problem
		}
		for more := false; !more; {
			if len(closing) == 0 {
				return ""
			}
			inner := closing[len(closing)-1]
			if s.peek() == inner { // an empty one, or what another has seen
				s.pos++
				if closing = closing[:len(closing)-1]; len(closing) == 0 {
					return ""
				}
				inner = closing[len(closing)-1]
			}
			if more, problem = s.another(inner); problem != "" {
				return problem
			}
			if more {
				if problem := s.nameIn(inner); problem != "" {
					return problem
				}
			}
		}
	}
}

// bracket returns what ends the object or list that begins here, 0 if none does.
func (s *scanner) bracket() byte {
	switch s.peek() {
	case '{':
		return '}'
	case '[':
		return ']'
	}
	return 0
}

// nameIn reads the name that an entry has in an object; in a list it has none.
func (s *scanner) nameIn(closing byte) (problem string) {
	if closing == '}' {
		_, problem = s.name()
	}
	return problem
}

// scalar passes over a value that holds no other.
func (s *scanner) scalar() (problem string) {
	if s.peek() == '"' {
		_, problem = s.str()
		return problem
	}
	if s.literal("true") || s.literal("false") || s.literal("null") {
		return ""
	}
	text, _, problem := s.digits()
	if text == nil && problem == "" {
		return "wants a value, got " + s.found()
	}
	return problem
}

// clipName bounds a name that an answer repeats.
func clipName(name string) string {
	const longest = 100
	if len(name) > longest {
		return strings.ToValidUTF8(name[:longest], "") + "…"
	}
	return name
}
