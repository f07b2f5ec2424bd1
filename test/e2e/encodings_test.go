package e2e_test

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/posthaste-io/posthaste/api/openapi"
	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/test/harness"
)

const (
	jsonType     = "application/json"
	protobufType = "application/protobuf"
)

// speaker makes the calls of a list in one encoding, on a server of its own, and keeps
// what later calls need of earlier answers.
type speaker struct {
	*client
	media string
	// ids are of the items that were produced, receipts of those that were leased.
	ids, receipts []string
	// head is that of an ordering key.
	head string
}

// spoken is an answer with what HTTP says of it.
type spoken struct {
	status     int
	retryAfter string
	message    proto.Message
}

// ask makes a call and wants its answer in another encoding, or in the same.
func (s *speaker) ask(c *encodingCall, request proto.Message, answerIn string) spoken {
	s.t.Helper()
	var body []byte
	var err error
	if s.media == protobufType {
		body, err = proto.Marshal(request)
	} else {
		body, err = protojson.MarshalOptions{UseProtoNames: true}.Marshal(request)
	}
	if err != nil {
		s.t.Fatalf("%s: %v", c.name, err)
	}
	return s.send(c, "/v1/"+c.method, body, map[string]string{"Content-Type": s.media, "Accept": answerIn}, answerIn)
}

func (s *speaker) send(c *encodingCall, path string, body []byte, headers map[string]string, answerIn string) spoken {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if got := resp.Header.Get("Content-Type"); got != answerIn {
		s.t.Fatalf("%s: the answer is %s, want %s: %q", c.name, got, answerIn, raw)
	}
	m := c.reply.ProtoReflect().New().Interface()
	if resp.StatusCode >= http.StatusBadRequest && !isSettle(m) {
		m = new(v1.Reply)
	}
	unmarshal := protojson.Unmarshal
	if answerIn == protobufType {
		unmarshal = proto.Unmarshal
	}
	if err := unmarshal(raw, m); err != nil {
		s.t.Fatalf("%s: %v in %q", c.name, err, raw)
	}
	if len(m.ProtoReflect().GetUnknown()) > 0 {
		s.t.Errorf("%s: the answer has fields that its message has not: %v", c.name, m)
	}
	return spoken{resp.StatusCode, resp.Header.Get("Retry-After"), m}
}

// isSettle says whether a refusal may be more than a Reply: those of receipts are named.
func isSettle(m proto.Message) bool {
	_, ok := m.(*v1.SettleReply)
	return ok
}

// Two servers are asked the same, one in JSON and one in protobuf: whatever differs but
// for what is made anew each time, such as ids, comes from the encoding.
func TestEncodings_AnswersAreEqualCallByCall(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			speakers := make([]*speaker, 0, 2)
			for _, media := range []string{jsonType, protobufType} {
				server := harness.Start(t, harness.Options{Store: store.url(t), Args: loopback})
				speakers = append(speakers, &speaker{client: newClient(t, server.URL), media: media})
			}
			for i := range encodingCalls {
				c := &encodingCalls[i]
				answers := make([]spoken, len(speakers))
				for j, s := range speakers {
					request := c.request(s)
					answers[j] = s.ask(c, request, s.media)
					if c.then != nil && answers[j].status == http.StatusOK {
						c.then(s, answers[j].message)
					}
					if c.reads {
						s.sameInOther(c, request, answers[j])
					}
				}
				compare(t, c, answers)
			}
			rawAnswers(t, speakers)
		})
	}
}

// sameInOther asks for what was read in the other encoding, from the same server, where
// even ids and instants are the same.
func (s *speaker) sameInOther(c *encodingCall, request proto.Message, first spoken) {
	s.t.Helper()
	other := jsonType
	if s.media == jsonType {
		other = protobufType
	}
	second := s.ask(c, request, other)
	a, b := forgetNow(first.message), forgetNow(second.message)
	if first.status != second.status || !proto.Equal(a, b) {
		s.t.Errorf("%s: %s in %s, but %d %v in %s", c.name, a, s.media, second.status, b, other)
	}
}

