package apikeys_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/apikeys"
)

func newKey(t *testing.T) apikeys.Key {
	t.Helper()
	k, err := apikeys.New("live")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The text was made by another implementation of the format (Python's zlib.crc32):
// whoever changes the encoding breaks the keys that are out there.
const fixed = "pdk_live_0123456789AB_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg_410uOj"

func TestA01_KeyHasItsForm(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^pdk_live_[0-9A-Za-z]{12}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$`)
	seen := map[string]bool{}
	for range 1000 {
		k := newKey(t)
		text := k.Reveal()
		if !form.MatchString(text) || seen[k.ID()] {
			t.Fatalf("%q: not the form, or an id that came before", text)
		}
		seen[k.ID()] = true
		if read, err := apikeys.Parse(text); err != nil || read != k {
			t.Fatalf("%q is read as %q, %v", text, read.Reveal(), err)
		}
	}
	if k, err := apikeys.Parse(fixed); err != nil || k.ID() != "0123456789AB" || k.Reveal() != fixed {
		t.Errorf("got %v, %v; want the key as it was", k, err)
	}
}

func TestA01_EveryTypingErrorIsSeen(t *testing.T) {
	t.Parallel()
	text := newKey(t).Reveal()
	begin := len("pdk_live_")
	for i := begin; i < len(text); i++ {
		if text[i] == '_' {
			continue
		}
		for _, c := range "0aZ" {
			if byte(c) == text[i] {
				continue
			}
			typo := text[:i] + string(c) + text[i+1:]
			if _, err := apikeys.Parse(typo); !errors.Is(err, apikeys.ErrChecksum) {
				t.Errorf("character %d as %c: got %v, want a typing error", i, c, err)
			}
		}
		if i+1 < len(text) && text[i+1] != '_' && text[i] != text[i+1] {
			swapped := text[:i] + string([]byte{text[i+1], text[i]}) + text[i+2:]
			if _, err := apikeys.Parse(swapped); !errors.Is(err, apikeys.ErrChecksum) {
				t.Errorf("characters %d and %d swapped: got %v, want a typing error", i, i+1, err)
			}
		}
	}
	if _, err := apikeys.Parse(strings.Replace(text, "live", "test", 1)); !errors.Is(err, apikeys.ErrChecksum) {
		t.Errorf("another environment: got %v, want a typing error", err)
	}
}

func TestParse_RefusesWhatIsNoKey(t *testing.T) {
	t.Parallel()
	text := newKey(t).Reveal()
	for _, bad := range []string{
		"", "pdk", "pdk____", text + "x", text[:len(text)-1], " " + text, text + "\n", "PDK" + text[3:], "xyz" + text[3:],
		strings.Replace(text, "live", "LIVE", 1), strings.Replace(text, "live", "", 1),
		strings.Replace(text, "live", "averylongenvironment", 1), strings.Replace(text, "_", "-", 1),
		text + "_x", strings.Replace(text, "live_", "live_é", 1), strings.Repeat("_", 1_000_000),
	} {
		if _, err := apikeys.Parse(bad); !errors.Is(err, apikeys.ErrFormat) {
			t.Errorf("%.100q: got %v, want that it is no key", bad, err)
		}
	}
}

func TestNew_RefusesEnvironmentsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "Live", "a_b", "a-b", "seventeenletters1"} {
		if k, err := apikeys.New(bad); err == nil {
			t.Errorf("%q: made %v", bad, k)
		}
	}
}

func TestA11_KeyDoesNotShowItself(t *testing.T) {
	t.Parallel()
	k := newKey(t)
	secret := strings.Split(k.Reveal(), "_")[3]
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "key", k, "in", []any{k, &k}, "record", k.Record())
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "key", k, "in", []any{k, &k})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+"\n", k)
		fmt.Fprintf(&out, verb+"\n", struct{ K apikeys.Key }{k})
	}
	text, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	if strings.Contains(out.String(), secret) || strings.Contains(out.String(), fmt.Sprintf("%x", secret)) {
		t.Errorf("the secret is in\n%s", out.String())
	}
	if !strings.Contains(out.String(), k.ID()) {
		t.Error("what is shown does not say which key it is")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(fixed)
	f.Add("pdk_live_")
	f.Add(strings.Replace(fixed, "live", "l_ve", 1))
	f.Fuzz(func(t *testing.T, text string) {
		k, err := apikeys.Parse(text)
		if err == nil && (k.Reveal() != text || len(k.ID()) != 12) {
			t.Errorf("%q is read as %q", text, k.Reveal())
		}
		if err != nil && k != (apikeys.Key{}) {
			t.Errorf("%q is refused, and yet %v", text, k)
		}
	})
}
