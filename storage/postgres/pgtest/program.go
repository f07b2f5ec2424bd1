package pgtest

import (
	"errors"
	"os"
)

// Open is URL for programs that are no tests, such as benchmarks: the server named by
// the environment, or a private cluster with these settings ("name=value"), which
// closing ends. It is called once in a process.
func Open(settings ...string) (url string, closing func() error, err error) {
	if server := os.Getenv(serverVariable); server != "" {
		return server, func() error { return nil }, nil
	}
	p, found := programsUnder(debianLibrary)
	if !found {
		p, found = programsInPath()
	}
	if !found {
		return "", nil, errors.New("PostgreSQL is needed: install it (Debian: postgresql), or set " + serverVariable)
	}
	c, err := newCluster(p, settings)
	if err != nil {
		return "", nil, err
	}
	return c.url(), func() error { return errors.Join(c.close(), closeWorkspace()) }, nil
}
