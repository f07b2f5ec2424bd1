package hostile_test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
	"github.com/posthaste-io/posthaste/test/harness"
	"github.com/posthaste-io/posthaste/test/hostile"
)

func TestMain(m *testing.M) {
	code := pgtest.Main(m)
	harness.Clean()
	os.Exit(code)
}

// patience is how long a condition may take to come true on a busy machine.
const patience = 60 * time.Second

// stores are what the pipeline runs on.
var stores = []struct {
	name string
	url  func(testing.TB) string
}{
	{"memory", func(testing.TB) string { return "memory:" }},
	{"badger", func(testing.TB) string { return "badger:data" }},
	{"postgres", pgtest.URL},
}

type object map[string]any

// server is a real one that trusts the endpoints' certificate and may push to loopback.
type server struct {
	*harness.Server
	t *testing.T
}

func start(t *testing.T, store string) *server {
	t.Helper()
	roots := filepath.Join(t.TempDir(), "roots.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hostile.Root()})
	if err := os.WriteFile(roots, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return &server{harness.Start(t, harness.Options{
		Store: store, Env: []string{"SSL_CERT_FILE=" + roots},
		Args: []string{"--egress-allow", "127.0.0.0/8", "--log-level", "warn"},
	}), t}
}

// try makes a call and returns status and answer.
func (s *server) try(method string, request any, headers ...string) (int, []byte) {
	s.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		s.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.URL+"/v1/"+method, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+harness.Key)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatalf("%s: %v", method, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s: %v", method, err)
	}
	return resp.StatusCode, answer
}

// call makes a call that must succeed.
func (s *server) call(method string, request, reply any) {
	s.t.Helper()
	status, answer := s.try(method, request)
	if status != http.StatusOK {
		s.t.Fatalf("%s: status %d: %s", method, status, answer)
	}
	if reply == nil {
		return
	}
	if err := json.Unmarshal(answer, reply); err != nil {
		s.t.Fatalf("%s: %v in %s", method, err, answer)
	}
}

// produce puts one item on a queue.
func (s *server) produce(queue, payload string) (id string) {
	s.t.Helper()
	var reply struct {
		Items []struct {
			ItemID string `json:"item_id"`
		}
	}
	s.call("queue.produce", object{"queue_name": queue, "items": []object{{"utf8": payload}}}, &reply)
	return reply.Items[0].ItemID
}

// attempt is a line of the journal.
type attempt struct {
	Attempt     int32
	Type        string
	Verdict     string
	Status      int
	Error, Next string
	Response    []byte
}

func (s *server) attempts(id string) []attempt {
	s.t.Helper()
	var reply struct{ Items []attempt }
	s.call("attempts.list", object{"item_id": id, "oldest_first": true}, &reply)
	return reply.Items
}

// state is what items.info says.
type state struct {
	State      string
	Why        string
	Attempts   int32
	LastStatus int    `json:"last_status"`
	LastError  string `json:"last_error"`
}

func (s *server) info(id string) state {
	s.t.Helper()
	var reply struct{ Items []state }
	s.call("items.info", object{"item_id": id}, &reply)
	if len(reply.Items) != 1 {
		s.t.Fatalf("item %s is in %d places", id, len(reply.Items))
	}
	return reply.Items[0]
}

// deadReason is why the one item of a dead-letter queue was buried.
func (s *server) deadReason(queue string) string {
	s.t.Helper()
	var reply struct {
		Items []struct{ Dead *struct{ Reason string } }
	}
	s.call("storage/items.list", object{"queue_name": queue}, &reply)
	if len(reply.Items) != 1 || reply.Items[0].Dead == nil {
		s.t.Errorf("%d items on %s, want the one that was buried", len(reply.Items), queue)
		return ""
	}
	return reply.Items[0].Dead.Reason
}

// usage is what a process takes.
type usage struct{ goroutines, memory int }

func (s *server) usage() usage {
	s.t.Helper()
	// Its metrics are up to 15 seconds old.
	resp, err := http.Get(s.AdminURL + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var u usage
	if _, err := fmt.Fscanf(resp.Body, "goroutine profile: total %d\n", &u.goroutines); err != nil {
		s.t.Fatalf("goroutines: %v", err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Pid))
	if err != nil {
		return u // a system without it
	}
	for line := range strings.Lines(string(status)) {
		if kib, found := strings.CutPrefix(line, "RssAnon:"); found {
			n, err := strconv.Atoi(strings.Fields(kib)[0])
			if err != nil {
				s.t.Fatal(err)
			}
			u.memory = n << 10
		}
	}
	return u
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !is() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("after %s: not yet %s", patience, what)
		}
	}
}
