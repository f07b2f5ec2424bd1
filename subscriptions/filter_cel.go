package subscriptions

import (
	"context"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"github.com/posthaste-io/posthaste/queue"
)

// Bounds of expressions. A unit of cost is about 30 ns, so that an evaluation ends within
// some milliseconds whatever it is given. The time is for what has no price, such as keys
// of a megabyte, and is looked at between the rounds of a macro; it is long, so that a
// machine out of breath does not change what a filter takes.
const (
	maxCost       = 100_000
	maxNesting    = 50
	maxNodes      = 5_000
	maxRegex      = 1_000 // instructions
	maxEvaluation = time.Second
	checkEvery    = 16 // rounds
)

// expression is a compiled expression. Safe for concurrent use.
type expression struct {
	text    string
	source  *ast.SourceInfo
	program cel.Program
	// loops says that it has macros, whose rounds the payload decides about.
	loops bool
	// timeout is maxEvaluation, but in tests.
	timeout time.Duration
}

// compiling lets one expression be checked at a time.
var compiling sync.Mutex

// environment is made once, by the first expression: it takes a millisecond.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("kind", cel.StringType),
		cel.Variable("reference", cel.StringType),
		cel.Variable("encoding", cel.StringType),
		cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("payload", cel.DynType),
		cel.OptionalTypes(),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(maxNesting),
		cel.ParserErrorRecoveryLimit(1), // only the first mistake is told
		cel.ExpressionNodeLimit(maxNodes),
	)
})

func compileExpression(text string) (*expression, error) {
	if len(text) > maxExpression {
		return nil, queue.Invalid("filter.cel", "has %d bytes; want at most %d", len(text), maxExpression)
	}
	if !utf8.ValidString(text) {
		return nil, queue.Invalid("filter.cel", "is not UTF-8")
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	compiling.Lock() // the library gathers the names that it knows at the first mistake, for all
	checked, issues := env.Compile(text)
	compiling.Unlock()
	if issues.Err() != nil {
		return nil, firstIssue(text, issues.Errors())
	}
	e := &expression{text: text, source: checked.NativeRep().SourceInfo(), timeout: maxEvaluation}
	if out := checked.OutputType(); out != types.BoolType {
		return nil, noCondition(out)
	}
	rules := rules{source: e.source, regexes: map[string]regex{}}
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(rules.visit))
	if rules.err != nil {
		return nil, rules.err
	}
	e.loops = rules.loops
	estimate, err := env.EstimateCost(checked, sizes{})
	if err != nil {
		return nil, queue.Invalid("filter.cel", "cannot be judged: %v", err)
	}
	if estimate.Max > maxCost {
		return nil, queue.Invalid("filter.cel", "line 1, column 1: costs too much: at %d entries for a list and as many bytes for "+
			"a text of the payload it may take more than %d steps; put fewer macros into one another", guessedSize, maxCost)
	}
	e.program, err = env.Program(checked,
		cel.CustomDecoratorV2(rules.decorate),
		cel.CostTracking(&charges{regexes: rules.regexes}),
		cel.CostLimit(maxCost),
		cel.InterruptCheckFrequency(checkEvery),
	)
	if err != nil {
		return nil, queue.Invalid("filter.cel", "line 1, column 1: %s", bounded(err.Error()))
	}
	return e, nil
}

// eval returns the expression's value for an item.
func (e *expression) eval(c *Candidate) (bool, error) {
	var out ref.Val
	var err error
	if e.loops {
		ctx, cancel := context.WithTimeout(context.Background(), e.timeout)
		defer cancel()
		out, _, err = e.program.ContextEval(ctx, (*variables)(c))
	} else {
		out, _, err = e.program.Eval((*variables)(c))
	}
	if err != nil {
		return false, e.fault(err)
	}
	taken, ok := out.(types.Bool)
	if !ok {
		return false, e.fault(errNoBool)
	}
	return bool(taken), nil
}

// regex is a pattern of an expression.
type regex struct {
	compiled *regexp.Regexp
	// size is how many instructions it has, each of which may look at each character.
	size uint64
}

// cost is at most what one search takes: an instruction and a character take about
// 4 ns together.
func (r regex) cost(text string) uint64 { return 1 + r.size*uint64(len(text))/8 }

// rules are what is asked of expressions beside CEL's own: patterns that are known
// beforehand, and names of headers that can be there.
type rules struct {
	source  *ast.SourceInfo
	regexes map[string]regex
	loops   bool
	err     error
}

func (r *rules) visit(e ast.Expr) {
	switch e.Kind() {
	case ast.ComprehensionKind:
		r.loops = true
	case ast.SelectKind:
		if s := e.AsSelect(); isHeaders(s.Operand()) {
			r.header(s.FieldName(), e)
		}
	case ast.CallKind:
		r.call(e.AsCall())
	}
}

