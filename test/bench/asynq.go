package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

// redisProgram is what asynq keeps its tasks in.
const redisProgram = "redis-server"

// redisServer is a private Redis that syncs before it answers.
type redisServer struct {
	host  string
	dir   string
	cmd   *exec.Cmd
	ended chan error
}

// startRedis runs one in a folder of its own, and waits until it answers. Its log is
// never written anew, which spares it work.
func (b *bench) startRedis(program string) (*redisServer, error) {
	dir, err := os.MkdirTemp(b.dir, "redis")
	if err != nil {
		return nil, err
	}
	host, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		return nil, err
	}
	r := &redisServer{host: host, dir: dir, ended: make(chan error, 1)}
	r.cmd = exec.Command(program, "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	r.cmd.Stdout, r.cmd.Stderr = log, log
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", redisProgram, err)
	}
	go func() { r.ended <- r.cmd.Wait() }()
	if err := r.ready(); err != nil {
		_ = r.cmd.Process.Kill()
		return nil, err
	}
	return r, nil
}

// ready polls until it answers.
func (r *redisServer) ready() error {
	client := asynq.NewClient(r.options(1))
	defer func() { _ = client.Close() }()
	stop := time.After(20 * time.Second)
	for {
		err := client.Ping()
		if err == nil {
			return nil
		}
		select {
		case ended := <-r.ended:
			text, _ := os.ReadFile(filepath.Join(r.dir, "log"))
			return fmt.Errorf("start %s: ended: %v\n%s", redisProgram, ended, text)
		case <-stop:
			return fmt.Errorf("start %s: not ready: %w", redisProgram, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop ends the process. Its folder goes with that of the bench.
func (r *redisServer) stop() error { return end(redisProgram, r.cmd.Process, r.ended) }

// options let callers share so many connections; 0 is asynq's own number.
func (r *redisServer) options(connections int) asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Addr: r.host, PoolSize: connections}
}

// enqueueRow takes one round, on an empty queue.
func (b *bench) enqueueRow(ctx context.Context, r *redisServer, row string, connections int) error {
	client := asynq.NewClient(r.options(connections))
	defer func() { _ = client.Close() }()
	payload := bytes.Repeat([]byte{'p'}, payloadSize)
	m, err := newMeter([]source{{serverCPU, func() (time.Duration, error) { return timeOf(r.cmd.Process.Pid) }}})
	if err != nil {
		return err
	}
	var tasks atomic.Int64
	stop := time.Now().Add(b.plan.short)
	err = together(redisClients, func(int) error {
		for time.Now().Before(stop) {
			if _, err := client.EnqueueContext(ctx, asynq.NewTask("bench", payload)); err != nil {
				return err
			}
			tasks.Add(1)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := m.rate(b.sheet.row(row, store{name: "redis", durable: true}, "items/s"), tasks.Load()); err != nil {
		return err
	}
	inspector := asynq.NewInspector(r.options(1))
	defer func() { _ = inspector.Close() }()
	return inspector.DeleteQueue("default", true)
}
