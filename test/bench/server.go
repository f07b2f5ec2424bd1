package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// store is what a server is started on.
type store struct {
	name    string
	durable bool
}

var stores = []store{{name: "memory"}, {name: "badger", durable: true}, {name: "postgres", durable: true}}

// build compiles the server into dir.
func build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "posthaste")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/posthaste-io/posthaste/cmd/posthaste").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return binary, nil
}

// server is a running process.
type server struct {
	store       store
	host, admin string
	cmd         *exec.Cmd
	ended       chan error
	log         string
}

// start runs the server on a fresh store and waits until it is ready.
func (b *bench) start(ctx context.Context, on store) (*server, error) {
	dir, err := os.MkdirTemp(b.dir, on.name)
	if err != nil {
		return nil, err
	}
	host, err := freeAddress()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddress()
	if err != nil {
		return nil, err
	}
	var flags []string
	switch on.name {
	case "memory":
		flags = []string{"--store", "memory:"}
	case "badger":
		flags = []string{"--store", "badger://" + filepath.Join(dir, "data")}
	case "postgres":
		b.schemas++
		flags = []string{"--store", b.postgres, "--schema", "bench_" + strconv.Itoa(os.Getpid()) + "_" + strconv.Itoa(b.schemas)}
	}
	s := &server{store: on, host: host, admin: admin, ended: make(chan error, 1), log: filepath.Join(dir, "log")}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	s.cmd = exec.Command(b.binary, append([]string{
		"serve", "--listen", host, "--admin-listen", admin, "--egress-allow", "127.0.0.1/32",
	}, flags...)...)
	s.cmd.Env = append(os.Environ(), "POSTHASTE_ROOT_KEY="+rootKey)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", on.name, err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	if err := s.ready(ctx); err != nil {
		_ = s.cmd.Process.Kill()
		return nil, err
	}
	return s, nil
}

// filled has something measured on a server of its own with so many items on a fresh
// queue.
func (b *bench) filled(ctx context.Context, on store, items int, measure func(s *server, queue string) error) (err error) {
	s, err := b.start(ctx, on)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := s.stop(); err == nil {
			err = stopErr
		}
	}()
	name, err := b.freshQueue(s)
	if err != nil {
		return err
	}
	if err := fill(s.host, name, items); err != nil {
		return err
	}
	return measure(s, name)
}

// ready polls until the server takes work.
func (s *server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.host+"/readyz", nil)
		if err != nil {
			return err
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-s.ended:
			text, _ := os.ReadFile(s.log)
			return fmt.Errorf("start %s: ended: %w\n%s", s.store.name, err, text)
		case <-ctx.Done():
			return fmt.Errorf("start %s: not ready: %w", s.store.name, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop ends the process and drops its data.
func (s *server) stop() error {
	defer func() { _ = os.RemoveAll(filepath.Dir(s.log)) }()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	select {
	case err := <-s.ended:
		if err != nil {
			return fmt.Errorf("stop %s: %w", s.store.name, err)
		}
		return nil
	case <-time.After(30 * time.Second):
		_ = s.cmd.Process.Kill()
		return errors.New("stop: the server did not end within 30 s")
	}
}

// cpu returns the processor time used so far.
func (s *server) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The second field, the name, may hold spaces; the rest begins after its bracket.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const user, system, ticksPerSecond = 11, 12, 100
	if len(fields) <= system {
		return 0, fmt.Errorf("processor time: %q", text)
	}
	var ticks int64
	for _, field := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("processor time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// resident returns the resident memory in MiB.
func (s *server) resident() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			if err != nil {
				return 0, fmt.Errorf("resident memory: %w", err)
			}
			return kib / 1024, nil
		}
	}
	return 0, errors.New("resident memory: not told")
}

// profile writes a processor profile of the coming time to a file, beside
// whatever else runs; the returned function waits for it.
func (s *server) profile(ctx context.Context, file string, d time.Duration) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- s.fetchProfile(ctx, file, d) }()
	return func() error { return <-done }
}

func (s *server) fetchProfile(ctx context.Context, file string, d time.Duration) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", s.admin, max(1, int(d.Seconds())))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: %s: %.200s", res.Status, text)
	}
	return os.WriteFile(file, text, 0o600)
}

// freeAddress returns a loopback address that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
