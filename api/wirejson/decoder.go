package wirejson

import (
	"bytes"
	"encoding/base64"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/posthaste-io/posthaste/queue"
)

// Later names fields that a message will have in a later release, in snake_case,
// by the message's full name. They are answered with [queue.UnsupportedError], so
// that nobody takes them for typing errors or believes that they work.
type Later map[protoreflect.FullName][]string

// Decoder reads messages. Safe for concurrent use.
type Decoder struct {
	later map[protoreflect.FullName]map[string]bool
}

// NewDecoder returns a decoder that knows which fields come later.
func NewDecoder(later Later) *Decoder {
	d := &Decoder{later: make(map[protoreflect.FullName]map[string]bool, len(later))}
	for message, names := range later {
		set := make(map[string]bool, 2*len(names))
		for _, name := range names {
			set[name] = true
			set[camel(name)] = true
		}
		d.later[message] = set
	}
	return d
}

// Decode reads data into m, which must be empty and keeps nothing of data. What it
// answers is a [queue.InvalidError] with the field's path, a [queue.TooLargeError]
// or a [queue.UnsupportedError]; m is then of no use.
func (d *Decoder) Decode(data []byte, m proto.Message) error {
	r := reader{scanner: scanner{data: data}, later: d.later}
	r.path = r.pathSpace[:0]
	r.space()
	if r.pos == len(data) {
		return queue.Invalid("", "the body is empty; want a JSON object, at least {}")
	}
	msg := m.ProtoReflect()
	if err := r.object(msg, tableOf(msg.Descriptor())); err != nil {
		return err
	}
	if r.space(); r.pos < len(data) {
		return queue.Invalid("", "byte %d: something follows the message", r.pos)
	}
	return nil
}

// reader is one pass over one text.
type reader struct {
	scanner
	later  map[protoreflect.FullName]map[string]bool
	tokens int

	// path is where the reader stands, for errors.
	path      []step
	pathSpace [8]step
}

// step is a field or map key, or a place in the list before it.
type step struct {
	name  string
	index int
}

const noIndex = -1

// at returns the path as the caller would write it: items[3].delay.
func (r *reader) at() string {
	var b strings.Builder
	for _, s := range r.path {
		switch {
		case s.name == "":
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
			continue
		case b.Len() > 0:
			b.WriteByte('.')
		}
		b.WriteString(s.name)
	}
	return b.String()
}

func (r *reader) invalid(format string, args ...any) error {
	return queue.Invalid(r.at(), format, args...)
}

// syntax turns what the scanner says into an error at the reader's path.
func (r *reader) syntax(problem string) error {
	return r.invalid("byte %d: %s", r.pos, problem)
}

func (r *reader) wrongType(f *field) error {
	return r.invalid("wants %s, got %s", f.kind.wants(), r.found())
}

func (r *reader) token() error {
	if r.tokens++; r.tokens > MaxTokens {
		return &queue.TooLargeError{Field: "body", Limit: MaxTokens, Unit: "names and values"}
	}
	return nil
}

// object reads an object into m.
func (r *reader) object(m protoreflect.Message, t *table) error {
	if r.peek() != '{' {
		return r.invalid("wants an object, got %s", r.found())
	}
	var seen uint64
	return r.members(func(key []byte) error {
		f := t.byName[string(key)]
		if f == nil {
			return r.unknown(t, string(key))
		}
		r.path = append(r.path, step{f.name, noIndex})
		if seen&f.bit != 0 {
			return r.invalid("is given twice")
		}
		seen |= f.bit
		if err := r.field(m, f); err != nil {
			return err
		}
		r.path = r.path[:len(r.path)-1]
		return nil
	})
}

func (r *reader) unknown(t *table, key string) error {
	r.path = append(r.path, step{clip(key), noIndex})
	if r.later[t.name][key] {
		return &queue.UnsupportedError{What: "field " + r.at(), Field: r.at()}
	}
	return r.invalid("is not a field of this message")
}

// members calls f for each member of the object that begins here, with the reader
// behind the colon. The key is good until the next string is read.
func (r *reader) members(f func(key []byte) error) error {
	r.pos++
	if r.space(); r.peek() == '}' {
		r.pos++
		return nil
	}
	for {
		if err := r.token(); err != nil {
			return err
		}
		if r.peek() != '"' {
			return r.syntax("wants a name in double quotes")
		}
		key, problem := r.str()
		if problem != "" {
			return r.syntax(problem)
		}
		if r.space(); r.peek() != ':' {
			return r.syntax("wants a colon behind the name")
		}
		r.pos++
		r.space()
		if err := f(key); err != nil {
			return err
		}
		switch r.space(); r.peek() {
		case ',':
			r.pos++
			r.space()
		case '}':
			r.pos++
			return nil
		default:
			return r.syntax("wants a comma or a closing brace")
		}
	}
}

// field reads the value of a field.
func (r *reader) field(m protoreflect.Message, f *field) error {
	switch {
	case f.kind == mapKind:
		return r.textMap(m.Mutable(f.desc).Map(), f)
	case f.list:
		return r.elements(m.Mutable(f.desc).List(), f)
	case f.kind == messageKind:
		if err := r.token(); err != nil {
			return err
		}
		return r.object(m.Mutable(f.desc).Message(), f.sub)
	}
	v, err := r.scalar(f)
	if err != nil {
		return err
	}
	m.Set(f.desc, v)
	return nil
}

