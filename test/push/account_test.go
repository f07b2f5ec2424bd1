package push_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// account holds what an endpoint saw against what the server says that it sent, and
// returns what does not agree.
func account(ids []string, requests []request, records []attempt) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	tried, told := map[delivery][]attempt{}, map[delivery]bool{}
	taken := map[string]bool{}
	for _, a := range records {
		of := delivery{a.ItemID, a.Attempt}
		switch a.Type {
		case "attempt":
			tried[of] = append(tried[of], a)
			taken[a.ItemID] = taken[a.ItemID] || a.Verdict == "delivered"
		case "lapse", "outcome":
			told[of] = true
		}
	}
	for of, all := range tried {
		if len(all) > 1 {
			fault("delivery %d of item %s has %d records", of.Attempt, of.ItemID, len(all))
		}
	}
	seen, accepted := map[delivery]bool{}, map[string]bool{}
	for _, r := range requests {
		if seen[r.delivery] {
			fault("delivery %d of item %s came twice", r.Attempt, r.ItemID)
		}
		seen[r.delivery] = true
		accepted[r.ItemID] = accepted[r.ItemID] || r.Status == 200
		all := tried[r.delivery]
		switch {
		case len(all) == 0 && !told[r.delivery]:
			fault("delivery %d of item %s was seen and has no record", r.Attempt, r.ItemID)
		case len(all) == 0:
		case all[0].Status == 0 && all[0].Error != "":
			// The answer was lost on its way.
		case all[0].Status != r.Status:
			fault("delivery %d of item %s: the record says %d %q, the endpoint answered %d", r.Attempt, r.ItemID, all[0].Status, all[0].Error, r.Status)
		}
	}
	for of, all := range tried {
		if all[0].Status != 0 && !seen[of] {
			fault("delivery %d of item %s: the record says %d, the endpoint has not seen it", of.Attempt, of.ItemID, all[0].Status)
		}
	}
	for _, id := range ids {
		switch {
		case !accepted[id]:
			fault("item %s was never accepted", id)
		case !taken[id]:
			fault("item %s has no record of a delivery", id)
		}
	}
	return faults
}

func TestAccount_FindsWhatDoesNotAgree(t *testing.T) {
	t.Parallel()
	saw := func(n, status int32) request { return request{delivery{"a", n}, status} }
	wrote := func(n, status int32) attempt {
		a := attempt{ItemID: "a", Attempt: n, Type: "attempt", Status: status, Verdict: "delivered"}
		if status != 200 {
			a.Verdict, a.Error = "retryable", "status"
		}
		return a
	}
	outcome := attempt{ItemID: "a", Attempt: 1, Type: "outcome", Verdict: "deferred"}
	lapse := attempt{ItemID: "a", Attempt: 1, Type: "lapse"}
	for _, c := range []struct {
		name     string
		requests []request
		records  []attempt
		want     string
	}{
		{"all agrees", []request{saw(1, 500), saw(2, 200)}, []attempt{wrote(1, 500), wrote(2, 200)}, ""},
		{"an answer was lost", []request{saw(1, 200), saw(2, 200)}, []attempt{wrote(1, 0), wrote(2, 200)}, ""},
		{"a connection was refused", []request{saw(2, 200)}, []attempt{wrote(1, 0), wrote(2, 200)}, ""},
		{"a lapse", []request{saw(1, 200), saw(2, 200)}, []attempt{lapse, wrote(2, 200)}, ""},
		{"an outcome", []request{saw(1, 202), saw(2, 200)}, []attempt{outcome, wrote(2, 200)}, ""},
		{"a lapse of another delivery", []request{saw(1, 500), saw(2, 500), saw(3, 200)}, []attempt{lapse, wrote(3, 200)}, "was seen and has no record"},
		{"no record", []request{saw(1, 500), saw(2, 200)}, []attempt{wrote(2, 200)}, "was seen and has no record"},
		{"two records", []request{saw(1, 200)}, []attempt{wrote(1, 200), wrote(1, 200)}, "has 2 records"},
		{"sent twice", []request{saw(1, 200), saw(1, 200)}, []attempt{wrote(1, 200)}, "came twice"},
		{"another status", []request{saw(1, 500), saw(2, 200)}, []attempt{wrote(1, 503), wrote(2, 200)}, "the endpoint answered 500"},
		{"not seen", []request{saw(2, 200)}, []attempt{wrote(1, 500), wrote(2, 200)}, "has not seen it"},
		{"never accepted", []request{saw(1, 500)}, []attempt{wrote(1, 500)}, "was never accepted"},
		{"success not told", []request{saw(1, 200)}, []attempt{wrote(1, 0)}, "no record of a delivery"},
	} {
		faults := account([]string{"a"}, c.requests, c.records)
		found := slices.ContainsFunc(faults, func(f string) bool { return c.want != "" && strings.Contains(f, c.want) })
		if found != (c.want != "") || c.want == "" && len(faults) > 0 {
			t.Errorf("%s: got %q, want %q", c.name, faults, c.want)
		}
	}
}
