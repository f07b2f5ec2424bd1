package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	v1 "github.com/posthaste-io/posthaste/api/v1"
)

// TestMain lets the test program be the sink, as the bench itself can be.
func TestMain(m *testing.M) {
	if os.Getenv(sinkEnv) != "" {
		exit(serveSink(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

func TestRun_QuickFillsEveryRow(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the server")
	}
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report.json")
	var table bytes.Buffer
	if err := run(t.Context(), []string{"-quick", "-json", file}, &table); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var report Report
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	// Seven rows of load, three shapes, the memory and the push on three stores each,
	// and the bare client.
	const want = 3*(7+3+1+1) + 1
	if len(report.Rows) != want {
		t.Errorf("rows: got %d, want %d\n%s", len(report.Rows), want, table.String())
	}
	for _, r := range report.Rows {
		if r.Median <= 0 || len(r.Values) < report.Rounds {
			t.Errorf("%s on %s: median %v of %v", r.Name, r.Store, r.Median, r.Values)
		}
		if !strings.Contains(table.String(), r.Name) {
			t.Errorf("%s is not in the table", r.Name)
		}
		if durable := r.Store == "badger" || r.Store == "postgres"; r.Durable != durable {
			t.Errorf("%s on %s: durable is %v", r.Name, r.Store, r.Durable)
		}
	}
}

func TestRow_JudgesItsGoal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		is    string
		value float64
		want  bool
	}{
		{atLeast, 100, true},
		{atLeast, 201, false},
		{atMost, 100, false},
		{atMost, 200, true},
	} {
		r := (&sheet{}).row("row", store{}, "items/s")
		for _, v := range []float64{90, 1000, 150} {
			r.add(v)
		}
		r.against(c.value, "reference", c.is, 0.75)
		if r.Median != 150 || r.Met != c.want {
			t.Errorf("150 against %v, %s 0.75: median %v, met %v, want %v", c.value, c.is, r.Median, r.Met, c.want)
		}
	}
}

func TestClient_FindsReceiptsAndStamps(t *testing.T) {
	t.Parallel()
	c := &client{}
	payload := []byte("000000000000000000042ppp")
	answer, err := proto.Marshal(&v1.LeaseReply{QueueName: "q", Partition: 7, Items: []*v1.Leased{
		{Id: "r1", Receipt: "r1", Attempts: 1, Bytes: payload},
		{Bytes: payload, Receipt: "r2", Headers: map[string]string{"a": "b"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.scan(answer); err != nil {
		t.Fatal(err)
	}
	if len(c.receipts) != 2 || string(c.receipts[0]) != "r1" || string(c.receipts[1]) != "r2" {
		t.Errorf("receipts: got %q", c.receipts)
	}
	if len(c.stamps) != 2 || c.stamps[0] != 42 || c.stamps[1] != 42 {
		t.Errorf("stamps: got %v", c.stamps)
	}
	c.receipts, c.stamps = nil, nil
	if err := c.scan(answer[:len(answer)-3]); err == nil {
		t.Error("a cut answer was read without an error")
	}
}
