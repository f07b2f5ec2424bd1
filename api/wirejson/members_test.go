package wirejson_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/api/wirejson"
	"github.com/posthaste-io/posthaste/queue"
)

func TestObject_GivesValuesAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	members, err := wirejson.Object([]byte(" {\"a\" : {\"x\":[ ],\n\"x\":{}} ,\"\\u0062\":\"\\u20ac\",\"c\":-1.50e+3, \"\":null,\"d\":[[],[1,{\"y\":[true]}]]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range members {
		got = append(got, m.Name+"="+string(m.Value))
	}
	want := []string{"a={\"x\":[ ],\n\"x\":{}}", `b="\u20ac"`, "c=-1.50e+3", "=null", `d=[[],[1,{"y":[true]}]]`}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if text, ok := members[1].Value.Text(); !ok || text != "€" {
		t.Errorf("got %q, %v", text, ok)
	}
	if _, ok := members[2].Value.Text(); ok || !members[3].Value.IsNull() || members[0].Value.Kind() != "an object" {
		t.Error("a number is a text, or null is none, or an object is something else")
	}
	if members, err := wirejson.Object([]byte("{ }")); err != nil || members != nil {
		t.Errorf("empty: got %v, %v", members, err)
	}
}

func TestList_GivesValuesAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{`[]`: nil, ` [ ] `: nil, `[{"a":[1 ]}, "x",null]`: {`{"a":[1 ]}`, `"x"`, `null`}} {
		values, err := wirejson.List([]byte(text))
		var got []string
		for _, v := range values {
			got = append(got, string(v))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v", text, got, err)
		}
	}
	for text, field := range map[string]string{`[1,]`: "[1]", `[1 2]`: "[0]", `[`: "[0]", `{}`: "", `[] []`: "", ``: "body", `[1,"` + "\xff" + `"]`: "[1]"} {
		_, err := wirejson.List([]byte(text))
		if e, ok := errors.AsType[*queue.InvalidError](err); !ok || e.Field != field {
			t.Errorf("%s: got %v, want field %q", text, err, field)
		}
	}
	_, err := wirejson.List([]byte("[" + strings.Repeat("1,", wirejson.MaxList) + "1]"))
	if _, ok := errors.AsType[*queue.TooLargeError](err); !ok {
		t.Errorf("got %v, want it to be too large", err)
	}
}

// What is taken is JSON, and the library of Go reads the same names and values.
func FuzzObject(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":null}],"c":"\ud83d\ude00","d":-0.5e-3}`))
	f.Add([]byte(`[{"a":true},[],"x"]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if members, err := wirejson.Object(data); err == nil {
			var want map[string]json.RawMessage
			if err := json.Unmarshal(data, &want); err != nil || len(want) != len(members) {
				t.Fatalf("%q: got %q, but it is %q, %v", data, members, want, err)
			}
			for _, m := range members {
				if string(want[m.Name]) != string(m.Value) {
					t.Errorf("%q: %q is %q, want %q", data, m.Name, m.Value, want[m.Name])
				}
			}
		}
		if values, err := wirejson.List(data); err == nil {
			var want []json.RawMessage
			if err := json.Unmarshal(data, &want); err != nil || len(want) != len(values) {
				t.Fatalf("%q: got %q, but it is %q, %v", data, values, want, err)
			}
		}
	})
}
