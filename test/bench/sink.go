package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// sinkEnv makes this program a sink instead of a bench.
const sinkEnv = "POSTHASTE_BENCH_SINK"

// serveSink answers every POST with 204, and GET /count with how many there were.
// It prints its address and ends when its input does: with its parent at the latest.
func serveSink(in io.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	var count atomic.Int64
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, strconv.FormatInt(count.Load(), 10))
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		count.Add(1)
		w.WriteHeader(http.StatusNoContent)
	})
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	_ = server.Close()
	<-ended
	return nil
}

// sink is the child process that takes what is pushed.
type sink struct {
	url  string
	cmd  *exec.Cmd
	stop io.Closer
	http *http.Client
}

// startSink runs this program once more.
func startSink() (*sink, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), sinkEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("sink: address: %w", err)
	}
	return &sink{url: "http://" + strings.TrimSpace(address), cmd: cmd, stop: in, http: tunedClient(pushInFlight)}, nil
}

// end closes the sink's input and waits for it.
func (s *sink) end() error {
	s.http.CloseIdleConnections()
	if err := s.stop.Close(); err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	return nil
}

// count asks how many POSTs came so far.
func (s *sink) count(ctx context.Context) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/count", nil)
	if err != nil {
		return 0, err
	}
	res, err := s.http.Do(req)
	if err != nil {
		return 0, fmt.Errorf("sink: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, fmt.Errorf("sink: %w", err)
	}
	return strconv.ParseInt(string(text), 10, 64)
}

// tunedClient is net/http's at its best for many small requests to one host.
func tunedClient(connections int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: connections + 1, DisableCompression: true, ForceAttemptHTTP2: false,
	}}
}