func compare(t *testing.T, c *encodingCall, answers []spoken) {
	t.Helper()
	inJSON, inProto := answers[0], answers[1]
	a, b := alike(inJSON.message), alike(inProto.message)
	if inJSON.status != c.status {
		// Later calls need what this one should have answered.
		t.Fatalf("%s: got %d %v, want %d", c.name, inJSON.status, inJSON.message, c.status)
	}
	if inJSON.status != inProto.status || inJSON.retryAfter != inProto.retryAfter || !proto.Equal(a, b) {
		t.Errorf("%s: in JSON %d %v\nin protobuf %d %v", c.name, inJSON.status, a, inProto.status, b)
	}
}

// rawAnswers is for raw items, whose type says nothing of the answer's.
func rawAnswers(t *testing.T, speakers []*speaker) {
	t.Helper()
	for _, c := range []encodingCall{
		{name: "a raw item", method: "raw", reply: new(v1.ProduceReply), status: http.StatusCreated},
		{name: "a raw item for no queue", method: "none", reply: new(v1.ProduceReply), status: http.StatusNotFound},
	} {
		answers := make([]spoken, len(speakers))
		for i, s := range speakers {
			if c.status == http.StatusCreated {
				s.call("queues.create", object{"queue_name": c.method}, nil)
			}
			headers := map[string]string{"Content-Type": protobufType, "Accept": s.media}
			answers[i] = s.send(&c, "/v1/produce/"+c.method, []byte("\xff"), headers, s.media)
		}
		compare(t, &c, answers)
	}
}

func TestEncodings_EveryMethodIsCalled(t *testing.T) {
	t.Parallel()
	answered := make(map[string]bool)
	for _, c := range encodingCalls {
		answered[c.method] = answered[c.method] || c.status == http.StatusOK
	}
	// Tests of the document hold it against what the server serves.
	paths := regexp.MustCompile(`(?m)^  /v1/([a-z_./]+):$`).FindAllSubmatch(openapi.Document, -1)
	if len(paths) < 30 {
		t.Fatalf("the document has only %d methods", len(paths))
	}
	for _, path := range paths {
		if method := string(path[1]); !answered[method] {
			t.Errorf("%s has no row in encodingCalls that is answered with 200", method)
		}
	}
}

// forgetNow takes out what is another one a moment later.
func forgetNow(m proto.Message) proto.Message {
	m = proto.Clone(m)
	change(m.ProtoReflect(), func(m protoreflect.Message, fd protoreflect.FieldDescriptor) {
		switch fd.Name() {
		case "average_age", "average_leased_age", "lane":
			m.Clear(fd)
		}
	})
	return m
}

// made are fields whose values are made anew each time.
var made = map[protoreflect.Name]bool{
	"id": true, "item_id": true, "receipt": true, "source_id": true, "cursor": true, "revision": true, "secret": true,
	"duration": true, "node": true,
}

// id is what an item's id looks like within other texts.
var id = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// alike puts a word or one instant in the place of what is made anew each time; what is
// there stays there.
func alike(m proto.Message) proto.Message {
	m = forgetNow(m)
	change(m.ProtoReflect(), func(m protoreflect.Message, fd protoreflect.FieldDescriptor) {
		switch {
		case made[fd.Name()]:
			m.Set(fd, protoreflect.ValueOfString("made"))
		case fd.Kind() == protoreflect.StringKind && !fd.IsList():
			m.Set(fd, protoreflect.ValueOfString(id.ReplaceAllString(m.Get(fd).String(), "made")))
		case !isTimestamp(fd):
		case fd.IsList():
			for i := range m.Get(fd).List().Len() {
				m.Mutable(fd).List().Set(i, protoreflect.ValueOfMessage(new(timestamppb.Timestamp).ProtoReflect()))
			}
		default:
			m.Set(fd, protoreflect.ValueOfMessage(new(timestamppb.Timestamp).ProtoReflect()))
		}
	})
	return m
}

func isTimestamp(fd protoreflect.FieldDescriptor) bool {
	return fd.Message() != nil && fd.Message().FullName() == "google.protobuf.Timestamp"
}

// change calls f for all fields that are set, within other messages too, but for maps.
func change(m protoreflect.Message, f func(protoreflect.Message, protoreflect.FieldDescriptor)) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			return true
		case fd.IsList() && fd.Message() != nil && !isTimestamp(fd):
			for i := range v.List().Len() {
				change(v.List().Get(i).Message(), f)
			}
		case fd.Message() != nil && strings.HasPrefix(string(fd.Message().FullName()), "posthaste."):
			change(v.Message(), f)
		}
		f(m, fd)
		return true
	})
}
