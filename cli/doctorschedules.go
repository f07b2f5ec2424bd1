package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// lateFire is how late a schedule may be before the doctor tells of it; until then nothing
// counts as missed.
const lateFire = time.Minute

// judgeSchedules looks at those that do not fire, or could not produce when they did. now is
// the server's.
func judgeSchedules(ctx context.Context, cl *client.Client, now time.Time) ([]finding, error) {
	var found []finding
	n := 0
	for s, err := range cl.Schedules(ctx) {
		if client.Is(err, client.CodeNotSupported) {
			return nil, nil // a server that fires none
		}
		if err != nil {
			return nil, err
		}
		n++
		late := now.Sub(s.NextAt)
		switch {
		case s.LastError != "":
			found = append(found, finding{
				"schedule", isWarning, fmt.Sprintf("%s could not produce: %s", s.Name, s.LastError),
				"posthaste schedules trigger " + s.Name + " once that is mended",
			})
		case !s.NextAt.IsZero() && late > lateFire:
			found = append(found, finding{"schedule", isBad, fmt.Sprintf("%s has been due for %s and does not fire", s.Name, shortSpan(late)), "see the server's log"})
		}
	}
	if len(found) == 0 && n > 0 {
		found = append(found, finding{"schedules", isOK, plural(n, "schedule") + ": all fire", ""})
	}
	return found, nil
}