func (r *rules) call(call ast.CallExpr) {
	args := call.Args()
	switch name := call.FunctionName(); {
	case name == overloads.Matches && len(args) > 0:
		r.pattern(args[len(args)-1])
	case len(args) != 2:
	case (name == operators.Index || name == operators.OptIndex || name == operators.OptSelect) && isHeaders(args[0]):
		if text, ok := literal(args[1]); ok {
			r.header(text, args[1])
		}
	case name == operators.In && isHeaders(args[1]):
		if text, ok := literal(args[0]); ok {
			r.header(text, args[0])
		}
	}
}

func (r *rules) header(name string, at ast.Expr) {
	if lower := strings.ToLower(name); lower != name {
		r.refuse(at, "names of headers are in lower case here, however they were sent; write '%s'", bounded(lower))
	}
}

func (r *rules) pattern(e ast.Expr) {
	text, ok := literal(e)
	if !ok {
		r.refuse(e, "the pattern of matches is computed; want a text in quotes, such as matches('^order')")
		return
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		r.refuse(e, "%s; want a pattern of RE2, which has no look-around and no back-references",
			bounded(strings.TrimPrefix(err.Error(), "error parsing regexp: ")))
		return
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err == nil && len(program.Inst) > maxRegex {
		r.refuse(e, "the pattern has %d instructions; want at most %d: smaller numbers in {}, or fewer alternatives", len(program.Inst), maxRegex)
		return
	}
	compiled, err2 := regexp.Compile(text)
	if err != nil || err2 != nil {
		r.refuse(e, "the pattern cannot be used; want one of RE2")
		return
	}
	r.regexes[text] = regex{compiled, uint64(len(program.Inst))}
}

func (r *rules) refuse(at ast.Expr, format string, args ...any) {
	if r.err == nil {
		r.err = mistake(r.source.GetStartLocation(at.ID()), format, args...)
	}
}

func isHeaders(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "headers" }

func literal(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := e.AsLiteral().(types.String)
	return string(text), ok
}

// compiledMatches is the name of matches once its pattern is compiled. It differs, so
// that the library does not put its own in the place of ours, which has no bound.
const compiledMatches = "matches compiled"

// decorate compiles patterns, and has what may take long refused before it is begun: in the
// middle nothing could stop it, and the library charges for it afterwards.
func (r *rules) decorate(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return i, nil
	}
	args := call.Args()
	impl := functions.FunctionOp(nil)
	name := call.Function()
	switch {
	case name == overloads.Matches:
		impl, name = r.search(args), compiledMatches
	case len(args) != 2:
	case name == operators.Equals:
		impl = within(commonWeight, types.Equal)
	case name == operators.NotEquals:
		impl = within(commonWeight, func(a, b ref.Val) ref.Val { return types.Bool(types.Equal(a, b) != types.True) })
	case name == operators.In:
		impl = within(searchWeight, contained)
	case name == operators.Add:
		impl = func(values ...ref.Val) ref.Val { return add(values[0], values[1]) }
	}
	if impl == nil {
		return i, nil
	}
	return interpreter.NewCall(call.ID(), name, call.OverloadID(), args, impl), nil
}

// search is matches with a compiled pattern, nil if it is none of ours.
func (r *rules) search(args []interpreter.InterpretableV2) functions.FunctionOp {
	pattern, ok := args[len(args)-1].(interpreter.InterpretableConst)
	if !ok {
		return nil
	}
	text, _ := pattern.Value().(types.String)
	re, ok := r.regexes[string(text)]
	if !ok {
		return nil
	}
	return func(values ...ref.Val) ref.Val {
		in, ok := values[0].(types.String)
		if !ok {
			return noSuch()
		}
		if re.cost(string(in)) > maxCost {
			return types.WrapErr(errLongMatch)
		}
		return types.Bool(re.compiled.MatchString(string(in)))
	}
}

// within is a function of two values that is not begun if it costs too much.
func within(price func(a, b ref.Val) uint64, do func(a, b ref.Val) ref.Val) functions.FunctionOp {
	return func(values ...ref.Val) ref.Val {
		if price(values[0], values[1]) > maxCost {
			return types.WrapErr(errCost)
		}
		return do(values[0], values[1])
	}
}

func contained(v, in ref.Val) ref.Val {
	if container, ok := in.(traits.Container); ok {
		return container.Contains(v)
	}
	return noSuch()
}

// add makes one list of two: the library's would keep both, and walk through all that they
// are made of for whatever it is asked. What macros gather goes on as it is.
func add(a, b ref.Val) ref.Val {
	first, isList := a.(traits.Lister)
	second, areLists := b.(traits.Lister)
	_, gathers := a.(traits.MutableLister)
	if isList && areLists && !gathers {
		if count(a)+count(b) > maxCost {
			return types.WrapErr(errCost)
		}
		all := make([]ref.Val, 0, count(a)+count(b))
		for _, list := range []traits.Lister{first, second} {
			for it := list.Iterator(); it.HasNext() == types.True; {
				all = append(all, it.Next())
			}
		}
		return types.NewRefValList(types.DefaultTypeAdapter, all)
	}
	if adder, ok := a.(traits.Adder); ok {
		return adder.Add(b)
	}
	return noSuch()
}

// noSuch is a fresh error each time: evaluations write into it where they met it.
func noSuch() ref.Val { return types.NewErr("no such overload") }
