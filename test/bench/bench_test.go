package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
	_, err := exec.LookPath(redisProgram)
	redis := err == nil
	if !redis && os.Getenv("CI") != "" {
		t.Fatalf("no %s, of which asynq's rows have need", redisProgram)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "report.json")
	var table bytes.Buffer
	if err := run(t.Context(), []string{"-quick", "-json", file, "-report", dir}, &table); err != nil {
		t.Fatal(err)
	}
	report := read(t, file)
	for _, r := range report.Rows {
		if r.Median <= 0 || len(r.Values) < report.Rounds {
			t.Errorf("%s on %s: median %v of %v", r.Name, r.Store, r.Median, r.Values)
		}
		if !strings.Contains(table.String(), r.Name) {
			t.Errorf("%s is not in the table", r.Name)
		}
		if volatile := r.Store == "memory" || r.Store == "none"; r.Durable == volatile {
			t.Errorf("%s on %s: durable is %v", r.Name, r.Store, r.Durable)
		}
	}
	measured := sheet{rows: report.Rows}
	for _, g := range quick.goals() {
		if !redis && g.row == produceAside {
			if len(report.Skipped) == 0 || measured.find(g.row, g.store) != nil {
				t.Errorf("without %s: %q is measured, or it is not told why not: %q", redisProgram, g.row, report.Skipped)
			}
			continue
		}
		row := measured.find(g.row, g.store)
		if row == nil || !slices.ContainsFunc(row.Compared, func(c Comparison) bool { return c.Of == g.of && c.Reference == g.reference }) {
			// Processor time is told by hundredths of a second: of few items it may be none.
			if row == nil || g.of == "" {
				t.Errorf("%s on %s is not compared with %s\n%s", g.row, g.store, g.reference, table.String())
			}
		}
	}
	if report.Machine.PostgreSQL == "" || report.Machine.River == "" || report.Machine.Processor == "" || report.Machine.Kernel == "" {
		t.Errorf("the machine is not told: %+v", report.Machine)
	}
	kept := strings.TrimSuffix(newest(t, dir), ".json")
	if text := readText(t, kept+".md"); text != report.markdown() {
		t.Errorf("kept for people:\n%s\nwant\n%s", text, report.markdown())
	}
}

func TestRow_JudgesItsGoal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of, is string
		value  float64
		want   bool
	}{
		{"", atLeast, 100, true},
		{"", atLeast, 201, false},
		{"", atMost, 100, false},
		{"", atMost, 200, true},
		{serverCPU, atMost, 40, true},
		{serverCPU, atMost, 39, false},
	} {
		r := (&sheet{}).row("row", store{}, "items/s")
		for _, v := range []float64{90, 1000, 150} {
			r.add(v)
			r.also(serverCPU, v/5)
		}
		r.against(c.of, c.value, "reference", c.is, 0.75)
		if len(r.Compared) != 1 || r.Compared[0].Met != c.want {
			t.Errorf("%s of 150 and 30 against %v, %s 0.75: got %+v, want met %v", c.of, c.value, c.is, r.Compared, c.want)
		}
	}
}

func TestRow_FillsOneLineAComparison(t *testing.T) {
	t.Parallel()
	r := (&sheet{}).row("row", store{name: "badger", durable: true}, "items/s")
	r.add(1_234_567)
	r.against("", 1000, "a peer's 1,000", atLeast, 2)
	r.against("", 2e6, "another row", atMost, 0.5)
	report := Report{At: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), Rows: []*Row{r}, Skipped: []string{"asynq: no redis-server here"}}
	text := report.markdown()
	for _, want := range []string{
		"# Measured on 2026-01-31\n",
		"| row | badger | yes | 1,234,567 items/s | 1,234,567 … 1,234,567 |  | 1,235 of a peer's 1,000 | at least 2: met |\n",
		"|  |  |  |  |  |  | 0.617 of another row | at most 0.5: MISSED |\n",
		"- asynq: no redis-server here\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
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
