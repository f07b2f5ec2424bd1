package subscriptions

import (
	"strings"

	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/posthaste-io/posthaste/queue"
)

// guessedSize is how many entries lists and maps of a payload are taken to have, and how
// many bytes its texts, when an expression is judged before there is a payload.
const guessedSize = 50

// sizes guesses what expressions will meet.
type sizes struct{}

var _ cost.Estimator = sizes{}

// EstimateSize implements cost.Estimator.
func (sizes) EstimateSize(node cost.AstNode) *cost.SizeEstimate {
	if node.ComputedSize() != nil {
		return nil
	}
	largest := uint64(guessedSize)
	if path := node.Path(); len(path) == 1 && path[0] != "payload" && path[0] != "headers" {
		largest = queue.MaxLabel
	}
	size := cost.RangedSizeEstimate(0, largest)
	return &size
}

// EstimateCallCost implements cost.Estimator.
func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// charges says what calls cost when they have run. The library's own prices look at the
// declared types of arguments, and take whatever comes out of a payload for small.
type charges struct{ regexes map[string]regex }

var _ cost.ActualCostEstimator = (*charges)(nil)

// one is what most calls cost; the pointer saves an allocation for each.
var one uint64 = 1

// zoneCost is for a look-up of a time zone by its name, which may read a file.
const zoneCost = 1_000

// CallCost implements cost.ActualCostEstimator: 1, and 1 for each ten bytes of text and
// each value that the call may look at.
func (c *charges) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	n := uint64(1)
	switch function {
	case operators.Equals, operators.NotEquals:
		if len(args) == 2 {
			n = commonWeight(args[0], args[1])
		}
	case operators.In:
		if len(args) == 2 {
			n = searchWeight(args[0], args[1])
		}
	case operators.Add:
		if n += textWeight(result); isContainer(result) {
			if _, gathers := args[0].(traits.MutableLister); !gathers {
				n += count(result)
			}
		}
	case compiledMatches:
		if text, ok := args[0].(types.String); ok && !types.IsError(result) {
			pattern, _ := args[len(args)-1].(types.String)
			n = c.regexes[string(pattern)].cost(string(text))
		}
	default:
		for _, arg := range args {
			n += textWeight(arg)
		}
		if strings.HasSuffix(overload, "_with_tz") || (strings.HasPrefix(function, "get") && len(args) == 2) {
			n += zoneCost
		}
	}
	if n == 1 {
		return &one
	}
	return &n
}

// textWeight is what it costs to read a text.
func textWeight(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v)) / 10
	case types.Bytes:
		return uint64(len(v)) / 10
	default:
		return 0
	}
}

// commonWeight is what it costs to compare two values: no more than the smaller one is.
func commonWeight(a, b ref.Val) uint64 {
	a, b = held(a), held(b)
	if !isContainer(a) || !isContainer(b) {
		return 1 + min(textWeight(a), textWeight(b))
	}
	if count(a) > count(b) {
		a, b = b, a
	}
	return weight(b, weight(a, maxCost+1))
}

// searchWeight is what it costs to look for a value in another one.
func searchWeight(v, in ref.Val) uint64 {
	v = held(v)
	list, ok := in.(traits.Lister)
	switch {
	case !ok:
		return 1 + textWeight(v)
	case isContainer(v):
		return weight(list, maxCost+1)
	default:
		return 1 + count(list)*(1+textWeight(v)/10)
	}
}

// held is what an optional value holds, if it is one.
func held(v ref.Val) ref.Val {
	for {
		optional, ok := v.(*types.Optional)
		if !ok || !optional.HasValue() {
			return v
		}
		v = optional.GetValue()
	}
}

func isContainer(v ref.Val) bool {
	switch v.(type) {
	case traits.Lister, traits.Mapper:
		return true
	default:
		return false
	}
}

func count(v ref.Val) uint64 {
	if sizer, ok := v.(traits.Sizer); ok {
		if n, ok := sizer.Size().(types.Int); ok {
			return uint64(n)
		}
	}
	return 0
}

// weight counts the values within a value and tens of bytes of their texts, up to a limit.
func weight(v ref.Val, limit uint64) uint64 {
	v = held(v)
	n := 1 + textWeight(v)
	it, ok := v.(traits.Iterable)
	if !ok || !isContainer(v) {
		return min(n, limit)
	}
	mapper, isMap := v.(traits.Mapper)
	for each := it.Iterator(); n < limit && each.HasNext() == types.True; {
		value := each.Next()
		if isMap {
			n += textWeight(value)
			value = mapper.Get(value)
		}
		n += weight(value, limit-n)
	}
	return min(n, limit)
}
