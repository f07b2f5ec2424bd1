package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// source is somebody whose processor time a row accounts for.
type source struct {
	// name is what the row calls it.
	name string
	cpu  func() (time.Duration, error)
}

const (
	serverCPU   = "server_us_per_item"
	databaseCPU = "database_us_per_item"
	// processCPU is of this process: of a library that runs inside it.
	processCPU = "process_us_per_item"
)

// meter takes time and processor time.
type meter struct {
	sources []source
	began   time.Time
	at      []time.Duration
}

func newMeter(sources []source) (*meter, error) {
	m := &meter{sources: sources, at: make([]time.Duration, len(sources))}
	for i, s := range sources {
		var err error
		if m.at[i], err = s.cpu(); err != nil {
			return nil, err
		}
	}
	m.began = time.Now()
	return m, nil
}

// rate adds items a second to a row, and the processor time per item.
func (m *meter) rate(r *Row, items int64) error {
	r.add(float64(items) / time.Since(m.began).Seconds())
	return m.perItem(r, items)
}

// perItem adds the processor time per item alone.
func (m *meter) perItem(r *Row, items int64) error {
	if items == 0 {
		return nil
	}
	for i, s := range m.sources {
		now, err := s.cpu()
		if err != nil {
			return err
		}
		r.also(s.name, float64((now-m.at[i]).Microseconds())/float64(items))
	}
	return nil
}

// The fields of /proc/PID/stat that we read, counted from behind the name. The last two
// are of children that have ended.
const (
	parentField = 1
	userField   = 11
	systemField = 12
	endedUser   = 13
	endedSystem = 14
)

// processStat reads the fields behind the name, which may hold spaces.
func processStat(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) <= endedSystem {
		return nil, fmt.Errorf("processor time: %q", text)
	}
	return fields, nil
}

// ticks adds up fields of times.
func ticks(fields []string, which ...int) (time.Duration, error) {
	const perSecond = 100
	var sum int64
	for _, i := range which {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("processor time: %w", err)
		}
		sum += n
	}
	return time.Duration(sum) * time.Second / perSecond, nil
}

// timeOf returns the processor time that a process has used so far.
func timeOf(pid int) (time.Duration, error) {
	fields, err := processStat(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return ticks(fields, userField, systemField)
}

// thisProcess is the source of what runs in here.
var thisProcess = source{processCPU, func() (time.Duration, error) { return timeOf(os.Getpid()) }}

// database finds the processes of a PostgreSQL server on this machine. One elsewhere has
// no sources.
func database(ctx context.Context, url string) ([]source, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	var pid int
	if err := conn.QueryRow(ctx, "select pg_backend_pid()").Scan(&pid); err != nil {
		return nil, err
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil || strings.TrimSpace(string(name)) != "postgres" {
		return nil, nil // it is not here
	}
	fields, err := processStat(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	parent := fields[parentField]
	return []source{{databaseCPU, func() (time.Duration, error) { return family(parent) }}}, nil
}

// family adds up the time of a process and of all its children, ended ones among them.
func family(parent string) (time.Duration, error) {
	fields, err := processStat("/proc/" + parent + "/stat")
	if err != nil {
		return 0, err
	}
	sum, err := ticks(fields, userField, systemField, endedUser, endedSystem)
	if err != nil {
		return 0, err
	}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		fields, err := processStat(file)
		if err != nil || fields[parentField] != parent {
			continue // an error is of one that has just ended
		}
		one, err := ticks(fields, userField, systemField)
		if err != nil {
			return 0, err
		}
		sum += one
	}
	return sum, nil
}
