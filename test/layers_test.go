package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/posthaste-io/posthaste"

// layer says what one folder may import of ours. The first entry of layers whose
// folder fits is the one that counts.
type layer struct {
	// folder is a path pattern; a trailing /... takes in the folders below.
	folder string
	// may lists folders in the same way; "all" is everything.
	may []string
	why string
}

// layers is the architecture. Production code is judged by it, and so are tests,
// which may import what testsMay lists as well.
var layers = []layer{
	{"queue", nil, "the domain stands alone: whoever reads it need read nothing else"},
	{"subscriptions", []string{"queue"}, "who is pushed to is known without knowing how to push or where it is stored"},
	{"webhooks", nil, "receivers import it to verify, and must not get a server with it"},
	{"cron", nil, "when an expression fires is known without knowing what then happens"},
	{"schedules", []string{"queue", "cron"}, "schedules are kept and fired through the broker, whatever stores them"},
	{"seal", nil, "secrets are encrypted without knowing whose they are"},
	{"dispatcher", []string{"queue", "subscriptions", "webhooks"}, "it reaches stores only through the broker, and knows no HTTP API"},
	{"scheduler", []string{"queue", "subscriptions"}, "it waits for time and tells others; it neither pushes nor stores"},
	{"storage", []string{"queue"}, "the contract of backends knows the domain and no backend"},
	{"storage/storagetest", []string{"queue", "storage"}, "the suite judges any backend, so it knows none"},
	{"storage/resident", []string{"queue", "storage"}, "what backends share is no backend"},
	{"storage/memory", []string{"queue", "storage", "storage/resident"}, "a backend knows no other, and nothing above the seam"},
	{"storage/badger", []string{"queue", "storage", "storage/resident"}, "a backend knows no other, and nothing above the seam"},
	{"storage/postgres/pgtest", nil, "it starts databases for tests, and knows nothing of what is kept in them"},
	{"storage/*", []string{"queue", "storage"}, "a backend knows no other, and nothing above the seam"},
	{"api/v1", nil, "wire messages are shared by the server and its clients, which must not get a server with them"},
	{"api/v1/...", nil, "wire messages are shared by the server and its clients, which must not get a server with them"},
	{"api/openapi", nil, "the document is read by everybody, and knows nobody"},
	{"api/openapi/...", nil, "what is made from the document knows the document alone"},
	{"api/client", []string{"api/v1"}, "a user's build must not get a server with the client"},
	{"api/wirejson", []string{"queue", "api/v1"}, "the codec knows messages and the error that names a field, not what they mean"},
	{"api/wireproto", []string{"queue", "api/v1"}, "the codec knows messages and the error that names a field, not what they mean"},
	{"apikeys", nil, "a key is judged without knowing what it opens"},
	{"api", []string{"queue", "subscriptions", "schedules", "cron", "scheduler", "webhooks", "apikeys", "api/v1", "api/openapi", "api/wirejson", "api/wireproto"}, "handlers speak to the broker and the services, never to a store or the dispatcher"},
	{"telemetry", []string{"queue", "subscriptions", "schedules", "storage", "dispatcher", "api"}, "it looks on from outside, by the types of hooks; what it looks at knows nothing of it"},
	{"cli", []string{"api/client"}, "its commands can do nothing that a user's own program could not"},
	{"cmd/...", []string{"all"}, "the wiring knows everybody"},
	{"test", nil, "it looks at the source, not at what it does"},
	{"test/...", []string{"all"}, "tests drive the whole"},
	{"examples/...", []string{"webhooks", "api/v1", "api/client"}, "an example shows what users may import"},
}

// testsMay is what tests may import beyond their layer, by folder: a fake store or
// a conformance suite is no part of the program.
var testsMay = []layer{
	{"queue", []string{"storage", "storage/storagetest", "storage/resident", "storage/memory"}, "the broker is tested on the memory store"},
	{"schedules", []string{"storage", "storage/storagetest", "storage/badger", "storage/postgres", "storage/postgres/pgtest"}, "schedules fire through the broker into each store"},
	{"subscriptions", []string{"storage", "storage/memory", "seal"}, "documents are tested on the memory store, sealed"},
	{"dispatcher", []string{"storage", "storage/storagetest", "storage/memory", "seal"}, "lanes are tested on the memory store"},
	{"webhooks", []string{"test/hostile"}, "the sender meets the endpoints that misbehave"},
	{"scheduler", []string{"storage", "storage/storagetest", "storage/memory"}, "due times are tested on the memory store"},
	{"storage", []string{"storage/memory", "storage/storagetest"}, "the contract's helpers are tested on the memory store"},
	{"storage/storagetest", []string{"storage/memory", "storage/resident"}, "the suite's own tests run it on the memory store"},
	{"storage/postgres", []string{"storage/storagetest", "storage/postgres/pgtest"}, "the suite judges it on a database that tests start"},
	{"storage/*", []string{"storage/storagetest"}, "a backend is judged by the suite"},
	{"cli", []string{"api", "apikeys"}, "commands call a server that wants keys"},
	{"api/openapi", []string{"api/v1"}, "the document is held against the messages"},
	{"telemetry", []string{"storage/memory", "storage/storagetest", "webhooks", "seal"}, "it is tested on a whole server in memory"},
	{"api/client", []string{"api", "test/inproc"}, "the client is tested against a real server"},
	{"api", []string{"storage", "storage/memory", "storage/storagetest", "dispatcher", "seal"}, "handlers are tested on the memory store"},
}

