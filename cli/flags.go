package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// perPeriod is a rate as a flag takes it: 100/s, 30/m, 5/10s; 0 is no limit.
type perPeriod client.Rate

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *perPeriod) UnmarshalText(text []byte) error {
	number, period, given := strings.Cut(string(text), "/")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is no rate; want 100/s, 30/m or 5/10s, or 0 for no limit", text)
	}
	*r = perPeriod{Count: n}
	switch {
	case n == 0:
		return nil
	case !given:
		period = "1s"
	case period != "" && strings.Trim(period, "smh") == "":
		period = "1" + period
	}
	r.Period, err = time.ParseDuration(period)
	if err != nil || r.Period <= 0 {
		return fmt.Errorf("%q is no rate: want s, m, h or a duration such as 10s after the slash", text)
	}
	return nil
}

// String writes a rate as a flag takes it; no limit is empty.
func (r perPeriod) String() string {
	if r == (perPeriod{}) {
		return ""
	}
	period := shortSpan(r.Period)
	if unit := strings.TrimPrefix(period, "1"); len(unit) == 1 || unit == "ms" {
		period = unit
	}
	return fmt.Sprintf("%d/%s", r.Count, period)
}

// moment is an instant, or how long ago it was.
type moment struct {
	at  time.Time
	ago time.Duration
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *moment) UnmarshalText(text []byte) error {
	if ago, err := time.ParseDuration(string(text)); err == nil && ago >= 0 {
		*m = moment{ago: ago}
		return nil
	}
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return fmt.Errorf("%q is neither an instant such as 2030-01-31T08:00:00Z nor how long ago it was, such as 15m", text)
	}
	*m = moment{at: at}
	return nil
}

// time is when it is, the zero time for one that was not given.
func (m moment) time(now time.Time) time.Time {
	if m.ago > 0 {
		return now.Add(-m.ago)
	}
	return m.at
}

// maxSecret bounds what is read as a secret or a certificate, in bytes.
const maxSecret = 1 << 20

// secret reads what must not stand in a command line from a file, or, for -, from
// standard input. An empty file name is none.
func (c *console) secret(ctx context.Context, flag, file string) (string, error) {
	var text []byte
	var err error
	switch file {
	case "":
		return "", nil
	case "-":
		err = c.read(ctx, func(in io.Reader) (err error) {
			text, err = io.ReadAll(io.LimitReader(in, maxSecret+1))
			return err
		})
		if ctx.Err() != nil {
			return "", err
		}
	default:
		text, err = os.ReadFile(file)
	}
	text = bytes.TrimSpace(text)
	switch {
	case err != nil:
		return "", usagef("%s: %w", flag, err)
	case len(text) == 0 && file == "-":
		return "", usagef("%s -: standard input holds nothing; one flag alone can read it", flag)
	case len(text) == 0:
		return "", usagef("%s %s: holds nothing", flag, file)
	case len(text) > maxSecret:
		return "", usagef("%s %s: longer than %d bytes", flag, file, maxSecret)
	}
	return string(text), nil
}
