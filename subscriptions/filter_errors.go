package subscriptions

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/posthaste-io/posthaste/queue"
)

// What kinds are refused for.
var (
	errKindEmpty   = errors.New("is empty; want a kind such as order.created, or a glob such as order.*")
	errKindLong    = fmt.Errorf("is longer than %d bytes, as no kind is", queue.MaxLabel)
	errKindText    = errors.New("is not UTF-8")
	errKindSpace   = errors.New("has spaces at its ends; take them away")
	errKindControl = errors.New("has a control character, as no kind has")
)

// Why an expression has no value for an item, where CEL does not say it.
var (
	errPayload   = fmt.Errorf("the payload has more than %d values, or is nested deeper than %d", maxValues, maxDepth)
	errLongMatch = errors.New("the text is too long for this pattern of matches")
	errNoBool    = errors.New("the value is no bool")
	errCost      = fmt.Errorf("takes more than %d steps for this item", maxCost)
	errTime      = errors.New("takes too long for this item")
	errUnknown   = errors.New("cannot be evaluated for this item")
)

// mistake is an [queue.InvalidError] about a place in an expression.
func mistake(at common.Location, format string, args ...any) error {
	return queue.Invalid("filter.cel", "%s: %s", place(at), fmt.Sprintf(format, args...))
}

// place names a line and a column, both from 1. The library leaves out that of some
// mistakes, which are about the whole.
func place(at common.Location) string {
	line, column := 1, 1
	if at != nil && at.Line() > 0 && at.Column() >= 0 {
		line, column = at.Line(), at.Column()+1
	}
	return "line " + strconv.Itoa(line) + ", column " + strconv.Itoa(column)
}

// noCondition is about the whole, so its place is the start: that of an operator is its
// sign's.
func noCondition(out *cel.Type) error {
	at := common.NewLocation(1, 0)
	if out == types.DynType {
		return mistake(at, "gives something of which only the payload decides whether it is true or false; "+
			"compare it, as in payload.paid == true")
	}
	return mistake(at, "gives %s; want true or false, as of kind == 'order.created' or payload.total > 100", plainType(out.String()))
}

// firstIssue is the first mistake that the library found, in words of ours where the
// library's are about its parser.
func firstIssue(text string, issues []*cel.Error) error {
	first := slices.MinFunc(issues, func(a, b *cel.Error) int {
		if a.Location.Line() != b.Location.Line() {
			return a.Location.Line() - b.Location.Line()
		}
		return a.Location.Column() - b.Location.Column()
	})
	return mistake(first.Location, "%s", explain(first.Message, text, first.Location))
}

var (
	reToken      = regexp.MustCompile(`^Syntax error: token recognition error at: '(.*)'$`)
	reInput      = regexp.MustCompile(`^Syntax error: (?:mismatched|extraneous) input '(.*)' expecting `)
	reMissing    = regexp.MustCompile(`^Syntax error: missing '(.*)' at `)
	reUndeclared = regexp.MustCompile(`^undeclared reference to '([^']*)'(?: \(did you mean '([^']*)'\?\))?`)
	reOverload   = regexp.MustCompile(`^found no matching overload for '([^']*)' applied to '(.*)'$`)
	reExpected   = regexp.MustCompile(`^expected type '([^']*)' but found '([^']*)'$`)
	reNesting    = regexp.MustCompile(`recursion limit exceeded|max recursion depth|expression node`)
)

const theVariables = "kind, reference, encoding, headers and payload"

func explain(message, text string, at common.Location) string {
	message, _, _ = strings.Cut(message, "\n")
	if m := reToken.FindStringSubmatch(message); m != nil {
		return badToken(m[1])
	}
	if m := reInput.FindStringSubmatch(message); m != nil {
		return badInput(m[1], message)
	}
	if m := reMissing.FindStringSubmatch(message); m != nil {
		return "'" + m[1] + "' is missing"
	}
	if m := reUndeclared.FindStringSubmatch(message); m != nil {
		return undeclared(bounded(m[1]), m[2], text, at)
	}
	if m := reOverload.FindStringSubmatch(message); m != nil {
		return noOverload(m[1], bounded(m[2]))
	}
	if m := reExpected.FindStringSubmatch(message); m != nil {
		return "gives " + plainType(bounded(m[2])) + " where " + plainType(m[1]) + " has to stand"
	}
	switch {
	case reNesting.MatchString(message):
		return fmt.Sprintf("is too large, or nested too deeply; want at most %d levels", maxNesting)
	case strings.HasPrefix(message, "invalid argument to has() macro"):
		return "has takes a field, such as has(payload.total)"
	case strings.HasPrefix(message, "invalid int literal"):
		return "the number does not fit into 64 bits; write it with a decimal point"
	}
	return bounded(strings.TrimPrefix(message, "Syntax error: "))
}

