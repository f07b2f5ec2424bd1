package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	// dropped is what an anchor leaves out of its heading.
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchor is what GitHub makes of a heading.
func anchor(heading string) string {
	plain := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading, "$1")
	return strings.ReplaceAll(strings.ToLower(dropped.ReplaceAllString(strings.TrimSpace(plain), "")), " ", "-")
}

func TestPages_LinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	pages := readPages(t)
	anchors := map[string]map[string]bool{}
	for _, p := range pages {
		anchors[p.name] = map[string]bool{}
		for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(p.text, ""), -1) {
			anchors[p.name][anchor(m[1])] = true
		}
	}
	links := 0
	for _, p := range pages {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(p.text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			file, fragment, _ := strings.Cut(m[1], "#")
			target := p.name
			if file != "" {
				target = path.Join(path.Dir(p.name), file)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which is not there", p.name, m[1])
			} else if fragment != "" && !anchors[target][fragment] {
				t.Errorf("%s links to %s, which has no such heading", p.name, m[1])
			}
		}
	}
	if links < 50 {
		t.Errorf("found %d links; the test looks in the wrong place", links)
	}
}

// Whoever comes to the folder finds each page from its index.
func TestPages_AreInTheIndex(t *testing.T) {
	t.Parallel()
	pages := readPages(t)
	index, err := os.ReadFile(filepath.Join(root, "docs", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		name := path.Base(p.name)
		if name != "README.md" && !strings.Contains(string(index), "]("+name+")") {
			t.Errorf("docs/README.md does not link to %s", name)
		}
	}
}
