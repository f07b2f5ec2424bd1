package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/test/harness"
)

// certificateFiles is a pair of files that a test replaces.
type certificateFiles struct {
	t         *testing.T
	cert, key string
}

func newCertificateFiles(t *testing.T) certificateFiles {
	dir := t.TempDir()
	return certificateFiles{t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
}

func (f certificateFiles) write(cert, key []byte) {
	f.t.Helper()
	if err := errors.Join(os.WriteFile(f.cert, cert, 0o600), os.WriteFile(f.key, key, 0o600)); err != nil {
		f.t.Fatal(err)
	}
}

func TestCertificate_ABrokenPairLeavesTheLastInUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		files := newCertificateFiles(t)
		first, second := harness.NewCertificate(t, 1, time.Hour), harness.NewCertificate(t, 2, time.Hour)
		files.write(first.Cert, first.Key)
		var out lockedBuffer
		c, err := openCertificate(files.cert, files.key, newLogger(&out, logText, slog.LevelInfo))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		shows := func(serial int64, well bool, lines int) {
			t.Helper()
			time.Sleep(2 * certificatePoll)
			synctest.Wait()
			if got := c.current.Load().Leaf.SerialNumber.Int64(); got != serial || (c.Err() == nil) != well {
				t.Errorf("shows %d, %v; want %d, well %v", got, c.Err(), serial, well)
			}
			if got := strings.Count(out.String(), "\n"); got != lines {
				t.Errorf("%d lines of log, want %d:\n%s", got, lines, out.String())
			}
		}
		shows(1, true, 0)
		files.write(second.Cert, first.Key) // the other file comes a little later
		shows(1, false, 1)
		files.write(second.Cert, second.Key)
		shows(2, true, 2)
		files.write([]byte("nonsense"), second.Key)
		shows(2, false, 3)
		if err := os.Remove(files.key); err != nil {
			t.Fatal(err)
		}
		shows(2, false, 4)
		files.write(first.Cert, first.Key)
		shows(1, true, 5)
		time.Sleep(2 * time.Hour)
		if err := c.Err(); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("past its time: got %v", err)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if strings.Contains(out.String(), "PRIVATE") {
			t.Errorf("the log has a private key: %s", out.String())
		}
	})
}

func TestApp_AWrongCertificateIsAUsageError(t *testing.T) {
	t.Parallel()
	good, other := harness.NewCertificate(t, 1, time.Hour), harness.NewCertificate(t, 2, time.Hour)
	for name, pair := range map[string][2][]byte{
		"of another key":   {good.Cert, other.Key},
		"the wrong way":    {good.Key, good.Cert},
		"nothing in it":    {nil, nil},
		"no certificate":   {[]byte("x"), good.Key},
		"without the rest": {good.Cert[:len(good.Cert)/2], good.Key},
	} {
		files := newCertificateFiles(t)
		files.write(pair[0], pair[1])
		_, err := openApp(testConfig(t, "--tls-cert", files.cert, "--tls-key", files.key), slog.New(slog.DiscardHandler))
		if exitCode(err) != exitUsage || !strings.Contains(err.Error(), "--tls-cert") {
			t.Errorf("%s: got %v, want a usage error", name, err)
		}
	}
}