func badToken(token string) string {
	switch token := strings.TrimSpace(token); {
	case strings.HasPrefix(token, "'"), strings.HasPrefix(token, `"`):
		return `a text does not end, or has a backslash that stands for nothing; close it, and write \\ for a backslash`
	case token == "=":
		return "= is no operator; write == to compare"
	case token == "&":
		return "& is no operator; write && for and"
	case token == "|":
		return "| is no operator; write || for or"
	case strings.HasPrefix(token, "=~"):
		return "=~ is no operator; write kind.matches('^order') for a pattern"
	default:
		return bounded(token) + " does not belong into an expression; leave it out"
	}
}

func badInput(input, message string) string {
	switch strings.ToLower(input) {
	case "<eof>":
		if strings.HasSuffix(message, "expecting ':'") {
			return "a ? needs a second value; write condition ? one : other"
		}
		return "ends where a value has to stand; write what to compare with, or take the operator before away"
	case "and", "or", "not", "matches", "contains", "like":
		return bounded(input) + " is no operator; write && for and, || for or, ! for not, and kind.matches('…') for a pattern"
	default:
		return bounded(input) + " stands where an operator or the end has to; write && or || between conditions"
	}
}

func undeclared(name, near, text string, at common.Location) string {
	switch {
	case near != "":
		return name + " is not known; did you mean " + bounded(near) + "?"
	case isCall(text, at):
		return name + " is no function; there are size, has, startsWith, endsWith, contains, matches, exists, all and the others of CEL"
	default:
		return name + " is not known; there are " + theVariables + ", and texts stand in quotes"
	}
}

// isCall says that a bracket stands at a place, as after the name of a function.
func isCall(text string, at common.Location) bool {
	lines := strings.Split(text, "\n")
	if at.Line() < 1 || at.Line() > len(lines) {
		return false
	}
	runes := []rune(lines[at.Line()-1])
	return at.Column() >= 0 && at.Column() < len(runes) && runes[at.Column()] == '('
}

func noOverload(function, args string) string {
	name := strings.Trim(function, "_")
	switch name {
	case "[":
		name = "[]"
	case "[_]":
		name = "[]"
	}
	if target, rest, member := strings.Cut(args, ".("); member {
		return fmt.Sprintf("%s does not take (%s) on a value of type %s; convert one with string(…), int(…) or double(…)",
			name, plainTypes(strings.TrimSuffix(rest, ")")), plainTypes(target))
	}
	return fmt.Sprintf("%s does not take (%s); convert one with string(…), int(…) or double(…)",
		name, plainTypes(strings.Trim(args, "()")))
}

func plainTypes(types string) string { return strings.ReplaceAll(types, "dyn", "any") }

func plainType(name string) string {
	if name == "bool" {
		return "true or false"
	}
	return "a value of type " + name
}

// fault is an error of an evaluation, with its place where that is known, and without
// anything of the item.
func (e *expression) fault(err error) error {
	at, reason := "", errUnknown
	var cancelled interpreter.EvalCancelledError
	var value *types.Err
	switch {
	case errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded:
		reason = errCost
	case errors.Is(err, interpreter.InterruptError{}):
		reason = errTime
	case errors.Is(err, errNoBool):
		reason = errNoBool
	case errors.As(err, &value):
		at = e.where(value.NodeID())
		reason = e.known(value)
	}
	return fmt.Errorf("filter.cel: %s%w", at, reason)
}

func (e *expression) where(id int64) string {
	if at := e.source.GetStartLocation(id); at != nil && at.Line() > 0 {
		return place(at) + ": "
	}
	return ""
}

// known are the beginnings of the library's errors that hold nothing of an item.
var known = []string{
	"no such overload", "index out of bounds", "division by zero", "modulus by zero", "integer overflow",
	"unsigned integer overflow", "double overflow", "type conversion error", "invalid RFC 3339 timestamp",
	"range error", "timestamp overflow", "duration overflow", "invalid duration", "invalid UTF-8",
}

func (e *expression) known(err *types.Err) error {
	for _, ours := range []error{errPayload, errLongMatch, errCost} {
		if errors.Is(err, ours) {
			return ours
		}
	}
	text := err.Error()
	if key, ok := strings.CutPrefix(text, "no such key: "); ok {
		// A key that the expression computed may be a part of the payload.
		if strings.Contains(e.text, key) {
			return errors.New("no such key: " + key)
		}
		return errors.New("no such key")
	}
	for _, each := range known {
		if strings.HasPrefix(text, each) {
			return errors.New(each)
		}
	}
	return errUnknown
}

// bounded cuts a text that a client or a library chose.
func bounded(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	text = text[:most]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + "…"
}
