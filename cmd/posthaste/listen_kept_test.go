package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/posthaste-io/posthaste/api/client"
	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/webhooks"
)

func TestShare_IsANumberOrPercent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]share{"0.3": 0.3, "30%": 0.3, "1": 1, "100%": 1, "0": 0} {
		var s share
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%q: got %v, %v; want %v", text, s, err, want)
		}
	}
	for _, text := range []string{"", "%", "x", "30 %"} {
		if err := new(share).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	for _, fail := range []string{"-1", "101%", "NaN"} {
		c := listenCommand{Status: 503}
		if err := c.Fail.UnmarshalText([]byte(fail)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.endpoint(nil); err == nil || !strings.Contains(err.Error(), "--fail") {
			t.Errorf("--fail %s: got %v", fail, err)
		}
	}
}

// batch is a request with two items, in one of the encodings.
func batch(encode func([]webhooks.BatchItem) (string, []byte)) (body string, headers map[string]string) {
	kind, text := encode([]webhooks.BatchItem{
		{ID: "item-1", Kind: "a", Attempt: 1, MaxAttempts: 12, Payload: []byte("one\x1b")},
		{ID: "item-2", Attempt: 3, Payload: []byte("\xff")},
	})
	return string(text), map[string]string{"Content-Type": kind, "webhook-id": "batch-1", "posthaste-queue": "orders", "posthaste-subscription": "shop"}
}

func TestListen_PrintsEachItemOfABatch(t *testing.T) {
	t.Parallel()
	for name, encode := range map[string]func([]webhooks.BatchItem) (string, []byte){
		"json": webhooks.EncodeBatchJSON, "multipart": webhooks.EncodeBatchMultipart,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, headers := batch(encode)
			resp, out := receive(t, listenCommand{Status: 503}, body, headers)
			if resp.StatusCode != 200 || !strings.Contains(out, `item-1  a  attempt 1 of 12  one\u001b`) || !strings.Contains(out, `item-2  attempt 3  \xff`) ||
				!strings.Contains(out, "2 items") || strings.Contains(out, "\x1b") {
				t.Errorf("got %d and\n%s", resp.StatusCode, out)
			}
		})
	}
}

func TestListen_FailsItemsOfABatch(t *testing.T) {
	t.Parallel()
	body, headers := batch(webhooks.EncodeBatchJSON)
	resp, out := receive(t, listenCommand{Status: 503, Fail: 1, RetryAfter: 3 * time.Second}, body, headers)
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	failed, err := webhooks.DecodeFailed(answer.Bytes(), false)
	if err != nil || resp.StatusCode != 200 || len(failed) != 2 || failed["item-1"].RetryAfter != 3*time.Second || !strings.Contains(out, "200, 2 of 2 items failed") {
		t.Errorf("got %d, %v, %v and\n%s", resp.StatusCode, failed, err, out)
	}
}

func TestListen_LogsEachRequestBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	push := map[string]string{"webhook-id": "id-7", "posthaste-attempt": "2", "posthaste-kind": "k\"", "posthaste-subscription": "shop"}
	receive(t, listenCommand{Status: 500, Fail: 1, Log: path}, "x", push)
	body, headers := batch(webhooks.EncodeBatchJSON)
	receive(t, listenCommand{Status: 500, Log: path}, body, headers)
	receive(t, listenCommand{Status: 500, Log: path, Secret: []string{webhooks.NewSecret()}}, "x", nil)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []requestLine
	for line := range strings.Lines(string(text)) {
		var l requestLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		lines = append(lines, l)
	}
	if len(lines) != 3 {
		t.Fatalf("got %d lines, want one for each of three requests:\n%s", len(lines), text)
	}
	if l := lines[0]; l.WebhookID != "id-7" || l.Attempt != 2 || l.Status != 500 || l.Kind != `k"` || l.Subscription != "shop" || l.Path != "/hook?x=1" || l.At.IsZero() {
		t.Errorf("a refused one: got %+v", l)
	}
	if l := lines[1]; l.Status != 200 || len(l.Items) != 2 || l.Items[1] != (batchLine{"item-2", 3, false}) {
		t.Errorf("a batch: got %+v", l)
	}
	if l := lines[2]; l.Status != 401 || l.Signature != "UNSIGNED" {
		t.Errorf("an unsigned one: got %+v", l)
	}
}

func TestListen_AnswersNothingThatItCannotLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	term, _ := newTerminal(t.Context(), &out)
	c := listenCommand{Status: 503, Log: filepath.Join(t.TempDir(), "log")}
	e, err := c.endpoint(term)
	if err != nil {
		t.Fatal(err)
	}
	e.close() // as a disk that is gone
	var stopped error
	e.stop = func(err error) { stopped = err }
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x")))
	if w.Code != http.StatusInternalServerError || !errors.Is(stopped, errLog) {
		t.Errorf("answered %d, and stopped by %v", w.Code, stopped)
	}
}

// keeper is a server that takes receipts.
type keeper struct {
	mu    sync.Mutex
	calls []string
	// refuse has it refuse what completes.
	refuse bool
}

// RoundTrip implements [http.RoundTripper].
func (k *keeper) RoundTrip(r *http.Request) (*http.Response, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := httptest.NewRecorder()
	method := strings.TrimPrefix(r.URL.Path, "/v1/")
	if r.Header.Get("Authorization") != "" {
		method += " with a key"
	}
	k.calls = append(k.calls, method)
	reply := &v1.SettleReply{Results: []*v1.Settled{{Status: "ok", LeaseDeadline: timestamppb.New(time.Now().Add(10 * time.Minute))}}}
	if k.refuse {
		w.Code = http.StatusConflict
		reply = &v1.SettleReply{Code: 409, CodeText: client.CodeStaleLease, Message: "too late"}
	}
	body, err := proto.Marshal(reply)
	w.Header().Set("Content-Type", "application/protobuf")
	w.Body.Write(body)
	return w.Result(), err
}

// held runs a later that keeps an item for so long, and returns what it called and when
// that was done, and what it printed.
func held(t *testing.T, k *keeper, lease, after, stop time.Duration) (calls []string, out string, kept int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		term, _ := newTerminal(t.Context(), &text)
		cl, err := client.New(client.Options{URL: "http://server.example", HTTP: &http.Client{Transport: k}, Tries: 1})
		if err != nil {
			t.Fatal(err)
		}
		l := newLater(cl, term)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			l.run(ctx)
		}()
		now := time.Now()
		l.keep(keptItem{"item-1", "r-1", now.Add(lease), now.Add(after)})
		<-time.After(stop)
		cancel()
		<-ended
		calls, out, kept = k.calls, text.String(), l.kept.Load()
	})
	return calls, out, kept
}

func TestListen_CompletesWhatItKeptByTheReceiptAlone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name               string
		lease, after, stop time.Duration
		refuse             bool
		calls              string
		want               string
		kept               int64
	}{
		{"within its time", 15 * time.Minute, time.Minute, time.Minute + 1, false, "queue.complete", "item-1 completed", 0},
		{"after more time", time.Minute, 5 * time.Minute, 5*time.Minute + 1, false, "queue.extend queue.complete", "item-1 completed", 0},
		{"too late", time.Hour, time.Minute, time.Minute + 1, true, "queue.complete", "not completed: posthaste: queue.complete: stale_lease: too late", 1},
		{"stopped before", 15 * time.Minute, time.Minute, time.Second, false, "", "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			calls, out, kept := held(t, &keeper{refuse: tt.refuse}, tt.lease, tt.after, tt.stop)
			if strings.Join(calls, " ") != tt.calls || !strings.Contains(out, tt.want) || tt.want == "" && out != "" || kept != tt.kept {
				t.Errorf("called %q, %d still kept, and printed %q", calls, kept, out)
			}
		})
	}
}

func TestListen_KeepsWhatComesWithAReceipt(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	term, _ := newTerminal(t.Context(), &out)
	c := listenCommand{Status: 503, Defer: time.Minute, URL: "http://127.0.0.1:1"}
	e, err := c.endpoint(term)
	if err != nil {
		t.Fatal(err)
	}
	close(e.later.ended) // nobody completes it here
	send := func(headers map[string]string) *http.Response {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x"))
		for name, value := range headers {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		return w.Result()
	}
	resp := send(map[string]string{"posthaste-receipt": "r-1", "posthaste-lease-deadline": "2030-01-31T08:00:00Z"})
	if resp.StatusCode != http.StatusAccepted || resp.Header.Get("posthaste-lease") != "keep" || e.later.kept.Load() != 1 || !strings.Contains(out.String(), "202, kept for 1m0s") {
		t.Errorf("with a receipt: got %d and\n%s", resp.StatusCode, out.String())
	}
	if resp := send(nil); resp.StatusCode != http.StatusOK || resp.Header.Get("posthaste-lease") != "" || e.later.kept.Load() != 1 {
		t.Errorf("without one: got %d; want it taken at once", resp.StatusCode)
	}
}
