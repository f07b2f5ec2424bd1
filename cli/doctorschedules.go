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

// maxFindings bounds how many lines there are of schedules.
const maxFindings = 20

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
		if it := judgeSchedule(&s, now); it != (finding{}) {
			found = append(found, it)
		}
	}
	if more := len(found) - maxFindings; more > 0 {
		found = append(found[:maxFindings], finding{"schedule", isWarning, fmt.Sprintf("and %d more", more), "posthaste schedules list"})
	}
	if len(found) == 0 && n > 0 {
		found = append(found, finding{"schedules", isOK, plural(n, "schedule") + ": all fire", ""})
	}
	return found, nil
}

// judgeSchedule finds nothing where nothing is wrong.
func judgeSchedule(s *client.Schedule, now time.Time) finding {
	late := now.Sub(s.NextAt)
	switch {
	case !s.NextAt.IsZero() && late > lateFire:
		return finding{"schedule", isBad, fmt.Sprintf("%s has been due for %s and does not fire", s.Name, shortSpan(late)), "see the server's log"}
	case s.Cron == "":
		return finding{"schedule", isBad, fmt.Sprintf("%s cannot be read: %s", s.Name, s.LastError), "update the server, or delete it"}
	case s.LastError != "" && !s.NextAt.IsZero(): // neither paused nor over
		return finding{
			"schedule", isWarning, fmt.Sprintf("%s could not produce: %s", s.Name, s.LastError),
			"posthaste schedules update " + s.Name + " gives it another queue or item; it fires again once that is mended",
		}
	default:
		return finding{}
	}
}
