package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
	"github.com/posthaste-io/posthaste/test/harness"
)

// noKey starts a server as somebody does who has not heard of keys.
var noKey = []string{"POSTHASTE_ROOT_KEY="}

// printedKey finds keys that stand alone on a line.
var printedKey = regexp.MustCompile(`(?m)^pdk_live_[0-9A-Za-z]{12}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$`)

// withKey returns a client with another key; none if it is empty.
func withKey(t *testing.T, url, key string) *client {
	t.Helper()
	c := newClient(t, url)
	c.key = key
	return c
}

func TestA04_AFirstStartPrintsTheOnlyKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := harness.Start(t, harness.Options{Store: "badger:data", Dir: dir, Env: noKey})
	var keys []string
	eventually(t, "printed", func() bool {
		keys = printedKey.FindAllString(server.Stdout(), -1)
		return len(keys) > 0
	})
	create := object{"queue_name": "work"}
	withKey(t, server.URL, "").refused(http.StatusUnauthorized, "unauthenticated", "queues.create", create)
	withKey(t, server.URL, harness.Key).refused(http.StatusUnauthorized, "unauthenticated", "queues.create", create)
	withKey(t, server.URL, keys[0]).call("queues.create", create, nil)
	server.Stop()
	if strings.Count(server.Stdout(), "pdk_") != 1 {
		t.Errorf("printed it more than once:\n%s", server.Stdout())
	}

	again := harness.Start(t, harness.Options{Store: "badger:data", Dir: dir, Env: noKey})
	withKey(t, again.URL, keys[0]).call("queues.info", create, nil)
	again.Stop()
	if strings.Contains(again.Stdout(), "pdk_") {
		t.Errorf("the second start printed a key:\n%s", again.Stdout())
	}

	configured := harness.Start(t, harness.Options{Store: "badger:data", Dir: dir})
	withKey(t, configured.URL, harness.Key).call("queues.info", create, nil)
	withKey(t, configured.URL, keys[0]).refused(http.StatusUnauthorized, "unauthenticated", "queues.info", create)
	for _, log := range []string{server.Log(), again.Log(), configured.Log()} {
		if strings.Contains(log, secretOf(keys[0])) {
			t.Errorf("the key is in the log:\n%s", log)
		}
	}
}

// What a server keeps of a key that it made is the id and a hash.
func TestA01_NoFileOfTheStoreHoldsTheKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := harness.Start(t, harness.Options{Store: "badger:data", Dir: dir, Env: noKey})
	var keys []string
	eventually(t, "printed", func() bool {
		keys = printedKey.FindAllString(server.Stdout(), -1)
		return len(keys) > 0
	})
	id := strings.Split(keys[0], "_")[2]
	server.Stop()
	files, held := 0, false
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		held = held || bytes.Contains(content, []byte(id))
		if bytes.Contains(content, []byte(secretOf(keys[0]))) {
			t.Errorf("%s holds the key", entry.Name())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 || !held {
		t.Errorf("found the key's id in none of %d files, so this looked in the wrong place", files)
	}
}

func TestA04_NodesOfOneDatabaseShareTheKeyThatOnePrinted(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	servers := make([]*harness.Server, 3)
	var started sync.WaitGroup
	for i := range servers {
		started.Go(func() { servers[i] = harness.Start(t, harness.Options{Store: url, Env: noKey}) })
	}
	started.Wait()
	if slices.Contains(servers, nil) {
		t.Fatal("a node did not start")
	}
	var keys []string
	eventually(t, "printed", func() bool {
		for _, server := range servers {
			keys = append(keys, printedKey.FindAllString(server.Stdout(), -1)...)
		}
		return len(keys) > 0
	})
	for _, server := range servers {
		withKey(t, server.URL, keys[0]).call("queues.list", object{}, nil)
		server.Stop()
		if strings.Contains(strings.ReplaceAll(server.Stdout(), keys[0], ""), "pdk_") {
			t.Errorf("printed another key:\n%s", server.Stdout())
		}
	}
}

func TestA04_DevIsOpenOnLoopbackAlone(t *testing.T) {
	t.Parallel()
	open := harness.Start(t, harness.Options{Args: []string{"--dev", "--log-format", "json"}, Env: noKey})
	withKey(t, open.URL, "").call("queues.list", object{}, nil)
	if open.Stdout() != "" {
		t.Errorf("printed %q", open.Stdout())
	}
	keyed := harness.Start(t, harness.Options{Args: []string{"--dev", "--log-format", "json"}})
	withKey(t, keyed.URL, "").refused(http.StatusUnauthorized, "unauthenticated", "queues.list", object{})
	newClient(t, keyed.URL).call("queues.list", object{}, nil)

	code, _, stderr := harness.Run(t, harness.Options{Env: noKey}, "serve", "--dev", "--listen", "0.0.0.0:0", "--allow-plaintext")
	if code != 2 || !strings.Contains(stderr, "POSTHASTE_ROOT_KEY") {
		t.Errorf("off loopback: got code %d: %s; want 2 and the way", code, stderr)
	}
}

