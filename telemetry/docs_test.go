package telemetry

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pb33f/go-yaml"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/dispatcher"
)

var update = flag.Bool("update", false, "write the table of metrics into the documentation anew")

const (
	page       = "../docs/metrics.md"
	tableBegin = "<!-- metrics: begin -->\n"
	tableEnd   = "<!-- metrics: end -->\n"
)

// documentedTable is the table as the definitions have it.
func documentedTable() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | what it tells |\n|---|---|---|---|\n")
	for _, d := range definitions {
		labels := make([]string, len(d.labels))
		for i, label := range d.labels {
			labels[i] = "`" + label + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.prometheus(), d.kind, strings.Join(labels, ", "), d.help)
	}
	return b.String()
}

func TestDocs_TableIsThatOfTheDefinitions(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, began := strings.Cut(string(raw), tableBegin)
	table, after, ended := strings.Cut(rest, tableEnd)
	if !began || !ended {
		t.Fatalf("%s has no place for the table", page)
	}
	want := documentedTable()
	if *update {
		if err := os.WriteFile(page, []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("the table is not that of the metrics; go test ./telemetry -run Docs -update writes it anew. Want:\n%s", want)
	}
}

func TestDocs_EverythingThatIsScrapedHasARow(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range scraped(t) {
		if !strings.Contains(string(text), "| `"+family+"` |") {
			t.Errorf("%s is scraped, and %s has no row for it", family, page)
		}
	}
}

// scraped are the names of what a server shows.
func scraped(t *testing.T) []string {
	t.Helper()
	measured, err := New(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := measured.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	measured.Requests().RequestBegan("queue.lease")
	measured.Requests().RequestEnded(api.Request{Method: "queue.lease", Shed: "leases_waiting"})
	measured.Pushed(dispatcher.Attempt{Verdict: "delivered", Delivery: 2, Unsettled: true, Duration: time.Second})
	w := httptest.NewRecorder()
	measured.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var families []string
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) `).FindAllStringSubmatch(w.Body.String(), -1) {
		families = append(families, m[1])
	}
	if !slices.Contains(families, "posthaste_http_requests_shed_total") {
		t.Fatalf("scraped %v", families)
	}
	return families
}

// metricNames are the names of posthaste's series in a query.
var metricNames = regexp.MustCompile(`\bposthaste_[a-z_]+`)

// wantKnown checks that a query is about metrics that there are.
func wantKnown(t *testing.T, where, query string) {
	t.Helper()
	names := metricNames.FindAllString(query, -1)
	if len(names) == 0 {
		t.Errorf("%s: %q is about no metric", where, query)
	}
	for _, name := range names {
		known := slices.ContainsFunc(definitions, func(d *definition) bool {
			if d.kind != histogram {
				return name == d.prometheus()
			}
			base, ok := strings.CutPrefix(name, d.prometheus())
			return ok && slices.Contains([]string{"_bucket", "_sum", "_count"}, base)
		})
		if !known {
			t.Errorf("%s: there is no metric %s", where, name)
		}
	}
	wantLabels(t, where, query)
}

// labelUses finds labels where queries have them: in braces, and behind by.
var labelUses = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"|by\s*\(([^)]*)\)`)

// wantLabels checks that some metric has each label of a query.
func wantLabels(t *testing.T, where, query string) {
	t.Helper()
	known := []string{"le", "instance", "job"}
	for _, name := range metricNames.FindAllString(query, -1) {
		for _, d := range definitions {
			if strings.HasPrefix(name, d.prometheus()) {
				known = append(known, d.labels...)
			}
		}
	}
	for _, m := range labelUses.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(m[1]+m[2], ",") {
			if label = strings.TrimSpace(label); !slices.Contains(known, label) {
				t.Errorf("%s: %q: the metric has no label %q", where, query, label)
			}
		}
	}
}

func TestDashboard_AsksForMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../deploy/grafana/posthaste.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		UID    string
		Title  string
		Panels []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	if err := json.Unmarshal(raw, &dashboard); err != nil {
		t.Fatal(err)
	}
	if dashboard.UID == "" || dashboard.Title == "" || len(dashboard.Panels) < 10 {
		t.Fatalf("got dashboard %q %q with %d panels", dashboard.UID, dashboard.Title, len(dashboard.Panels))
	}
	ids := make(map[int]bool)
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] {
			t.Errorf("panel %q has the id of another", panel.Title)
		}
		ids[panel.ID] = true
		if panel.Type == "row" {
			continue
		}
		if len(panel.Targets) == 0 || panel.GridPos.W == 0 || panel.GridPos.X+panel.GridPos.W > 24 {
			t.Errorf("panel %q asks nothing, or stands nowhere", panel.Title)
		}
		for _, target := range panel.Targets {
			wantKnown(t, panel.Title, target.Expr)
		}
	}
	for _, variable := range dashboard.Templating.List {
		if variable.Type == "query" {
			wantKnown(t, "variable "+variable.Name, variable.Definition)
		}
	}
}

func TestAlerts_AskForMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../deploy/prometheus/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no alerts: %v", err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var rules struct {
			Groups []struct {
				Name  string `yaml:"name"`
				Rules []struct {
					Alert       string            `yaml:"alert"`
					Expr        string            `yaml:"expr"`
					For         string            `yaml:"for"`
					Labels      map[string]string `yaml:"labels"`
					Annotations map[string]string `yaml:"annotations"`
				} `yaml:"rules"`
			} `yaml:"groups"`
		}
		if err := yaml.Unmarshal(raw, &rules); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, group := range rules.Groups {
			for _, rule := range group.Rules {
				wantKnown(t, rule.Alert, rule.Expr)
				if rule.Alert == "" || rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
					t.Errorf("%s: alert %q does not say what it is about", file, rule.Alert)
				}
				if !strings.Contains(string(text), "`"+rule.Alert+"`") {
					t.Errorf("%s does not tell what to do about %s", page, rule.Alert)
				}
			}
		}
	}
}
