package pgtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// baseSettings are appended to what initdb wrote. Durability is stated although
// it is the default, since tests of crashes prove nothing without it.
var baseSettings = []string{
	"fsync=on",
	"full_page_writes=on",
	"synchronous_commit=on",
	"shared_buffers=128MB",
	"max_connections=200",
	"log_line_prefix=%m [%p] %d ",
}

// cluster is one PostgreSQL server and its data. Its methods are not to be called
// concurrently, but for url and those of the log.
type cluster struct {
	ws       *workspace
	programs programs
	dir      string
	port     int
	log      *os.File
	process  *process // nil while it is down
}

// newCluster makes a cluster and starts it. A setting is "name=value".
func newCluster(programs programs, settings []string) (*cluster, error) {
	ws, err := openWorkspace()
	if err != nil {
		return nil, err
	}
	template, err := templateOf(ws, programs)
	if err != nil {
		return nil, err
	}
	dir, err := ws.folder("cluster")
	if err != nil {
		return nil, err
	}
	c := &cluster{ws: ws, programs: programs, dir: dir}
	if out, err := ws.command("cp", "-Rp", template, c.data()).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy the template: %w\n%s", err, out)
	}
	if err := c.configure(append(baseSettings[:len(baseSettings):len(baseSettings)], settings...)); err != nil {
		return nil, err
	}
	if c.port, err = freePort(); err != nil {
		return nil, err
	}
	c.log, err = os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := c.start(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

var template struct {
	once sync.Once
	dir  string
	err  error
}

// templateOf returns the data of a cluster that was never started. initdb takes a
// second, a copy of what it made a tenth of that.
func templateOf(ws *workspace, programs programs) (string, error) {
	template.once.Do(func() {
		template.dir = filepath.Join(ws.dir, "template")
		initdb := ws.command(
			programs.initdb, "--pgdata", template.dir, "--username", "postgres", "--auth", "trust", "--encoding", "UTF8",
			"--locale-provider", "icu", "--icu-locale", "en-US", "--no-sync", "--no-instructions",
		)
		if out, err := initdb.CombinedOutput(); err != nil {
			template.err = fmt.Errorf("initdb: %w\n%s", err, out)
		}
	})
	return template.dir, template.err
}

// freePort finds a port below those that the kernel gives to outgoing
// connections: one of these could otherwise take it while the server is down.
func freePort() (int, error) {
	var last error
	for range 100 {
		port := 20000 + rand.IntN(12000)
		listener, err := net.Listen("tcp", loopback(port))
		if err == nil {
			return port, listener.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("find a free port: %w", last)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func (c *cluster) data() string { return filepath.Join(c.dir, "data") }

// configure writes settings to the file rather than the command line, which could
// not be overruled by alter system.
func (c *cluster) configure(settings []string) error {
	var lines strings.Builder
	for _, setting := range settings {
		name, value, ok := strings.Cut(setting, "=")
		if !ok {
			return fmt.Errorf("setting %q is not name=value", setting)
		}
		fmt.Fprintf(&lines, "%s = %s\n", name, literal(value))
	}
	f, err := os.OpenFile(filepath.Join(c.data(), "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(lines.String())
	return errors.Join(err, f.Close())
}

// literal quotes a value for SQL and for postgresql.conf.
func literal(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }

// url is that of the database postgres, as a superuser.
func (c *cluster) url() string {
	return "postgres://postgres@" + loopback(c.port) + "/postgres?sslmode=disable"
}

// start runs the server and returns when it takes connections.
func (c *cluster) start() error {
	from := c.logSize()
	p, err := start(c.ws.command(
		c.programs.postgres, "-D", c.data(), "-h", "127.0.0.1", "-p", strconv.Itoa(c.port), "-k", c.dir,
	), c.log)
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	c.process = p
	if err := p.await(func() error { return execute(c.url(), "select 1") }); err != nil {
		return fmt.Errorf("start postgres: %w\n%s", err, c.logFrom(from))
	}
	return nil
}

// end ends the server with a signal. A server that is down stays so.
func (c *cluster) end(signal syscall.Signal) error {
	if c.process == nil {
		return nil
	}
	if err := c.process.end(signal); err != nil {
		return fmt.Errorf("stop postgres: %w", err)
	}
	c.process = nil
	return nil
}

// close ends the server and removes its files.
func (c *cluster) close() error {
	return errors.Join(c.end(immediate), c.log.Close(), os.RemoveAll(c.dir))
}

// logSize is where the log ends now.
func (c *cluster) logSize() int64 { return sizeOf(c.log) }

// logFrom returns the log from an offset on.
func (c *cluster) logFrom(from int64) string { return readLog(c.log, from) }
