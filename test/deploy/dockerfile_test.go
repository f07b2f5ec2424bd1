package deploy_test

import (
	"encoding/json"
	"path"
	"strings"
	"testing"
)

// dockerfile is what the test understands of one: a stage that builds, and the image.
type dockerfile struct {
	// builder is the image of the first stage, runs what is run in it.
	builder string
	runs    []string
	image   image
}

// image is the last stage.
type image struct {
	base       string
	copies     []imageCopy
	env        []string
	user       string
	workdir    string
	volumes    []string
	health     []string
	entrypoint []string
	cmd        []string
}

// imageCopy is a COPY --from=build.
type imageCopy struct {
	from, to string
	// owner is user:group, empty for root.
	owner string
}

// parseDockerfile reads ours, and fails on what it does not know: a step that is not
// run here would be a step that nobody tests.
func parseDockerfile(t *testing.T, text string) dockerfile {
	t.Helper()
	var d dockerfile
	stages := 0
	for _, line := range joined(text) {
		word, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		if word == "FROM" {
			if stages++; stages == 1 {
				d.builder = strings.TrimSuffix(rest, " AS build")
			} else {
				d.image.base = rest
			}
			continue
		}
		known := stages == 2 && d.image.take(t, word, rest)
		if stages == 1 {
			known = d.build(word, rest)
		}
		if !known {
			t.Errorf("Dockerfile: the test does not know %q here", line)
		}
	}
	if stages != 2 {
		t.Fatalf("Dockerfile: %d stages, want 2", stages)
	}
	return d
}

// build takes an instruction of the first stage.
func (d *dockerfile) build(word, rest string) (known bool) {
	switch {
	case word == "WORKDIR", word == "COPY" && rest == ". .":
		return true
	case word == "RUN":
		d.runs = append(d.runs, rest)
		return true
	default:
		return false
	}
}

// take takes an instruction of the image.
func (i *image) take(t *testing.T, word, rest string) (known bool) {
	t.Helper()
	switch word {
	case "COPY":
		fields := strings.Fields(rest)
		c := imageCopy{from: fields[len(fields)-2], to: fields[len(fields)-1]}
		for _, flag := range fields[:len(fields)-2] {
			if owner, ok := strings.CutPrefix(flag, "--chown="); ok {
				c.owner = owner
			} else if flag != "--from=build" {
				return false
			}
		}
		i.copies = append(i.copies, c)
	case "ENV":
		i.env = append(i.env, rest)
	case "USER":
		i.user = rest
	case "WORKDIR":
		i.workdir = path.Clean(rest)
	case "VOLUME":
		i.volumes = append(i.volumes, rest)
	case "HEALTHCHECK":
		_, command, _ := strings.Cut(rest, "CMD ")
		i.health = words(t, command)
	case "ENTRYPOINT":
		i.entrypoint = words(t, rest)
	case "CMD":
		i.cmd = words(t, rest)
	case "EXPOSE", "STOPSIGNAL":
	default:
		return false
	}
	return true
}

// words reads the form of a command that needs no shell, which there is none for.
func words(t *testing.T, text string) []string {
	t.Helper()
	var list []string
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Errorf("Dockerfile: command %s: %v", text, err)
	}
	return list
}

// joined returns the instructions, one a line, without comments.
func joined(text string) []string {
	var lines []string
	more := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		line, continues := strings.CutSuffix(line, "\\")
		if more {
			lines[len(lines)-1] += " " + strings.TrimSpace(line)
		} else {
			lines = append(lines, strings.TrimSpace(line))
		}
		more = continues
	}
	return lines
}
