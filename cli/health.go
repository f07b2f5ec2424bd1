package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// health is what /health answers, and when.
type health struct {
	status int
	// asked and took are of our clock, date of the server's, in whole seconds.
	asked time.Time
	took  time.Duration
	date  time.Time

	Status  string
	Version string
	// Durable is not told without a key.
	Durable *bool
	Checks  []struct {
		Name  string
		OK    bool
		Error string
	}
}

// healthTime bounds the question.
const healthTime = 10 * time.Second

// health asks once and without the client, which would try again: the doctor wants to
// know how it is now, and by what a call fails.
func (f *connection) health(ctx context.Context) (*health, error) {
	key, err := f.key()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(f.URL, "/")+"/health", nil)
	if err != nil {
		return nil, err
	}
	if key = cmp.Or(key, os.Getenv("POSTHASTE_KEY")); key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	h := &health{asked: time.Now()}
	// Whoever sends us elsewhere does not get the key there.
	once := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := once.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // who asks knows the URL
		}
		return nil, err
	}
	defer resp.Body.Close()
	h.took, h.status = time.Since(h.asked), resp.StatusCode
	h.date, _ = http.ParseTime(resp.Header.Get("Date")) // zero is looked for
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(h); err != nil || h.Status == "" {
		return nil, fmt.Errorf("the answer, status %d, is not from a posthaste server", resp.StatusCode)
	}
	return h, nil
}

// skew is how far our clock is ahead of the server's, as far as that can be seen.
func (h *health) skew() time.Duration {
	if h.date.IsZero() {
		return 0
	}
	// The server's clock stood between date and a second later, at some time between
	// question and answer.
	early, late := h.asked.Sub(h.date.Add(time.Second)), h.asked.Add(h.took).Sub(h.date)
	switch {
	case early > 0:
		return early
	case late < 0:
		return late
	default:
		return 0
	}
}

// now is the server's clock, as far as it is known.
func (h *health) now(ours time.Time) time.Time { return ours.Add(-h.skew()) }

const (
	oddSkew = 2 * time.Second
	// badSkew is where signatures with a time begin to be refused by careful receivers,
	// some of whom take but a minute.
	badSkew = time.Minute
)

// judgeHealth takes the answer of /health, or why there was none.
func judgeHealth(url string, h *health, err error) []finding {
	if err != nil {
		return []finding{{"reachable", isBad, url + ": " + err.Error(), "is the server running (posthaste serve), and is this its URL (--url, $POSTHASTE_URL)?"}}
	}
	found := []finding{{"reachable", isOK, fmt.Sprintf("%s answered in %s", url, shortSpan(h.took)), ""}}
	ready := finding{"ready", isOK, h.Status, ""}
	switch {
	case h.status != http.StatusOK:
		ready = finding{"ready", isBad, "the server takes no work: " + h.Status, "see its log"}
	case h.Status != "ok":
		ready = finding{"ready", isWarning, h.Status, "work is taken, and somebody should look"}
	}
	for _, check := range h.Checks {
		if !check.OK {
			ready.text += fmt.Sprintf("; %s: %s", check.Name, cmp.Or(check.Error, "failing"))
		}
	}
	found = append(found, ready)
	if h.Version != "" {
		found = append(found, finding{"version", isOK, h.Version, ""})
	}
	skew := finding{"clock", isOK, "the server's and ours agree", ""}
	if d := h.skew(); d.Abs() > oddSkew {
		skew = finding{"clock", isWarning, fmt.Sprintf("ours is %s ahead of the server's", shortSpan(d)), "keep both by NTP"}
		if d < 0 {
			skew.text = fmt.Sprintf("ours is %s behind the server's", shortSpan(-d))
		}
		if d.Abs() > badSkew {
			skew.level = isBad
		}
	}
	found = append(found, skew)
	if h.Durable != nil {
		durable := finding{"durable", isOK, "what is acknowledged survives a crash", ""}
		if !*h.Durable {
			durable = finding{"durable", isWarning, "items are kept in memory, and are gone when the server ends", "serve with --store badger:… or postgres://… where that matters"}
		}
		found = append(found, durable)
	}
	return found
}