func (r *reader) elements(l protoreflect.List, f *field) error {
	if r.peek() != '[' {
		return r.invalid("wants a list, got %s", r.found())
	}
	r.pos++
	if r.space(); r.peek() == ']' {
		r.pos++
		// An empty list that was given is not nil, so that an update can clear.
		l.Append(l.NewElement())
		l.Truncate(0)
		return nil
	}
	for i := 0; ; i++ {
		if i == MaxList {
			return &queue.TooLargeError{Field: r.at(), Limit: MaxList, Unit: "entries"}
		}
		r.path = append(r.path, step{"", i})
		if err := r.element(l, f); err != nil {
			return err
		}
		switch r.space(); r.peek() {
		case ',':
			r.pos++
			r.space()
		case ']':
			r.pos++
			r.path = r.path[:len(r.path)-1]
			return nil
		default:
			return r.syntax("wants a comma or a closing bracket")
		}
		r.path = r.path[:len(r.path)-1]
	}
}

func (r *reader) element(l protoreflect.List, f *field) error {
	if f.kind == messageKind {
		if err := r.token(); err != nil {
			return err
		}
		return r.object(l.AppendMutable().Message(), f.sub)
	}
	v, err := r.scalar(f)
	if err != nil {
		return err
	}
	l.Append(v)
	return nil
}

func (r *reader) textMap(m protoreflect.Map, f *field) error {
	if r.peek() != '{' {
		return r.wrongType(f)
	}
	return r.members(func(key []byte) error {
		k := string(key)
		r.path = append(r.path, step{clip(k), noIndex})
		mapKey := protoreflect.ValueOfString(k).MapKey()
		if m.Has(mapKey) {
			return r.invalid("is given twice")
		}
		if r.peek() != '"' {
			return r.invalid("wants a string, got %s", r.found())
		}
		value, problem := r.str()
		if problem != "" {
			return r.syntax(problem)
		}
		m.Set(mapKey, protoreflect.ValueOfString(string(value)))
		r.path = r.path[:len(r.path)-1]
		return nil
	})
}

// scalar reads a value that is neither a list, a map nor a message of ours.
func (r *reader) scalar(f *field) (protoreflect.Value, error) {
	var none protoreflect.Value
	if err := r.token(); err != nil {
		return none, err
	}
	switch f.kind {
	case boolKind:
		switch {
		case r.literal("true"):
			return protoreflect.ValueOfBool(true), nil
		case r.literal("false"):
			return protoreflect.ValueOfBool(false), nil
		}
		return none, r.wrongType(f)
	case int32Kind, doubleKind:
		return r.number(f)
	}
	if r.peek() != '"' {
		return none, r.wrongType(f)
	}
	if f.kind == bytesKind {
		b, problem := r.base64()
		if problem != "" {
			return none, r.syntax(problem)
		}
		return protoreflect.ValueOfBytes(b), nil
	}
	text, problem := r.str()
	if problem != "" {
		return none, r.syntax(problem)
	}
	if f.kind == instantKind {
		at, err := ParseInstant(string(text))
		if err != nil {
			return none, r.invalid("%q is %v", clip(string(text)), err)
		}
		return protoreflect.ValueOfMessage(timestamppb.New(at).ProtoReflect()), nil
	}
	return protoreflect.ValueOfString(string(text)), nil
}

func (r *reader) number(f *field) (protoreflect.Value, error) {
	var none protoreflect.Value
	text, whole, problem := r.digits()
	switch {
	case problem != "":
		return none, r.syntax(problem)
	case text == nil:
		return none, r.wrongType(f)
	case f.kind == doubleKind:
		v, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return none, r.invalid("%s is out of range", clip(string(text)))
		}
		return protoreflect.ValueOfFloat64(v), nil
	case !whole:
		return none, r.invalid("wants a whole number, written without a point and exponent, got %s", clip(string(text)))
	}
	v, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil {
		return none, r.invalid("%s is out of range; want %d to %d", clip(string(text)), math.MinInt32, math.MaxInt32)
	}
	return protoreflect.ValueOfInt32(int32(v)), nil
}

// base64 reads a string of base64.
func (r *reader) base64() (b []byte, problem string) {
	text, problem := r.str()
	if problem != "" {
		return nil, problem
	}
	// The decoder would skip line breaks.
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 {
		return nil, "a line break in base64"
	}
	encoding := rawBase64
	if bytes.HasSuffix(text, []byte("=")) {
		encoding = paddedBase64
	}
	b = make([]byte, encoding.DecodedLen(len(text)))
	n, err := encoding.Decode(b, text)
	if err != nil {
		return nil, "not standard base64; for text, use the field utf8"
	}
	return b[:n], ""
}

// Strict: two texts must not stand for the same bytes.
var (
	paddedBase64 = base64.StdEncoding.Strict()
	rawBase64    = base64.RawStdEncoding.Strict()
)

// clip bounds what an error repeats of the input.
func clip(s string) string {
	const longest = 60
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}

// camel gives the other spelling of a name: max_attempts, maxAttempts.
func camel(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}