// onlyTests are the folders that no production code may import.
var onlyTests = []string{"storage/storagetest", "storage/postgres/pgtest", "test/..."}

// goPackage is what go list tells of a package.
type goPackage struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func TestLayers_ImportsFollowTheTable(t *testing.T) {
	t.Parallel()
	packages := listPackages(t)
	if len(packages) < 2 {
		t.Fatalf("go list told of %d packages; the test looks in the wrong place", len(packages))
	}
	for _, p := range packages {
		for _, fault := range judge(p) {
			t.Error(fault)
		}
	}
}

// The judge itself must refuse, or a table that fits everything would go unseen.
func TestLayers_JudgeRefusesWhatTheTableForbids(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		folder string
		imp    string
		inTest bool
		want   string
	}{
		{"the domain imports a store", "queue", "storage/memory", false, "queue may import nothing of ours"},
		{"a test of the domain imports a store", "queue", "storage/memory", true, ""},
		{"a test of the domain imports the server", "queue", "api", true, "queue may import nothing of ours"},
		{"a leaf imports the domain", "webhooks", "queue", false, "webhooks may import nothing of ours"},
		{"a handler imports a store", "api", "storage/badger", false, "never to a store"},
		{"a handler imports the domain", "api", "queue", false, ""},
		{"a backend imports another", "storage/badger", "storage/memory", false, "a backend knows no other"},
		{"an unheard-of backend imports another", "storage/postgres", "storage/memory", false, "a backend knows no other"},
		{"a backend imports the suite", "storage/badger", "storage/storagetest", false, "only tests may import"},
		{"a backend's test imports the suite", "storage/badger", "storage/storagetest", true, ""},
		{"the wiring imports a test helper", "cmd/posthaste", "test/harness", false, "only tests may import"},
		{"the wiring imports anything else", "cmd/posthaste", "dispatcher", false, ""},
		{"the client imports the server", "api/client", "api", false, "a user's build"},
		{"a folder that nobody put into the table", "util", "queue", false, "is not in the table"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := goPackage{ImportPath: module + "/" + tt.folder, Imports: []string{"fmt"}}
			if tt.inTest {
				p.XTestImports = []string{module + "/" + tt.imp}
			} else {
				p.Imports = append(p.Imports, module+"/"+tt.imp)
			}
			got := strings.Join(judge(p), "; ")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// judge returns what is wrong with a package's imports, with the reason.
func judge(p goPackage) []string {
	folder := strings.TrimPrefix(p.ImportPath, module+"/")
	rule, known := find(layers, folder)
	if !known {
		return []string{folder + " is not in the table of layers; say there what it may import, and why"}
	}
	var faults []string
	for _, imp := range ours(p.Imports) {
		switch {
		case !strings.HasPrefix(folder, "test/") && fitsAny(onlyTests, imp):
			faults = append(faults, folder+" imports "+imp+", which only tests may import")
		case !fitsAny(rule.may, imp):
			faults = append(faults, fault(folder, imp, rule))
		}
	}
	more, _ := find(testsMay, folder)
	for _, imp := range ours(slices.Concat(p.TestImports, p.XTestImports)) {
		// Any test may use its own package, and the helpers that live under test/.
		if imp == folder || fitsAny([]string{"test/..."}, imp) || fitsAny(rule.may, imp) || fitsAny(more.may, imp) {
			continue
		}
		faults = append(faults, fault("a test of "+folder, imp, rule))
	}
	return faults
}

func fault(who, imp string, rule layer) string {
	may := strings.Join(rule.may, ", ")
	if may == "" {
		may = "nothing of ours"
	}
	return who + " imports " + imp + ", but " + rule.folder + " may import " + may + ": " + rule.why
}

func find(table []layer, folder string) (layer, bool) {
	i := slices.IndexFunc(table, func(l layer) bool { return fits(l.folder, folder) })
	if i < 0 {
		return layer{}, false
	}
	return table[i], true
}

// fits says whether a folder is one that a pattern means.
func fits(pattern, folder string) bool {
	if pattern == "all" {
		return true
	}
	if parent, ok := strings.CutSuffix(pattern, "/..."); ok {
		return strings.HasPrefix(folder, parent+"/")
	}
	ok, err := path.Match(pattern, folder)
	return ok && err == nil
}

func fitsAny(patterns []string, folder string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return fits(p, folder) })
}

// ours returns the folders of those imports that belong to this module.
func ours(imports []string) []string {
	var folders []string
	for _, imp := range imports {
		if folder, ok := strings.CutPrefix(imp, module+"/"); ok {
			folders = append(folders, folder)
		}
	}
	return folders
}

// listPackages asks the go command about every package of the module. Direct
// imports are enough: each package on the way is judged by its own line.
func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages = append(packages, p)
	}
}
