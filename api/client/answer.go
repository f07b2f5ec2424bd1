package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	v1 "github.com/posthaste-io/posthaste/api/v1"
)

const protobuf = "application/protobuf"

// Bounds of what is read, in bytes: more than a server of ours writes.
const (
	maxAnswer  = 256 << 20
	maxRefusal = 1 << 20
)

var errTooLong = errors.New("the answer is longer than any that a posthaste server writes")

// answer is what a server answered, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) isRefusal() bool { return a.status >= http.StatusMultipleChoices }

func (a *answer) mediaType() string {
	media, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return media
}

// receive reads an answer and closes it. A refusal that is too long is cut: it is a page
// of somebody else's.
func receive(resp *http.Response) (*answer, error) {
	defer resp.Body.Close()
	a := &answer{status: resp.StatusCode, header: resp.Header}
	most := int64(maxAnswer)
	if a.isRefusal() {
		most = maxRefusal
	}
	var b bytes.Buffer
	n, err := b.ReadFrom(io.LimitReader(resp.Body, most+1))
	if err == nil && n > most && !a.isRefusal() {
		err = errTooLong
	}
	a.body = b.Bytes()
	return a, err
}

// readAnswer reads the answer of the last try.
func readAnswer(method string, t *tries, reply proto.Message) error {
	a := t.answer
	if a.isRefusal() {
		return refusal(method, a, t)
	}
	err := errors.New("its media type is not " + protobuf)
	if a.mediaType() == protobuf {
		if reply == nil {
			return nil
		}
		err = proto.Unmarshal(a.body, reply)
	}
	if err != nil {
		return &Error{
			Method: method, Status: a.status, Tries: t.n, Uncertain: true,
			Err: fmt.Errorf("the answer cannot be read; is this the URL of a posthaste server? %w", err),
		}
	}
	return nil
}

// refusal reads an answer that is none of success. What no posthaste server wrote,
// such as a proxy's page, has no word.
func refusal(method string, a *answer, t *tries) *Error {
	e := &Error{
		Method: method, Status: a.status, RequestID: a.header.Get("X-Request-Id"),
		RetryAfter: retryAfter(a.header), Tries: t.n, Uncertain: t.uncertain,
	}
	reply := new(v1.SettleReply) // its first four fields are those of every refusal
	if readRefusal(a, reply) && reply.GetCodeText() != "" {
		e.CodeText, e.Message, e.Details = reply.GetCodeText(), reply.GetMessage(), reply.GetDetails()
		e.Results = settleResults(reply.GetResults())
		e.Uncertain = e.Uncertain || e.CodeText == CodeUnknownOutcome
		return e
	}
	e.Message = fmt.Sprintf("status %d %s, not from a posthaste server", a.status, http.StatusText(a.status))
	return e
}

// readRefusal reads either encoding: a server that could not make out what was asked
// for answers JSON.
func readRefusal(a *answer, reply proto.Message) bool {
	switch a.mediaType() {
	case protobuf:
		return proto.Unmarshal(a.body, reply) == nil
	case "application/json":
		return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(a.body, reply) == nil
	default:
		return false
	}
}
