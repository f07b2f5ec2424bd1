package harness

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/apikeys"
)

// Start and stop may take this long, also on a busy machine with a large store.
const (
	startTimeout = 60 * time.Second
	stopTimeout  = 60 * time.Second
)

// Options say how a server runs; the zero value runs the defaults in a new
// temporary directory, on free ports.
type Options struct {
	// Store is --store; empty leaves the flag out.
	Store string
	// Args are further flags of serve. They win over what the harness sets.
	Args []string
	// Env is added to this process's environment, in which [Key] is the root key unless
	// POSTHASTE_ROOT_KEY says otherwise, and for PostgreSQL [EncryptionKey] is what
	// POSTHASTE_ENCRYPTION_KEY has.
	Env []string
	// Dir is the working directory; empty is a new one that the test removes.
	Dir string
	// Program is what [Spawn] runs; empty is the program under test.
	Program string
}

// Server is a running process.
type Server struct {
	// URL and AdminURL are http://127.0.0.1:port, without a slash at the end; with
	// --tls-cert URL is https.
	URL      string
	AdminURL string
	Pid      int

	tb     testing.TB
	cmd    *exec.Cmd
	stdout *output
	stderr *output
	ended  chan struct{}
}

// Key is what servers of a test want from their callers, as Authorization: Bearer. It is
// another one in each process.
var Key = newKey()

// EncryptionKey encrypts secrets in databases of a test, which several processes share. It
// is the same in each, and protects nothing.
const EncryptionKey = "test:dGhlIGtleSBvZiB0ZXN0cyBhbmQgb2Ygbm8gc2VjcmU="

func newKey() string {
	key, err := apikeys.New("test")
	if err != nil {
		panic(err) // the word above is one that is taken
	}
	return key.Reveal()
}

// Start runs a server and returns when it listens. It is killed at the end of the
// test if it still runs then.
func Start(tb testing.TB, o Options) *Server {
	tb.Helper()
	args := []string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-format", "json"}
	if o.Store != "" {
		args = append(args, "--store", o.Store)
	}
	s := spawn(tb, o, append(args, o.Args...))
	deadline := time.After(startTimeout)
	for {
		more := s.stderr.more()
		if s.findAddresses() {
			return s
		}
		select {
		case <-more:
		case <-s.ended:
			tb.Fatalf("the server ended with code %d before it listened:\n%s", s.code(), s.Log())
		case <-deadline:
			s.Kill()
			tb.Fatalf("the server does not listen after %s:\n%s", startTimeout, s.Log())
		}
	}
}

// findAddresses looks for the line that says where the server listens.
func (s *Server) findAddresses() bool {
	lines := bufio.NewScanner(strings.NewReader(s.Log()))
	lines.Buffer(nil, maxOutput)
	for lines.Scan() {
		var line struct {
			Msg, API, Admin string
			TLS             bool
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
			s.URL, s.AdminURL = "http://"+line.API, "http://"+line.Admin
			if line.TLS {
				s.URL = "https://" + line.API
			}
			return true
		}
	}
	return false
}

// Spawn runs any command of the program and returns at once; Options.Store is not
// used. It is killed at the end of the test if it still runs then.
func Spawn(tb testing.TB, o Options, args ...string) *Server {
	tb.Helper()
	return spawn(tb, o, args)
}

// Run runs a command to its end and returns what it left.
func Run(tb testing.TB, o Options, args ...string) (code int, stdout, stderr string) {
	tb.Helper()
	s := spawn(tb, o, args)
	code = s.Wait()
	return code, s.stdout.String(), s.stderr.String()
}

func spawn(tb testing.TB, o Options, args []string) *Server {
	tb.Helper()
	dir := o.Dir
	if dir == "" {
		dir = tb.TempDir()
	}
	s := &Server{tb: tb, stdout: newOutput(), stderr: newOutput(), ended: make(chan struct{})}
	program := o.Program
	if program == "" {
		program = Build(tb)
	}
	s.cmd = exec.Command(program, args...)
	s.cmd.Dir = dir
	s.cmd.Env = append(os.Environ(), "POSTHASTE_ROOT_KEY="+Key)
	if slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "postgres://") }) {
		s.cmd.Env = append(s.cmd.Env, "POSTHASTE_ENCRYPTION_KEY="+EncryptionKey)
	}
	s.cmd.Env = append(s.cmd.Env, o.Env...)
	s.cmd.Stdout, s.cmd.Stderr = s.stdout, s.stderr
	if err := s.cmd.Start(); err != nil {
		tb.Fatalf("start %v: %v", args, err)
	}
	s.Pid = s.cmd.Process.Pid
	go func() {
		defer close(s.ended)
		s.cmd.Wait() // how it ended is asked of ProcessState
	}()
	tb.Cleanup(func() {
		s.Kill()
		if tb.Failed() {
			tb.Logf("log of process %d (%v):\n%s", s.Pid, args, tail(s.Log(), 20_000))
		}
	})
	return s
}

// Log returns what the process wrote to its standard error.
func (s *Server) Log() string { return s.stderr.String() }

// Stdout returns what the process wrote to its standard output.
func (s *Server) Stdout() string { return s.stdout.String() }

// Ended is closed when the process has ended.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Signal sends a signal to this one process.
func (s *Server) Signal(sig os.Signal) {
	s.tb.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.tb.Errorf("signal %v to process %d: %v", sig, s.Pid, err)
	}
}

// Stop asks the process to end, waits for it, and fails the test unless it ended
// well.
func (s *Server) Stop() {
	s.tb.Helper()
	s.Signal(syscall.SIGTERM)
	if code := s.Wait(); code != 0 {
		s.tb.Errorf("process %d ended with code %d after SIGTERM", s.Pid, code)
	}
}

// Kill ends the process as kill -9 does, and waits for it. It does nothing if the
// process has ended.
func (s *Server) Kill() {
	s.cmd.Process.Kill()
	<-s.ended
}

// Wait waits for the process's end and returns its exit code, -1 after a signal.
func (s *Server) Wait() int {
	s.tb.Helper()
	select {
	case <-s.ended:
	case <-time.After(stopTimeout):
		s.Kill()
		s.tb.Fatalf("process %d still runs after %s", s.Pid, stopTimeout)
	}
	return s.code()
}

func (s *Server) code() int { return s.cmd.ProcessState.ExitCode() }

func tail(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return "[…]" + text[len(text)-most:]
}
