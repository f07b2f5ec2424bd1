package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Machine is what figures depend on, as far as it can be told to everybody.
type Machine struct {
	Processor string `json:"processor"`
	CPUs      int    `json:"cpus"`
	MemoryGiB int    `json:"memory_gib"`
	System    string `json:"system"`
	Kernel    string `json:"kernel"`
	// Load is the load average of the minute before: how much else the machine did.
	Load float64 `json:"load"`
	Go   string  `json:"go"`
	// The others that were measured or stored in, empty where they were not.
	PostgreSQL string `json:"postgresql,omitempty"`
	Redis      string `json:"redis,omitempty"`
	River      string `json:"river,omitempty"`
	Asynq      string `json:"asynq,omitempty"`
}

type fact struct{ name, value string }

// facts are those that are known, for people.
func (m Machine) facts() []fact {
	all := []fact{
		{"processor", fmt.Sprintf("%d × %s", m.CPUs, m.Processor)},
		{"memory", strconv.Itoa(m.MemoryGiB) + " GiB"},
		{"system", m.System + ", kernel " + m.Kernel},
		{"load average before", fmt.Sprintf("%.2f", m.Load)},
		{"Go", m.Go},
		{"PostgreSQL", m.PostgreSQL},
		{"Redis", m.Redis},
		{"River", m.River},
		{"asynq", m.Asynq},
	}
	known := all[:0]
	for _, f := range all {
		if f.value != "" {
			known = append(known, f)
		}
	}
	return known
}

// thisMachine looks at what the kernel tells. What it does not tell stays empty.
func thisMachine() Machine {
	return Machine{
		Processor: field("/proc/cpuinfo", "model name"),
		CPUs:      runtime.NumCPU(),
		MemoryGiB: memory(),
		System:    runtime.GOOS + "/" + runtime.GOARCH,
		Kernel:    release(),
		Load:      load(),
		Go:        runtime.Version(),
	}
}

// field returns what stands behind "name:" in a file of /proc.
func field(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func memory() int {
	kib, _, _ := strings.Cut(field("/proc/meminfo", "MemTotal"), " ")
	n, err := strconv.Atoi(kib)
	if err != nil {
		return 0
	}
	return (n + 1<<19) >> 20
}

// release is the kernel's version without what its builder added, which may name a host.
func release() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return regexp.MustCompile(`^\d+(\.\d+)*`).FindString(string(text))
}

func load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	value, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return value
}

// postgresVersion asks the database.
func postgresVersion(ctx context.Context, url string) (version string, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = conn.QueryRow(ctx, "show server_version").Scan(&version)
	return version, err
}

// redisVersion is the program's.
func redisVersion(ctx context.Context, program string) (string, error) {
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", redisProgram, err)
	}
	return regexp.MustCompile(`\d+\.\d+\.\d+`).FindString(string(out)), nil
}

// moduleVersion is that of a library which is built in.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	return ""
}
