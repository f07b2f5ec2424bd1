package openapi_test

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi/datamodel/high/base"
	"google.golang.org/protobuf/reflect/protoreflect"

	v1 "github.com/posthaste-io/posthaste/api/v1"
)

// files are those of the messages.
var files = []protoreflect.FileDescriptor{
	v1.File_posthaste_v1_common_proto, v1.File_posthaste_v1_queue_proto, v1.File_posthaste_v1_queues_proto,
	v1.File_posthaste_v1_storage_proto, v1.File_posthaste_v1_items_proto, v1.File_posthaste_v1_subscriptions_proto, v1.File_posthaste_v1_attempts_proto,
	v1.File_posthaste_v1_schedules_proto,
	v1.File_posthaste_v1_topics_proto,
}

// ownSchemas are those that no message is: values, and what is said of the server.
var ownSchemas = []string{"Protobuf", "Name", "Duration", "ItemId", "Receipt", "CodeText", "Health", "HealthCheck", "NewTopic"}

func TestDocument_SchemasAreTheMessages(t *testing.T) {
	t.Parallel()
	schemas := model(t).Components.Schemas
	known := map[string]bool{}
	for _, file := range files {
		messages := file.Messages()
		for i := range messages.Len() {
			m := messages.Get(i)
			name := string(m.Name())
			known[name] = true
			schema := schemas.GetOrZero(name)
			if schema == nil {
				t.Errorf("message %s has no schema", name)
				continue
			}
			checkMessage(t, m, schema.Schema())
		}
	}
	for name := range schemas.KeysFromOldest() {
		if !known[name] && !slices.Contains(ownSchemas, name) {
			t.Errorf("schema %s is no message", name)
		}
	}
}

func checkMessage(t *testing.T, m protoreflect.MessageDescriptor, schema *base.Schema) {
	t.Helper()
	if !slices.Equal(schema.Type, []string{"object"}) {
		t.Errorf("%s has type %v", m.Name(), schema.Type)
	}
	fields := m.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		property := schema.Properties.GetOrZero(string(fd.Name()))
		if property == nil {
			t.Errorf("%s.%s is not in the document", m.Name(), fd.Name())
			continue
		}
		if want, got := typeOfField(fd), typeOfProperty(t, property); got != want {
			t.Errorf("%s.%s is %s in the document, want %s", m.Name(), fd.Name(), got, want)
		}
	}
	for name := range schema.Properties.KeysFromOldest() {
		if fields.ByName(protoreflect.Name(name)) == nil {
			t.Errorf("%s.%s is in the document, and no field", m.Name(), name)
		}
	}
	for _, name := range schema.Required {
		if fields.ByName(protoreflect.Name(name)) == nil {
			t.Errorf("%s wants %s, which is no field", m.Name(), name)
		}
	}
	if strings.HasSuffix(string(m.Name()), "Reply") {
		checkRequired(t, m, schema)
	}
}

// checkRequired: lists, numbers and booleans are written always, so readers need not
// ask whether they are there.
func checkRequired(t *testing.T, m protoreflect.MessageDescriptor, schema *base.Schema) {
	t.Helper()
	fields := m.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		always := fd.IsList()
		switch fd.Kind() {
		case protoreflect.BoolKind, protoreflect.Int32Kind, protoreflect.DoubleKind:
			always = always || !fd.HasPresence()
		}
		if always && !slices.Contains(schema.Required, string(fd.Name())) {
			t.Errorf("%s.%s is always there, and not required", m.Name(), fd.Name())
		}
	}
}

// typeOfField and typeOfProperty write types in the same words.
func typeOfField(fd protoreflect.FieldDescriptor) string {
	if fd.IsMap() {
		return "map of string"
	}
	kind := fd.Kind().String()
	if fd.Kind() == protoreflect.MessageKind {
		kind = string(fd.Message().Name())
	}
	if fd.IsList() {
		return "list of " + kind
	}
	return kind
}

// target returns the schema that a reference names, for which the reader has what
// stands beside the reference; others are their own.
func target(t *testing.T, p *base.SchemaProxy) *base.Schema {
	t.Helper()
	if p.GetReference() == "" {
		return p.Schema()
	}
	named := model(t).Components.Schemas.GetOrZero(nameOf(p))
	if named == nil {
		t.Fatalf("%s is not in the document", p.GetReference())
	}
	return named.Schema()
}

// nameOf is the name of a schema that p refers to.
func nameOf(p *base.SchemaProxy) string { return path.Base(p.GetReference()) }

func typeOfProperty(t *testing.T, p *base.SchemaProxy) string {
	t.Helper()
	s := target(t, p)
	if len(s.Type) == 0 && len(s.AllOf) == 1 {
		return typeOfProperty(t, s.AllOf[0]) // a message that is closed here
	}
	kind := ""
	if len(s.Type) == 1 {
		kind = s.Type[0]
	}
	switch {
	case kind == "string" && s.Format == "date-time":
		return "Timestamp"
	case kind == "string" && s.ContentEncoding == "base64":
		return "bytes"
	case kind == "string":
		return "string"
	case kind == "boolean":
		return "bool"
	case kind == "integer" && s.Format == "int32":
		return "int32"
	case kind == "number" && s.Format == "double":
		return "double"
	case kind == "array":
		return "list of " + typeOfProperty(t, s.Items.A)
	case kind == "object" && p.GetReference() != "":
		return nameOf(p)
	case kind == "object" && s.AdditionalProperties != nil && s.AdditionalProperties.IsA():
		return "map of " + typeOfProperty(t, s.AdditionalProperties.A)
	}
	return "of an unknown type: " + strings.Join(s.Type, ", ") + " " + s.Format
}

// A request's unknown fields are refused, and the document says so wherever a message
// stands that a request may have.
func TestDocument_RequestsAreClosed(t *testing.T) {
	t.Parallel()
	for _, op := range operations(t) {
		if op.RequestBody == nil {
			continue
		}
		if media := op.RequestBody.Content.GetOrZero("application/json"); media != nil {
			checkClosed(t, op.OperationId, media.Schema)
		}
	}
}

func checkClosed(t *testing.T, where string, p *base.SchemaProxy) {
	t.Helper()
	s := target(t, p)
	closed := s.AdditionalProperties != nil && s.AdditionalProperties.IsB() && !s.AdditionalProperties.B ||
		s.UnevaluatedProperties != nil && s.UnevaluatedProperties.IsB() && !s.UnevaluatedProperties.B
	if !closed {
		t.Errorf("%s takes unknown fields", where)
	}
	for name, property := range propertiesOf(t, p) {
		if readOnly := property.Schema().ReadOnly; readOnly != nil && *readOnly {
			continue // requests are not read for it
		}
		inner := target(t, property)
		if slices.Equal(inner.Type, []string{"array"}) {
			property = inner.Items.A
		}
		if len(propertiesOf(t, property)) > 0 {
			checkClosed(t, where+"."+name, property)
		}
	}
}

// propertiesOf are a message's, as the place where it stands has them.
func propertiesOf(t *testing.T, p *base.SchemaProxy) map[string]*base.SchemaProxy {
	t.Helper()
	s := target(t, p)
	found := map[string]*base.SchemaProxy{}
	for _, part := range s.AllOf {
		maps.Copy(found, propertiesOf(t, part))
	}
	for name, property := range s.Properties.FromOldest() {
		found[name] = property
	}
	return found
}
