package main

import (
	"context"
	"fmt"
	"runtime/debug"
)

// versionCommand prints what this binary was built from.
type versionCommand struct{}

// Run implements command.
func (*versionCommand) Run(_ context.Context, s streams) error {
	b := readBuild()
	_, err := fmt.Fprintf(s.stdout, "posthaste %s\ncommit %s\n%s\n", b.version, b.commit, b.goVersion)
	return err
}

// build is what the Go command wrote into the binary.
type build struct {
	version   string
	commit    string
	goVersion string
}

func readBuild() build {
	b := build{version: "devel", commit: "unknown", goVersion: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.goVersion = info.GoVersion
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.version = v
	}
	modified := false
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.commit = setting.Value
		case "vcs.modified":
			modified = setting.Value == "true"
		}
	}
	if modified && b.commit != "unknown" {
		b.commit += " (modified)"
	}
	return b
}
