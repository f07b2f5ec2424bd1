package webhooks

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestG07_Verify(t *testing.T) {
	t.Parallel()
	now := time.Unix(goldenAt, 0)
	wrong := "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	tests := []struct {
		name   string
		change func(h http.Header)
		now    time.Time
		want   error
	}{
		{"as signed", func(http.Header) {}, now, nil},
		{"300 s late", func(http.Header) {}, now.Add(300 * time.Second), nil},
		{"301 s late", func(http.Header) {}, now.Add(301 * time.Second), ErrTooOld},
		{"300 s early", func(http.Header) {}, now.Add(-300 * time.Second), nil},
		{"301 s early", func(http.Header) {}, now.Add(-301 * time.Second), ErrTooNew},
		{"one of several", set(HeaderSignature, wrong+" "+goldenSigned), now, nil},
		{"unknown versions are passed over", set(HeaderSignature, "v1a,x v2,y "+goldenSigned), now, nil},
		{"tenth", set(HeaderSignature, strings.Repeat(wrong+" ", 9)+goldenSigned), now, nil},
		{"eleventh", set(HeaderSignature, strings.Repeat(wrong+" ", 10)+goldenSigned), now, ErrSignature},
		{"wrong", set(HeaderSignature, wrong), now, ErrSignature},
		{"unknown version only", set(HeaderSignature, "v2"+goldenSigned[2:]), now, ErrSignature},
		{"no version", set(HeaderSignature, goldenSigned[3:]), now, ErrSignature},
		{"version alone", set(HeaderSignature, "v1,"), now, ErrSignature},
		{"first half", set(HeaderSignature, goldenSigned[:len(goldenSigned)/2]), now, ErrSignature},
		{"one byte", set(HeaderSignature, "v1,gw=="), now, ErrSignature},
		{"one byte more", set(HeaderSignature, goldenSigned[:len(goldenSigned)-1]+"AAA="), now, ErrSignature},
		{"comma for space", set(HeaderSignature, wrong+","+goldenSigned), now, ErrSignature},
		{"other id", set(HeaderID, goldenID+"x"), now, ErrSignature},
		{"other time", set(HeaderTimestamp, "1614265331"), now, ErrSignature},
		{"time with a zero before", set(HeaderTimestamp, "01614265330"), now, ErrSignature},
		{"time with a sign", set(HeaderTimestamp, "+1614265330"), now, ErrHeaders},
		{"negative time", set(HeaderTimestamp, "-1"), now, ErrHeaders},
		{"time with a fraction", set(HeaderTimestamp, "1614265330.0"), now, ErrHeaders},
		{"time with a space", set(HeaderTimestamp, " 1614265330"), now, ErrHeaders},
		{"time with an underscore", set(HeaderTimestamp, "1_614265330"), now, ErrHeaders},
		{"largest time", set(HeaderTimestamp, "9223372036854775807"), now, ErrHeaders},
		{"time beyond int64", set(HeaderTimestamp, "18446744073709551615"), now, ErrHeaders},
		{"far future", set(HeaderTimestamp, "999999999999"), now, ErrTooNew},
		{"time zero", set(HeaderTimestamp, "0"), now, ErrTooOld},
		{"no id", del(HeaderID), now, ErrHeaders},
		{"no time", del(HeaderTimestamp), now, ErrHeaders},
		{"no signature", del(HeaderSignature), now, ErrHeaders},
		{"empty signature", set(HeaderSignature, ""), now, ErrHeaders},
		{"two ids", add(HeaderID, goldenID), now, ErrHeaders},
		{"two times", add(HeaderTimestamp, "1614265330"), now, ErrHeaders},
		{"two signatures", add(HeaderSignature, goldenSigned), now, ErrHeaders},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := signed(goldenID, now, goldenSigned)
			tt.change(h)
			if err := verifyAt(goldenSecret, h, []byte(goldenBody), tt.now); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestG07_EveryBitOfTheBodyCounts(t *testing.T) {
	t.Parallel()
	now := time.Unix(goldenAt, 0)
	h := signed(goldenID, now, goldenSigned)
	for i := range len(goldenBody) * 8 {
		body := []byte(goldenBody)
		body[i/8] ^= 1 << (i % 8)
		if err := verifyAt(goldenSecret, h, body, now); !errors.Is(err, ErrSignature) {
			t.Fatalf("bit %d turned: got %v", i, err)
		}
	}
	for _, body := range []string{"", goldenBody + " ", goldenBody[1:], `{"test":2432232314}`} {
		if err := verifyAt(goldenSecret, h, []byte(body), now); !errors.Is(err, ErrSignature) {
			t.Errorf("body %q: got %v", body, err)
		}
	}
}

func TestG07_AnIDWithADotCannotMoveTheTimestamp(t *testing.T) {
	t.Parallel()
	// Signed an hour ago, with a body that begins like a timestamp and a dot.
	at, secret := time.Unix(goldenAt, 0), NewSecret()
	signature, err := Sign("msg", at, []byte("1614268930.rest"), secret)
	if err != nil {
		t.Fatal(err)
	}
	now := at.Add(time.Hour)
	h := signed("msg.1614265330", now, signature)
	if err := verifyAt(secret, h, []byte("rest"), now); !errors.Is(err, ErrHeaders) {
		t.Errorf("got %v", err)
	}
}

func TestG05_VerifierTakesOldAndNewSecret(t *testing.T) {
	t.Parallel()
	older, newer, now := NewSecret(), NewSecret(), time.Now()
	v, err := NewVerifier(newer, older)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{older, newer} {
		signature, err := Sign(goldenID, now, nil, secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Verify(signed(goldenID, now, signature), nil, now); err != nil {
			t.Error(err)
		}
	}
	stranger, err := Sign(goldenID, now, nil, NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Verify(signed(goldenID, now, stranger), nil, now); !errors.Is(err, ErrSignature) {
		t.Errorf("a stranger's secret: got %v", err)
	}
}

func TestG07_VerifyGoesByTheClock(t *testing.T) {
	t.Parallel()
	older, newer := NewSecret(), NewSecret()
	for age, want := range map[time.Duration]error{0: nil, time.Hour: ErrTooOld, -time.Hour: ErrTooNew} {
		at := time.Now().Add(-age)
		signature, err := Sign(goldenID, at, []byte(goldenBody), older)
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(signed(goldenID, at, signature), []byte(goldenBody), newer, older); !errors.Is(err, want) {
			t.Errorf("signed %s ago: got %v, want %v", age, err, want)
		}
	}
}

func TestG07_VerifierWithoutSecretsIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := NewVerifier(); err == nil {
		t.Error("no error")
	}
}

func TestG07_ReadLooksAtHeadersAndSizeFirst(t *testing.T) {
	t.Parallel()
	v, err := NewVerifier(goldenSecret)
	if err != nil {
		t.Fatal(err)
	}
	now, size := time.Unix(goldenAt, 0), int64(len(goldenBody))
	tests := []struct {
		name    string
		limit   int64
		known   bool // whether the length is announced
		change  func(http.Header)
		want    error
		mayRead bool
	}{
		{"fits exactly", size, true, func(http.Header) {}, nil, true},
		{"announced as too large", size - 1, true, func(http.Header) {}, ErrBodyTooLarge, false},
		{"turns out too large", size - 1, false, func(http.Header) {}, ErrBodyTooLarge, true},
		{"unsigned", size, true, del(HeaderSignature), ErrHeaders, false},
		{"stale", size, true, set(HeaderTimestamp, "1"), ErrTooOld, false},
		{"wrong", size, true, set(HeaderSignature, "v1,gw=="), ErrSignature, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			body := &countingReader{r: strings.NewReader(goldenBody)}
			r.Body, r.ContentLength, r.Header = io.NopCloser(body), -1, signed(goldenID, now, goldenSigned)
			if tt.known {
				r.ContentLength = size
			}
			tt.change(r.Header)
			got, err := v.Read(r, tt.limit, now)
			if !errors.Is(err, tt.want) || (err == nil) != (string(got) == goldenBody) {
				t.Errorf("got %q, %v; want %v", got, err, tt.want)
			}
			if body.n > tt.limit+1 || !tt.mayRead && body.n > 0 {
				t.Errorf("read %d bytes", body.n)
			}
		})
	}
}

func FuzzVerify(f *testing.F) {
	f.Add(goldenID, "1614265330", goldenSigned, goldenBody)
	f.Add("", "-1", "v1,,v1, v1,=", "")
	now := time.Unix(goldenAt, 0)
	f.Fuzz(func(t *testing.T, id, timestamp, signature, body string) {
		h := http.Header{}
		h.Set(HeaderID, id)
		h.Set(HeaderTimestamp, timestamp)
		h.Set(HeaderSignature, signature)
		err := verifyAt(goldenSecret, h, []byte(body), now)
		asSigned := id == goldenID && timestamp == "1614265330" && body == goldenBody
		if err == nil && !asSigned {
			t.Errorf("accepted %q %q %q %q", id, timestamp, signature, body)
		}
	})
}

// verifyAt verifies with one secret at a time that the test chooses.
func verifyAt(secret string, h http.Header, body []byte, now time.Time) error {
	v, err := NewVerifier(secret)
	if err != nil {
		return err
	}
	return v.Verify(h, body, now)
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func set(name, value string) func(http.Header) { return func(h http.Header) { h.Set(name, value) } }
func add(name, value string) func(http.Header) { return func(h http.Header) { h.Add(name, value) } }
func del(name string) func(http.Header)        { return func(h http.Header) { h.Del(name) } }
