package seal

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

var secret = []byte("whsec_canary")

func TestA07_SealedSecretHidesItAndOpensInItsPlaceAlone(t *testing.T) {
	t.Parallel()
	k := Random()
	place := []string{"default", "billing", "1", "secrets"}
	sealed := mustSeal(t, k, place...)
	if bytes.Contains(sealed, secret) {
		t.Error("the sealed secret holds it in plain")
	}
	if got, err := k.Open(sealed, place...); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("got %q, %v", got, err)
	}
	for _, other := range [][]string{
		nil,
		{"default", "billing", "2", "secrets"},
		{"default", "billin", "g1", "secrets"},
		{"default", "billing", "1secrets"},
		{"default", "billing", "1", "secrets", ""},
		{"other", "billing", "1", "secrets"},
	} {
		if got, err := k.Open(sealed, other...); !errors.Is(err, ErrRefused) || got != nil {
			t.Errorf("as %q: got %q, %v, want it refused", other, got, err)
		}
	}
}

func TestA07_EachSealingHasAKeyAndNoncesOfItsOwn(t *testing.T) {
	t.Parallel()
	k := Random()
	seen := map[string]bool{}
	for range 1000 {
		p, err := parse(mustSeal(t, k))
		if err != nil {
			t.Fatal(err)
		}
		dataKey, err := k.unwrap(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, each := range [][]byte{dataKey, p.wrapped[:nonceSize], p.body[:nonceSize]} {
			if seen[string(each)] {
				t.Fatal("a key or a nonce came twice")
			}
			seen[string(each)] = true
		}
	}
}

func TestA07_TruncatedOrFlippedIsAnErrorAndNeverAnEmptyKey(t *testing.T) {
	t.Parallel()
	k := Random()
	sealed := mustSeal(t, k, "x")
	check := func(what string, damaged []byte) {
		t.Helper()
		plain, err := k.Open(damaged, "x")
		if err == nil || plain != nil || !typed(err) {
			t.Errorf("%s: got %q, %v", what, plain, err)
		}
		if out, err := k.Rewrap(damaged); err == nil && bytes.Equal(out, sealed) {
			t.Errorf("%s: rewrapped as if it were whole", what)
		} else if err != nil && !typed(err) {
			t.Errorf("%s: rewrap: %v", what, err)
		}
	}
	for n := range sealed {
		check(fmt.Sprintf("cut to %d bytes", n), sealed[:n])
		for bit := range 8 {
			flipped := bytes.Clone(sealed)
			flipped[n] ^= 1 << bit
			check(fmt.Sprintf("byte %d, bit %d", n, bit), flipped)
		}
	}
	check("longer", append(bytes.Clone(sealed), 0))
	check("nothing", nil)
}

func TestA07_UnknownKeyIsNamed(t *testing.T) {
	t.Parallel()
	mine, other := Random(), Random()
	sealed := mustSeal(t, mine)
	for what, ring := range map[string]*Keyring{"another key": other, "no key": {}} {
		_, err := ring.Open(sealed)
		unknown, ok := errors.AsType[*UnknownKeyError](err)
		if !ok || unknown.ID != mine.Current() || !strings.Contains(err.Error(), mine.Current()) {
			t.Errorf("%s: got %v, want %s named", what, err, mine.Current())
		}
		if _, err := ring.Rewrap(sealed); !errors.As(err, &unknown) {
			t.Errorf("%s: rewrap: got %v", what, err)
		}
	}
	// The id alone opens nothing.
	impostor := mustParse(t, mine.Current()+":"+base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if _, err := impostor.Open(sealed); !errors.Is(err, ErrRefused) {
		t.Errorf("another key of that id: got %v", err)
	}
}

func TestA07_RewrapPutsAnotherKeyInItsPlaceWithoutTheSecret(t *testing.T) {
	t.Parallel()
	older, newer := NewKey(), NewKey()
	before, both, after := mustParse(t, older), mustParse(t, newer+"\n"+older), mustParse(t, newer)
	sealed := mustSeal(t, before, "x")
	if both.IsCurrent(sealed) || !before.IsCurrent(sealed) {
		t.Error("the wrong key counts as current")
	}
	if got, err := both.Open(sealed, "x"); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("under the older key: got %q, %v", got, err)
	}
	wrapped, err := both.Rewrap(sealed)
	if err != nil {
		t.Fatal(err)
	}
	if !both.IsCurrent(wrapped) || !after.IsCurrent(wrapped) {
		t.Error("it is not under the current key")
	}
	if body := sealed[len(sealed)-nonceSize-tagSize-len(secret):]; !bytes.HasSuffix(wrapped, body) {
		t.Error("the secret was encrypted anew")
	}
	if got, err := after.Open(wrapped, "x"); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("with the new key alone: got %q, %v", got, err)
	}
	if _, err := before.Open(wrapped, "x"); err == nil {
		t.Error("the old key opens it still")
	}
}

func TestKeyring_SealsNothingWithoutAKeyOrASecret(t *testing.T) {
	t.Parallel()
	if _, err := new(Keyring).Seal(secret); !errors.Is(err, ErrNoKey) {
		t.Errorf("without a key: got %v", err)
	}
	if _, err := Random().Seal(nil); err == nil {
		t.Error("an empty secret was sealed")
	}
	if _, err := new(Keyring).Rewrap(mustSeal(t, Random())); err == nil {
		t.Error("rewrapped without a key")
	}
}

