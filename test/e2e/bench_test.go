package e2e_test

import (
	"encoding/json"
	"testing"

	"github.com/posthaste-io/posthaste/test/harness"
)

func TestBench_MeasuresAServerOnDiskAndLeavesNothing(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Options{})
	env := []string{"POSTHASTE_URL=" + s.URL, "POSTHASTE_KEY=" + harness.Key}
	code, out, messages := harness.Run(t, harness.Options{Env: env}, "bench", "--duration", "300ms", "--json")
	if code != 0 {
		t.Fatalf("bench ended with code %d: %s", code, messages)
	}
	var v struct {
		Produced, Completed int
		Latency             map[string]struct {
			Count int
			P50   float64 `json:"p50_ms"`
		}
		Errors map[string]int
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if v.Produced == 0 || v.Completed != v.Produced || len(v.Errors) != 0 || v.Latency["end_to_end"].Count != v.Completed {
		t.Errorf("got %s", out)
	}
	if code, out, messages := harness.Run(t, harness.Options{Env: env}, "queues", "list"); code != 0 || out != "" {
		t.Errorf("queues list ended with code %d and printed %q, %s; want none", code, out, messages)
	}
}
