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
	"slices"
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

// storeNamed is one of the stores.
func storeNamed(name string) store {
	i := slices.IndexFunc(stores, func(s store) bool { return s.name == name })
	return stores[i]
}

// build compiles the server into dir, as its own module says: here, with what peers
// want, it could get other versions of libraries.
func build(ctx context.Context, dir string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/posthaste-io/posthaste").Output()
	if err != nil {
		return "", fmt.Errorf("build: find the source, from test/bench: %w", err)
	}
	binary := filepath.Join(dir, "posthaste")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/posthaste")
	cmd.Dir = strings.TrimSpace(string(root))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return binary, nil
}

// server is a process, and what it is started with.
type server struct {
	store       store
	host, admin string
	sources     []source
	binary, dir string
	flags       []string

	cmd   *exec.Cmd
	ended chan error
}

// start runs the server on a fresh store and waits until it is ready.
func (b *bench) start(ctx context.Context, on store) (*server, error) {
	dir, err := os.MkdirTemp(b.dir, on.name)
	if err != nil {
		return nil, err
	}
	s := &server{store: on, binary: b.binary, dir: dir}
	if s.host, err = freeAddress(); err != nil {
		return nil, err
	}
	if s.admin, err = freeAddress(); err != nil {
		return nil, err
	}
	s.sources = []source{{serverCPU, func() (time.Duration, error) { return timeOf(s.cmd.Process.Pid) }}}
	switch on.name {
	case "memory":
		s.flags = []string{"--store", "memory:"}
	case "badger":
		s.flags = []string{"--store", "badger://" + filepath.Join(dir, "data")}
	case "postgres":
		s.flags = []string{"--store", b.postgres, "--schema", b.freshSchema()}
		s.sources = append(s.sources, b.database...)
	}
	return s, s.launch(ctx)
}

// freshSchema names one that nobody has used.
func (b *bench) freshSchema() string {
	b.schemas++
	return "bench_" + strconv.Itoa(os.Getpid()) + "_" + strconv.Itoa(b.schemas)
}

// launch starts the process on what is stored, and waits until it is ready.
func (s *server) launch(ctx context.Context) error {
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(s.binary, append([]string{
		"serve", "--listen", s.host, "--admin-listen", s.admin, "--egress-allow", "127.0.0.1/32",
	}, s.flags...)...)
	cmd.Env = append(os.Environ(), "POSTHASTE_ROOT_KEY="+rootKey)
	if s.store.name == "postgres" {
		cmd.Env = append(cmd.Env, "POSTHASTE_ENCRYPTION_KEY="+encryptionKey)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.store.name, err)
	}
	ended := make(chan error, 1)
	s.cmd, s.ended = cmd, ended
	go func() { ended <- cmd.Wait() }()
	if err := s.ready(ctx); err != nil {
		_ = cmd.Process.Kill()
		return err
	}
	return nil
}

func (s *server) log() string { return filepath.Join(s.dir, "log") }

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
			text, _ := os.ReadFile(s.log())
			return fmt.Errorf("start %s: ended: %w\n%s", s.store.name, err, text)
		case <-ctx.Done():
			return fmt.Errorf("start %s: not ready: %w", s.store.name, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop ends the process and drops its data.
func (s *server) stop() error {
	defer func() { _ = os.RemoveAll(s.dir) }()
	return s.halt()
}

// halt ends the process in order.
func (s *server) halt() error { return end(s.store.name, s.cmd.Process, s.ended) }

// end asks a process to end and waits until it has.
func end(name string, p *os.Process, ended <-chan error) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("stop %s: %w", name, err)
		}
		return nil
	case <-time.After(30 * time.Second):
		_ = p.Kill()
		return fmt.Errorf("stop %s: it did not end within 30 s", name)
	}
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