func TestParse_TakesTheFirstKeyAsTheCurrentOne(t *testing.T) {
	t.Parallel()
	first, second := NewKey(), NewKey()
	_, bare, _ := strings.Cut(first, ":")
	for _, text := range []string{
		first, first + "\n", "\n# kept by ops\n  " + first + "\r\n\n" + second + "\n", bare, bare + "\n" + second,
	} {
		k, err := Parse(text)
		if id, _, _ := strings.Cut(first, ":"); err != nil || k.Current() != id {
			t.Errorf("%d characters: got %v, %v, want %s", len(text), k, err, id)
		}
	}
	k := mustParse(t, "of-2026.a_B:"+base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if k.Current() != "of-2026.a_B" {
		t.Errorf("got %s", k.Current())
	}
	if k := mustParse(t, "\n# none\n"); k.Current() != "" {
		t.Errorf("text without a key: got %s", k.Current())
	}
}

func TestParse_NamesTheLineAndShowsNothingOfIt(t *testing.T) {
	t.Parallel()
	good := NewKey()
	whole := base64.StdEncoding.EncodeToString([]byte("canary-canary-canary-canary-cana"))
	for what, line := range map[string]string{
		"short":              "k1:" + base64.StdEncoding.EncodeToString([]byte("canary-canary")),
		"no padding":         "k1:" + strings.TrimRight(whole, "="),
		"two colons":         "k1:k2:" + whole,
		"bad id":             "Y2FuYXJ5 :" + whole,
		"no id":              ":" + whole,
		"long id":            strings.Repeat("Y2FuYXJ5", 9) + ":" + whole,
		"the same id":        good,
		"no key":             "k1:",
		"a password":         "Y2FuYXJ5",
		"trailing something": "k1:" + whole + " x",
	} {
		_, err := Parse("# keys\n" + good + "\n" + line)
		if err == nil || !strings.HasPrefix(err.Error(), "line 3: ") {
			t.Errorf("%s: got %v, want line 3 named", what, err)
			continue
		}
		if strings.Contains(err.Error(), "Y2FuYXJ5") {
			t.Errorf("%s: the error shows it: %v", what, err)
		}
	}
	if _, err := Parse(strings.Repeat("A", 100_000)); err == nil || strings.Contains(err.Error(), "AAAA") {
		t.Errorf("a long line: got %v", err)
	}
}

func TestKeyring_OlderKeysAreJoined(t *testing.T) {
	t.Parallel()
	a, b := Random(), Random()
	both := a.With(b)
	if both.Current() != a.Current() || !both.Has(a.Current()) || !both.Has(b.Current()) {
		t.Errorf("got %v", both)
	}
	if got := new(Keyring).With(b); got.Current() != b.Current() {
		t.Errorf("without a key of its own: got %v", got)
	}
	if _, err := both.Open(mustSeal(t, b)); err != nil {
		t.Errorf("under the older key: %v", err)
	}
}

func TestKeyring_NeverShowsItself(t *testing.T) {
	t.Parallel()
	k := mustParse(t, "k1:"+base64.StdEncoding.EncodeToString([]byte("canary-canary-canary-canary-cana")))
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+" "+verb+"\n", k, struct{ K *Keyring }{k})
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "keys", k)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "keys", k)
	if text := out.String(); strings.Contains(text, "canary") || strings.Contains(text, "63616e617279") || strings.Contains(text, "99 97 110") || strings.Contains(text, "0x63") {
		t.Errorf("it shows itself:\n%s", text)
	}
	if !strings.Contains(out.String(), "k1") {
		t.Error("its id is not told")
	}
}

// Whatever is opened answers one of the errors, or what was sealed.
func FuzzOpen(f *testing.F) {
	k, err := Parse("k1:" + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		f.Fatal(err)
	}
	sealed, err := k.Seal(secret, "x")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed, "x")
	f.Add(sealed[:20], "x")
	f.Add([]byte{1, 255, 'k'}, "")
	f.Add([]byte{1, 0}, "x")
	f.Fuzz(func(t *testing.T, text []byte, context string) {
		plain, err := k.Open(text, context)
		if (err == nil) != (len(plain) > 0) || err != nil && !typed(err) {
			t.Errorf("got %q, %v", plain, err)
		}
		if err == nil && !bytes.Equal(plain, secret) {
			t.Errorf("a forgery opened: %x", text)
		}
		k.IsCurrent(text)
		out, err := k.Rewrap(text)
		if err != nil && !typed(err) {
			t.Errorf("rewrap: %v", err)
		}
		if err == nil && !k.IsCurrent(out) {
			t.Error("what was rewrapped is not under the current key")
		}
	})
}

func typed(err error) bool {
	var unknown *UnknownKeyError
	return errors.Is(err, ErrMalformed) || errors.Is(err, ErrRefused) || errors.As(err, &unknown)
}

func mustSeal(t *testing.T, k *Keyring, context ...string) []byte {
	t.Helper()
	sealed, err := k.Seal(secret, context...)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func mustParse(t *testing.T, text string) *Keyring {
	t.Helper()
	k, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
