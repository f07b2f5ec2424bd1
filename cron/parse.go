package cron

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Bounds of what is parsed.
const (
	maxLength = 255
	minEvery  = time.Second
	maxEvery  = 366 * 24 * time.Hour
)

// Spec is a parsed expression. The zero value fires never; make one with [Parse].
type Spec struct {
	text string
	// Bits by value.
	second, minute, hour, dayOfMonth, month, dayOfWeek uint64
	// both says that a day has to match both of its fields.
	both bool
	// elapsed says that all hours match.
	elapsed bool
	// every is the distance of fires, 0 for expressions with fields.
	every time.Duration
}

// String returns the expression as it was given, without the space around it.
func (s Spec) String() string { return s.text }

// field is one of an expression's, by its order with seconds.
type field struct {
	name     string
	min, max int
	names    []string // of the values from min on
}

var fields = [6]field{
	{name: "second", max: 59},
	{name: "minute", max: 59},
	{name: "hour", max: 23},
	{name: "day of month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of week", max: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

var parser = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// Parse reads an expression. It refuses one that never fires, such as the 30th of
// February. Errors say what is wrong and what is taken, and repeat little of the text.
func Parse(text string) (Spec, error) {
	text = strings.TrimSpace(text)
	parts := strings.Fields(text)
	switch {
	case text == "":
		return Spec{}, errors.New("is empty; want five fields such as 30 9 * * MON-FRI, or one of @hourly, @daily, @weekly, @monthly, @yearly, @every 90s")
	case len(text) > maxLength:
		return Spec{}, fmt.Errorf("is longer than %d bytes", maxLength)
	case strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ="):
		return Spec{}, errors.New("names a time zone; give it as zone")
	case strings.EqualFold(parts[0], "@every"):
		return parseEvery(text, parts[1:])
	case strings.HasPrefix(text, "@"):
		return parseDescriptor(text)
	}
	switch len(parts) {
	case 5:
		parts = append([]string{"0"}, parts...)
	case 6:
	default:
		return Spec{}, fmt.Errorf("has %d fields; want 5 (minute, hour, day of month, month, day of week), or 6 with seconds first", len(parts))
	}
	both := isStar(parts[3]) || isStar(parts[5]) // before they are written as lists
	for i, part := range parts {
		plain, err := fields[i].plain(part)
		if err != nil {
			return Spec{}, fmt.Errorf("%s %w", fields[i].name, err)
		}
		parts[i] = plain
	}
	spec, err := parsePlain(strings.Join(parts, " "))
	if err != nil {
		return Spec{}, err
	}
	spec.text, spec.both = text, both
	return spec.checked()
}

func isStar(text string) bool { return strings.HasPrefix(text, "*") || strings.HasPrefix(text, "?") }

// checked refuses a spec that never fires.
func (s Spec) checked() (Spec, error) {
	from := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, ok := s.nextNaive(from, from.AddDate(searchYears, 0, 0)); !ok {
		return Spec{}, errors.New("never fires: no date matches its days and months")
	}
	return s, nil
}

func parseEvery(text string, arguments []string) (Spec, error) {
	d, err := time.ParseDuration(strings.Join(arguments, " "))
	switch {
	case err != nil:
		return Spec{}, errors.New("@every wants a duration, such as @every 90s")
	case d < minEvery || d > maxEvery:
		return Spec{}, fmt.Errorf("@every %s is not between %s and %s", d, minEvery, maxEvery)
	case d%time.Second != 0:
		return Spec{}, fmt.Errorf("@every %s is not whole seconds", d)
	}
	return Spec{text: text, every: d}, nil
}

func parseDescriptor(text string) (Spec, error) {
	spec, err := parsePlain(strings.ToLower(text))
	if err != nil {
		return Spec{}, fmt.Errorf("%.10q is not one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, @every", text)
	}
	spec.text, spec.both = text, true
	return spec, nil
}

// parsePlain has the library read what it reads rightly: lists of numbers, and names such
// as @daily.
func parsePlain(text string) (spec Spec, err error) {
	defer func() {
		if recover() != nil { // it has on texts such as TZ=, which do not come here
			spec, err = Spec{}, errors.New("cannot be read")
		}
	}()
	parsed, err := parser.Parse(text)
	if err != nil {
		return Spec{}, errors.New("cannot be read")
	}
	read, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return Spec{}, errors.New("cannot be read")
	}
	const (
		star     = 1 << 63 // what the library adds to fields that are one
		allHours = 1<<24 - 1
	)
	spec = Spec{
		second: read.Second &^ star, minute: read.Minute &^ star, hour: read.Hour &^ star,
		dayOfMonth: read.Dom &^ star, month: read.Month &^ star, dayOfWeek: read.Dow &^ star,
	}
	spec.elapsed = spec.hour == allHours
	return spec, nil
}

// plain writes a field as a list of numbers.
func (f *field) plain(text string) (string, error) {
	var values []string
	for term := range strings.SplitSeq(text, ",") {
		low, high, by, err := f.term(term)
		if err != nil {
			return "", err
		}
		span := f.top() - f.min + 1
		if high < low { // around the end
			high += span
		}
		for v := low; v <= high; v += by {
			values = append(values, strconv.Itoa((v-f.min)%span+f.min))
		}
	}
	return strings.Join(values, ","), nil
}

// term reads one term of a field; high is below low if it wraps around.
func (f *field) term(term string) (low, high, by int, err error) {
	span, step, stepped := strings.Cut(term, "/")
	by = 1
	if stepped {
		n, err := strconv.ParseUint(step, 10, 16) // values and steps cannot overflow
		if err != nil || n < 1 {
			return 0, 0, 0, fmt.Errorf("has the step %.10q; want 1 to %d", step, math.MaxUint16)
		}
		by = int(n)
	}
	if span == "*" || span == "?" {
		return f.min, f.top(), by, nil
	}
	from, to, ranged := strings.Cut(span, "-")
	low, ok := f.value(from)
	high = low
	switch {
	case ranged && ok:
		high, ok = f.value(to)
	case stepped:
		high = f.top()
	}
	if !ok {
		return 0, 0, 0, f.refuse(term)
	}
	return low, high, by, nil
}

// top is the greatest value that is not a second name of another.
func (f *field) top() int {
	if f.max == 7 {
		return 6
	}
	return f.max
}

func (f *field) value(text string) (int, bool) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.min + i, true
	}
	n, err := strconv.ParseUint(text, 10, 8)
	return int(n), err == nil && f.min <= int(n) && int(n) <= f.max
}

// extension is what other crons take: L, 15W, LW, 5L, FRIL, L-3, 2#1.
var extension = regexp.MustCompile(`(?i)#|(^|-)(\d*[LW]|LW|[A-Z]{3}L)(-|/|$)`)

func (f *field) refuse(term string) error {
	switch {
	case extension.MatchString(term):
		return fmt.Errorf("has %.10q; L, W and # are not supported", term)
	case len(f.names) > 0:
		return fmt.Errorf("has %.10q; want %d to %d, or a name such as %s", term, f.min, f.max, strings.ToUpper(f.names[1]))
	}
	return fmt.Errorf("has %.10q; want %d to %d", term, f.min, f.max)
}
