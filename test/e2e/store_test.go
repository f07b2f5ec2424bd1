package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/posthaste-io/posthaste/test/harness"
)

// onDisk starts a server on a Badger store in a directory that outlives it.
func onDisk(t *testing.T, dir string, args ...string) (*harness.Server, *client) {
	t.Helper()
	server := harness.Start(t, harness.Options{Store: "badger:data", Dir: dir, Args: slices.Concat(loopback, args)})
	return server, newClient(t, server.URL)
}

func TestRestart_BadgerKeepsEverything(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newReceiver(t)
	server, c := onDisk(t, dir)
	c.call("queues.create", object{"queue_name": "work", "max_attempts": 7, "reference": "mine"}, nil)
	secret := c.subscribe("pushed", r.URL, object{"paused": true})
	pushedID := c.produce("pushed", object{"utf8": "to push", "kind": "k"})[0]

	leasedID := c.produce("work", object{"utf8": "leased"})[0]
	held := c.lease("work", 1)[0]
	buriedID := c.produce("work", object{"utf8": "bad"})[0]
	c.call("queue.bury", object{"receipts": []string{c.lease("work", 1)[0].Receipt}, "reason": "because"}, nil)
	readyID := c.produce("work", object{"bytes": "AP/+", "kind": "binary", "idempotency_key": "once"})[0]
	c.produce("work", object{"utf8": "in an hour", "delay": "1h"})
	before := c.stats("work")
	server.Stop()

	_, c = onDisk(t, dir)
	if got := c.stats("work"); got != before {
		t.Errorf("stats: got %+v, want %+v as before", got, before)
	}
	var info struct {
		Reference   string
		MaxAttempts int32 `json:"max_attempts"`
	}
	c.call("queues.info", object{"queue_name": "work"}, &info)
	if info.MaxAttempts != 7 || info.Reference != "mine" {
		t.Errorf("settings: got %+v", info)
	}
	if it := c.buried("work~dead"); it.ID != buriedID || it.Dead.Reason != "because" {
		t.Errorf("buried: got %+v, want %s", it, buriedID)
	}
	if again := c.produce("work", object{"bytes": "AP/+", "kind": "binary", "idempotency_key": "once"})[0]; again != readyID {
		t.Errorf("the idempotency key made another item: %s, want %s", again, readyID)
	}
	if it := c.lease("work", 10); len(it) != 1 || it[0].ItemID != readyID || string(it[0].Bytes) != "\x00\xff\xfe" {
		t.Errorf("leased %+v, want %s alone", it, readyID)
	}
	// A receipt outlives the process that gave it.
	if held.ItemID != leasedID {
		t.Fatalf("leased %s, want %s", held.ItemID, leasedID)
	}
	c.call("queue.complete", object{"receipts": []string{held.Receipt}}, nil)
	c.call("subscriptions.resume", object{"name": "pushed"}, nil)
	p := r.next()
	p.verify(t, secret)
	p.expect(t, map[string]string{"webhook-id": pushedID, "posthaste-kind": "k", "posthaste-attempt": "1"})
}

func TestStore_B08_DirectoryInUseNamesItsHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, _ := onDisk(t, dir)
	code, _, stderr := harness.Run(t, harness.Options{Dir: dir},
		"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--store", "badger:data")
	if code != 1 || !strings.Contains(stderr, strconv.Itoa(server.Pid)) {
		t.Errorf("got code %d: %s; want 1, naming process %d", code, stderr, server.Pid)
	}
}

func TestStore_B05_NearlyFullDiskTakesNothingNewAndSettles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, c := onDisk(t, dir)
	c.call("queues.create", object{"queue_name": "work"}, nil)
	c.produce("work", object{"utf8": "a"}, object{"utf8": "b"})
	server.Stop()

	// Twice what is free is nearly full; four times would be full.
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	_, c = onDisk(t, dir, "--min-free-disk", strconv.FormatUint(2*disk.Bavail*uint64(disk.Bsize), 10))
	c.refused(http.StatusInsufficientStorage, "disk_full", "queue.produce",
		object{"queue_name": "work", "items": []object{{"utf8": "c"}}})
	items := c.lease("work", 2)
	c.call("queue.complete", object{"receipts": []string{items[0].Receipt}}, nil)
	c.call("queue.retry", object{"items": []object{{"id": items[1].Receipt, "delay": "1h"}}}, nil)
	if s := c.stats("work"); s.Total != 1 || s.Scheduled != 1 {
		t.Errorf("got %+v, want the retried item alone", s)
	}
}

// Badger itself would open the older log in silence: what was acknowledged since then
// would be gone without a word.
func TestStore_B02_MissingCommitsAreRefusedWithTheirNumber(t *testing.T) {
	t.Parallel()
	dir, older := t.TempDir(), filepath.Join(t.TempDir(), "older")
	server, c := onDisk(t, dir)
	c.call("queues.create", object{"queue_name": "work"}, nil)
	c.produce("work", object{"utf8": "kept"})
	server.Stop()
	data := filepath.Join(dir, "data")
	if err := os.CopyFS(older, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	server, c = onDisk(t, dir)
	for range 3 {
		c.produce("work", object{"utf8": "lost"})
	}
	server.Stop()
	// What knows how far the log went survives; the log is the older one.
	highwater, err := os.ReadFile(filepath.Join(data, "highwater"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(older, "highwater"), highwater, 0o600); err != nil {
		t.Fatal(err)
	}

	serve := []string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--store", "badger://" + older}
	code, _, stderr := harness.Run(t, harness.Options{}, serve...)
	missing := regexp.MustCompile(`([0-9]+) commits are missing`).FindStringSubmatch(stderr)
	if code != 1 || missing == nil || !strings.Contains(stderr, "--accept-data-loss") {
		t.Fatalf("got code %d: %s; want 1, the number and the way on", code, stderr)
	}
	if n, err := strconv.Atoi(missing[1]); err != nil || n < 3 {
		t.Errorf("%s commits are missing, want 3 at least, one a call", missing[1])
	}
	again := harness.Start(t, harness.Options{Store: "badger://" + older, Args: []string{"--accept-data-loss"}})
	if s := newClient(t, again.URL).stats("work"); s.Total != 1 {
		t.Errorf("opened with %d items, want the one that is left", s.Total)
	}
}
