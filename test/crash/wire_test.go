package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/posthaste-io/posthaste/test/harness"
	"github.com/posthaste-io/posthaste/test/recorder"
)

// answer is what the wire says of an error, and of any call's success.
type answer struct {
	Code     int    `json:"code"`
	CodeText string `json:"code_text"`
	Message  string `json:"message"`
}

type produceItem struct {
	Bytes          []byte `json:"bytes"`
	Kind           string `json:"kind,omitempty"`
	Delay          string `json:"delay,omitempty"`
	EnqueueAt      string `json:"enqueue_at,omitempty"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`
}

type produceRequest struct {
	QueueName string        `json:"queue_name"`
	Items     []produceItem `json:"items"`
}

type produceReply struct {
	Items []struct {
		ItemID    string `json:"item_id"`
		Duplicate bool   `json:"duplicate"`
	} `json:"items"`
	Durable bool `json:"durable"`
}

type leaseRequest struct {
	QueueName      string `json:"queue_name"`
	BatchSize      int    `json:"batch_size"`
	ClientID       string `json:"client_id"`
	RequestTimeout string `json:"request_timeout"`
	LeaseTimeout   string `json:"lease_timeout"`
}

type leaseReply struct {
	Items []struct {
		ItemID        string    `json:"item_id"`
		Receipt       string    `json:"receipt"`
		Attempts      int32     `json:"attempts"`
		LeaseDeadline time.Time `json:"lease_deadline"`
		Bytes         []byte    `json:"bytes"`
	} `json:"items"`
}

type extendReply struct {
	Results []struct {
		Status        string    `json:"status"`
		LeaseDeadline time.Time `json:"lease_deadline"`
	} `json:"results"`
}

type settleRequest struct {
	QueueName    string      `json:"queue_name"`
	Receipts     []string    `json:"receipts,omitempty"`
	Items        []retryItem `json:"items,omitempty"`
	Delay        string      `json:"delay,omitempty"`
	Reason       string      `json:"reason,omitempty"`
	LeaseTimeout string      `json:"lease_timeout,omitempty"`
}

type retryItem struct {
	ID    string `json:"id"`
	Delay string `json:"delay,omitempty"`
}

// client makes calls to whatever node listens at the moment.
type client struct {
	http    *http.Client
	cluster *cluster
}

func newClient(c *cluster) *client {
	return &client{cluster: c, http: &http.Client{
		Timeout: 20 * time.Second,
		// Nothing is sent twice behind our back: the transport repeats a POST only where
		// no byte of it was written.
		Transport: &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true},
	}}
}

var (
	// errOdd is an answer that no fault of the test explains.
	errOdd = errors.New("unexpected answer")
	// errConflict is an answer of 409: asking again changes nothing.
	errConflict = errors.New("conflict")
	// errMissing is an answer of 404.
	errMissing = errors.New("missing")
	// errRefused is an answer of 503 or 429 that says that nothing was done.
	errRefused = errors.New("refused")
)

// call sends one request and says what is known of its outcome. It waits for a
// node that listens, but tries only once. The error is for people, except
// that it is an [errOdd] where the server misbehaved.
func (c *client) call(ctx context.Context, method string, request, reply any) (recorder.Phase, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return recorder.Fail, fmt.Errorf("%s: %w", method, err)
	}
	base, err := c.cluster.url(ctx)
	if err != nil {
		return recorder.Fail, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/"+method, bytes.NewReader(body))
	if err != nil {
		return recorder.Fail, fmt.Errorf("%s: %w", method, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+harness.Key)
	res, err := c.http.Do(req)
	if err != nil {
		var dial *net.OpError
		if errors.As(err, &dial) && dial.Op == "dial" {
			pause(ctx, 5*time.Millisecond)
			return recorder.Fail, err
		}
		return recorder.Unknown, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return recorder.Unknown, fmt.Errorf("%s: %w", method, err)
	}
	if res.StatusCode == http.StatusServiceUnavailable {
		// Those who ask again at once would only keep the nodes from recovering.
		pause(ctx, 20*time.Millisecond)
	}
	return read(method, res.StatusCode, text, reply)
}

// read judges an answer that came whole.
func read(method string, status int, text []byte, reply any) (recorder.Phase, error) {
	if status == http.StatusOK {
		if err := json.Unmarshal(text, reply); err != nil {
			return recorder.Unknown, fmt.Errorf("%w: %s: %w: %.300s", errOdd, method, err, text)
		}
		return recorder.OK, nil
	}
	var said answer
	if err := json.Unmarshal(text, &said); err != nil {
		return recorder.Unknown, fmt.Errorf("%w: %s: %d: %.300s", errOdd, method, status, text)
	}
	err := fmt.Errorf("%s: %d %s: %s", method, status, said.CodeText, said.Message)
	switch {
	case said.CodeText == "unknown_outcome":
		return recorder.Unknown, err
	case status == http.StatusConflict:
		return recorder.Fail, fmt.Errorf("%w: %w", errConflict, err)
	case status == http.StatusNotFound:
		return recorder.Fail, fmt.Errorf("%w: %w: %w", errOdd, errMissing, err)
	case status == http.StatusServiceUnavailable, status == http.StatusTooManyRequests:
		return recorder.Fail, fmt.Errorf("%w: %w", errRefused, err)
	default:
		return recorder.Unknown, fmt.Errorf("%w: %w", errOdd, err)
	}
}

// pause waits as long as a worker would work or rest; it ends early with ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
