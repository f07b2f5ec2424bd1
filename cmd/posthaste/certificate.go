package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// certificatePoll is how often the files are read. They are small, and reading them
// sees every way of replacing them, where times of change and notifications miss some.
const certificatePoll = 2 * time.Second

// certificate is what the API shows, read again when its files change. Connections
// that are open keep what they were made with.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	current atomic.Pointer[tls.Certificate]
	// trouble is why the files as they are now are not used; nil if they are.
	trouble atomic.Pointer[error]
	// seen is of the files when they were last read; only Run changes it.
	seen [sha256.Size]byte
}

// openCertificate reads a pair of files in PEM.
func openCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	if _, err := c.read(); err != nil {
		return nil, err
	}
	return c, nil
}

// config is for the listener.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// Run looks at the files until the context ends. A pair that is broken, or of which
// only one file is there yet, leaves the last good one in use.
func (c *certificate) Run(ctx context.Context) error {
	ticker := time.NewTicker(certificatePoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		changed, err := c.read()
		switch {
		case !changed:
		case err != nil:
			c.log.Error("certificate not read, the last one stays in use", "error", err)
		default:
			leaf := c.current.Load().Leaf
			c.log.Info("certificate read", "serial", leaf.SerialNumber.Text(16), "not_after", leaf.NotAfter)
		}
	}
}

// Err says what is wrong with the certificate that is shown, or with the files.
func (c *certificate) Err() error {
	if err := c.trouble.Load(); err != nil {
		return *err
	}
	if leaf := c.current.Load().Leaf; time.Now().After(leaf.NotAfter) {
		return fmt.Errorf("the certificate expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// read takes the files into use if they differ from those that were read last. An
// error is told once for each change.
func (c *certificate) read() (changed bool, err error) {
	cert, certErr := os.ReadFile(c.certFile)
	key, keyErr := os.ReadFile(c.keyFile)
	seen := digest(cert, key)
	if seen == c.seen {
		return false, nil
	}
	c.seen = seen
	err = errors.Join(certErr, keyErr)
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.X509KeyPair(cert, key); err == nil {
			c.current.Store(&pair)
			c.trouble.Store(nil)
			return true, nil
		}
		err = fmt.Errorf("%s with %s: %w", c.certFile, c.keyFile, err)
	}
	c.trouble.Store(&err)
	return true, err
}

// digest tells whether two files are those that were there before.
func digest(cert, key []byte) [sha256.Size]byte {
	a, b := sha256.Sum256(cert), sha256.Sum256(key)
	return sha256.Sum256(append(a[:], b[:]...))
}