func TestA04_OffLoopbackEveryCallNeedsTheKey(t *testing.T) {
	t.Parallel()
	server := harness.Start(t, harness.Options{Store: "memory:", Args: []string{"--listen", "0.0.0.0:0", "--allow-plaintext"}})
	newClient(t, server.URL).call("queues.list", object{}, nil)
	withKey(t, server.URL, "").refused(http.StatusUnauthorized, "unauthenticated", "queues.list", object{})
	resp, err := http.Get(server.URL + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("/livez without a key: got %d, want 200", resp.StatusCode)
	}
}

func TestA10_TheAdminListenerStaysOnLoopback(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		code, _, stderr := harness.Run(t, harness.Options{}, "serve", "--store", "memory:", "--admin-listen", address, "--allow-plaintext")
		if code != 2 || !strings.Contains(stderr, "--admin-listen") {
			t.Errorf("%s: got code %d: %s; want 2", address, code, stderr)
		}
	}
}

func secretOf(key string) string { return strings.Split(key, "_")[3] }

// The key is sent wherever somebody may put it by mistake, and all that the server
// ever wrote is searched for it.
func TestA11_TheKeyIsNowhereInWhatTheServerWrites(t *testing.T) {
	t.Parallel()
	server := harness.Start(t, harness.Options{Store: "badger:data", Args: slices.Concat(loopback, []string{"--log-level", "debug"})})
	c := newClient(t, server.URL)
	r := newReceiver(t)
	key := harness.Key
	typo := key[:len(key)-10] + "0000" + key[len(key)-6:]
	var written strings.Builder
	send := func(verb, path, body string, headers ...string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), verb, path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			req.Header.Add(headers[i], headers[i+1])
		}
		resp, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&written, "%v\n%s\n", resp.Header, text)
		return resp.StatusCode
	}
	c.subscribe("pushed", r.URL, nil)
	c.produce("pushed", object{"utf8": "x"})
	p := r.next()
	fmt.Fprintf(&written, "%v\n", p.header)

	list, produce := server.URL+"/v1/queues.list", server.URL+"/v1/produce/pushed"
	bearer := "Bearer " + key
	for range 30 {
		for _, tt := range []struct {
			status  int
			url     string
			body    string
			headers []string
		}{
			{200, list, "{}", []string{"Authorization", bearer}},
			{401, list, "{}", nil},
			{401, list, "{}", []string{"Authorization", key}},
			{401, list, "{}", []string{"Authorization", "Basic " + key}},
			{401, list, "{}", []string{"Authorization", bearer, "Authorization", bearer}},
			{401, list, "{}", []string{"Authorization", bearer + "x"}},
			{401, list, "{}", []string{"Authorization", "Bearer " + typo}},
			{401, list, "{}", []string{"X-Api-Key", key, "Cookie", "key=" + key}},
			{400, list + "?api_key=" + key, "{}", nil},
			{400, produce + "?" + key, "{}", []string{"Authorization", bearer}},
			{400, list, `{"api_key":"` + key + `"}`, []string{"Authorization", bearer}},
			{400, list, `{"limit":"` + key + `"}`, []string{"Authorization", bearer}},
			{400, produce, "x", []string{"Authorization", bearer, "Posthaste-Key", key}},
			{404, server.URL + "/v1/" + key, "{}", []string{"Authorization", bearer}},
			{415, list, "{}", []string{"Authorization", bearer, "Content-Type", "text/csv"}},
		} {
			if got := send(http.MethodPost, tt.url, tt.body, tt.headers...); got != tt.status {
				t.Errorf("%s with %d headers: got %d, want %d", strings.ReplaceAll(tt.url, key, "<key>"), len(tt.headers)/2, got, tt.status)
			}
		}
	}
	for _, path := range []string{"/livez", "/readyz", "/health"} {
		send(http.MethodGet, server.URL+path, "")
		send(http.MethodGet, server.URL+path, "", "Authorization", bearer)
		send(http.MethodGet, server.AdminURL+path, "", "Authorization", bearer)
	}
	for _, path := range []string{"cmdline", "goroutine?debug=2", "heap?debug=1"} {
		send(http.MethodGet, server.AdminURL+"/debug/pprof/"+path, "")
	}
	for _, args := range [][]string{{"serve", "--help"}, {"--help"}, {"version"}, {"serve", "--root-key", key}} {
		code, stdout, stderr := harness.Run(t, harness.Options{}, args...)
		if wrong := len(args) > 2; wrong != (code == 2) {
			t.Errorf("%d arguments: got code %d", len(args), code)
		}
		written.WriteString(stdout + stderr)
	}
	server.Signal(syscall.SIGQUIT) // the runtime writes all stacks
	server.Wait()
	written.WriteString(server.Stdout() + server.Log())
	for name, text := range map[string]string{"the key": secretOf(key), "the mistyped key": secretOf(typo)} {
		if at := strings.Index(written.String(), text); at >= 0 {
			t.Errorf("%s was written: …%s…", name, written.String()[max(0, at-300):at+len(text)])
		}
	}
	if !strings.Contains(server.Log(), `"key_id":"`+strings.Split(key, "_")[2]+`"`) {
		t.Error("the log does not say whose calls these were")
	}
}
