package subscriptions

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/posthaste-io/posthaste/queue"
)

// Bounds of filters.
const (
	maxKinds = 100
	// maxExpression is in bytes.
	maxExpression = 4 << 10
)

// Filter says which items of a topic a subscription takes: those whose kind is one of
// Kinds and for which CEL is true. The zero value takes all.
type Filter struct {
	// Kinds are up to 100 kinds, each of 1 to [queue.MaxLabel] bytes, of which one has to
	// match; none at all takes every kind. A * stands for any run of characters, dots
	// and none at all included: order.* takes order.created and order.item.added, and not
	// order. It may stand anywhere, any number of times. All else stands for itself, upper
	// and lower case apart. An item without a kind is matched by * alone.
	Kinds []string
	// CEL is an expression of the Common Expression Language of at most 4 KiB that gives
	// a bool, or empty. It may read kind, reference and encoding (string), headers
	// (map(string, string), by names in lower case) and payload (dyn: the JSON that the
	// payload is, or null if it is none).
	CEL string
	// OnError says what becomes of an item for which CEL cannot be evaluated.
	OnError OnError
}

// OnError is the verdict where an expression has none.
type OnError string

// The verdicts.
const (
	// OnErrorDeliver takes the item: rather one too many than one lost. It is the default.
	OnErrorDeliver OnError = ""
	// OnErrorSkip leaves it.
	OnErrorSkip OnError = "skip"

	wordDeliver = "deliver"
)

// IsZero says that every item is taken.
func (f Filter) IsZero() bool { return len(f.Kinds) == 0 && f.CEL == "" && f.OnError == OnErrorDeliver }

// clone returns a copy that shares nothing with f, with the words that are stored.
func (f Filter) clone() Filter {
	f.Kinds = slices.Clone(f.Kinds)
	if len(f.Kinds) == 0 {
		f.Kinds = nil
	}
	setWord(&f.OnError, &f.OnError, wordDeliver)
	return f
}

// checkFilter judges the filter of a subscription, ofTopic or of a queue.
func checkFilter(f Filter, ofTopic bool) error {
	if f.IsZero() {
		return nil
	}
	if !ofTopic {
		return queue.Invalid("filter", "is for subscriptions of topics; what the only subscription of a queue does not take "+
			"would go to nobody; leave it out, or subscribe to a topic")
	}
	_, err := CompileFilter(f)
	return err
}

// Matcher is a compiled [Filter]. Safe for concurrent use.
type Matcher struct {
	// all takes every kind; else one has to be among exact or fit one of globs.
	all   bool
	exact map[string]struct{}
	globs []glob
	// expr is nil without an expression.
	expr *expression
	// otherwise is the verdict where expr has none.
	otherwise bool
}

// CompileFilter makes a matcher of a filter. It takes about a tenth of a millisecond if
// there is an expression, so keep the matcher for as long as the filter does not change.
//
// Errors: [queue.InvalidError], whose field is filter.kinds, filter.kinds[i],
// filter.on_error or filter.cel, and which tells the line and the column, both from 1,
// of a mistake in the expression.
func CompileFilter(f Filter) (*Matcher, error) {
	f = f.clone()
	if len(f.Kinds) > maxKinds {
		return nil, queue.Invalid("filter.kinds", "has %d entries; want at most %d, and fewer with globs such as order.*", len(f.Kinds), maxKinds)
	}
	m := &Matcher{all: len(f.Kinds) == 0, otherwise: f.OnError == OnErrorDeliver}
	for i, kind := range f.Kinds {
		if err := checkKind(kind); err != nil {
			return nil, queue.Invalid(fmt.Sprintf("filter.kinds[%d]", i), "%v", err)
		}
		m.add(kind)
	}
	if err := oneOf("filter.on_error", f.OnError, wordDeliver, OnErrorDeliver, OnErrorSkip); err != nil {
		return nil, err
	}
	if f.CEL == "" {
		if f.OnError != OnErrorDeliver {
			return nil, queue.Invalid("filter.on_error", "is about expressions, and filter.cel is missing; leave it out")
		}
		return m, nil
	}
	var err error
	m.expr, err = compileExpression(f.CEL)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Match says whether the subscription takes an item. Where the expression has no value
// for it, the verdict is what the filter's OnError says, and the error tells why, for
// the caller to count; its text holds nothing of the item. Kinds are asked first, and
// the expression only of items whose kind fits.
func (m *Matcher) Match(c *Candidate) (bool, error) {
	if !m.matchKind(c.content.Kind) {
		return false, nil
	}
	if m.expr == nil {
		return true, nil
	}
	taken, err := m.expr.eval(c)
	if err != nil {
		return m.otherwise, err
	}
	return taken, nil
}

func (m *Matcher) add(kind string) {
	parts := strings.Split(kind, "*")
	if len(parts) == 1 {
		if m.exact == nil {
			m.exact = make(map[string]struct{})
		}
		m.exact[kind] = struct{}{}
		return
	}
	last := len(parts) - 1
	g := glob{prefix: parts[0], suffix: parts[last]}
	for _, part := range parts[1:last] {
		if part != "" {
			g.middle = append(g.middle, part)
		}
	}
	m.globs = append(m.globs, g)
}

func (m *Matcher) matchKind(kind string) bool {
	if m.all {
		return true
	}
	if _, ok := m.exact[kind]; ok {
		return true
	}
	for i := range m.globs {
		if m.globs[i].match(kind) {
			return true
		}
	}
	return false
}

// glob is a pattern of kinds with at least one star: what stands before the first, what
// stands after the last, and what stands between them, in order.
type glob struct {
	prefix, suffix string
	middle         []string
}

// match takes the first place of each part, which leaves most to those after it, so no
// place is tried twice.
func (g *glob) match(kind string) bool {
	rest, ok := strings.CutPrefix(kind, g.prefix)
	if !ok {
		return false
	}
	if rest, ok = strings.CutSuffix(rest, g.suffix); !ok {
		return false
	}
	for _, part := range g.middle {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return true
}

// checkKind refuses what no kind of an item can match.
func checkKind(kind string) error {
	switch {
	case kind == "":
		return errKindEmpty
	case len(kind) > queue.MaxLabel:
		return errKindLong
	case !utf8.ValidString(kind):
		return errKindText
	case strings.TrimSpace(kind) != kind:
		return errKindSpace
	case strings.ContainsFunc(kind, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return errKindControl
	}
	return nil
}
