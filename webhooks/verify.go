package webhooks

import (
	"crypto/ed25519"
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Tolerance is how far webhook-timestamp may be from the receiver's clock, in
// either direction.
const Tolerance = 5 * time.Minute

// maxSignatures bounds how many entries of webhook-signature are looked at, so
// that a long header costs no more than a short one.
const maxSignatures = 10

// Why a request was not accepted. Answer all of them with 401 or 400; a sender
// gains nothing from knowing which.
var (
	// ErrHeaders: a header is missing, given twice, or not of the form it should have.
	ErrHeaders = errors.New("webhook headers are missing or malformed")
	// ErrTooOld: the timestamp is more than [Tolerance] behind. It may be a replay.
	ErrTooOld = errors.New("webhook timestamp is too old")
	// ErrTooNew: the timestamp is more than [Tolerance] ahead.
	ErrTooNew = errors.New("webhook timestamp is too far in the future")
	// ErrSignature: no signature fits.
	ErrSignature = errors.New("webhook signature does not match")
	// ErrBodyTooLarge: the body is over the caller's limit.
	ErrBodyTooLarge = errors.New("webhook body is too large")
)

// Verifier checks that requests were signed with one of its secrets. Safe for
// concurrent use.
type Verifier struct {
	// keys are those that are shared with the sender, publics those that it keeps the other
	// half of.
	keys    []*key
	publics []ed25519.PublicKey
}

// NewVerifier takes the endpoint's secret, or, while it is being changed, the new
// one and the old: whsec_…, or whpk_… where the sender signs with its whsk_…, which will do
// as well.
func NewVerifier(secrets ...string) (*Verifier, error) {
	if len(secrets) == 0 {
		return nil, errors.New("verifier: no secret")
	}
	v := &Verifier{}
	for _, secret := range secrets {
		if err := v.add(secret); err != nil {
			return nil, fmt.Errorf("verifier: %w", err)
		}
	}
	return v, nil
}

func (v *Verifier) add(secret string) error {
	if text, ok := strings.CutPrefix(secret, publicPrefix); ok {
		public, err := parsePublic(text)
		if err != nil {
			return err
		}
		v.publics = append(v.publics, public)
		return nil
	}
	k, err := newKey(secret)
	if err != nil {
		return err
	}
	if k.private != nil {
		v.publics = append(v.publics, k.private.Public().(ed25519.PublicKey))
	} else {
		v.keys = append(v.keys, k)
	}
	return nil
}

// Verify checks one request now, against one secret or several. Who has many requests
// makes a [Verifier], or puts a [Receiver] before a handler. Body must be the bytes that
// came: see [Verifier.Verify].
func Verify(header http.Header, body []byte, secrets ...string) error {
	v, err := NewVerifier(secrets...)
	if err != nil {
		return err
	}
	return v.Verify(header, body, time.Now())
}

// Read reads the body of a request, at most limit bytes, and verifies it. The
// headers are looked at first: a request that cannot pass is not read. On any
// error the body must not be used, and is not returned.
func (v *Verifier) Read(r *http.Request, limit int64, now time.Time) ([]byte, error) {
	if _, err := v.readHeaders(r.Header, now); err != nil {
		return nil, err
	}
	if r.ContentLength > limit {
		return nil, ErrBodyTooLarge
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("webhook body: %w", err)
	}
	if int64(len(body)) > limit {
		return nil, ErrBodyTooLarge
	}
	if err := v.Verify(r.Header, body, now); err != nil {
		return nil, err
	}
	return body, nil
}

// Verify checks the headers of a request against its body, which must be the bytes
// that came: what a JSON decoder made of them and an encoder wrote again will not
// do. now is the receiver's clock.
func (v *Verifier) Verify(header http.Header, body []byte, now time.Time) error {
	signed, err := v.readHeaders(header, now)
	if err != nil {
		return err
	}
	// Every key is tried with every signature, and each comparison takes the same
	// time, so that the duration tells nothing about how much of one was right.
	matched := false
	for _, k := range v.keys {
		want := k.mac(signed.id, signed.timestamp, body)
		for _, got := range signed.hmacs {
			if hmac.Equal(got, want[:]) {
				matched = true
			}
		}
	}
	if len(v.publics) > 0 {
		text := signedText(signed.id, signed.timestamp, body)
		for _, public := range v.publics {
			for _, got := range signed.ed25519s {
				matched = ed25519.Verify(public, text, got) || matched
			}
		}
	}
	if !matched {
		return ErrSignature
	}
	return nil
}

// signedHeaders is what a request claims.
type signedHeaders struct {
	id, timestamp string
	signatures
}

// signatures are those of the versions that we know; others may be there for newer receivers.
type signatures struct{ hmacs, ed25519s [][]byte }

// readHeaders refuses what cannot pass whatever the body is.
func (v *Verifier) readHeaders(header http.Header, now time.Time) (signedHeaders, error) {
	id, timestamp, list := single(header, HeaderID), single(header, HeaderTimestamp), single(header, HeaderSignature)
	// With a dot in the id, the bytes that were signed could be read as another id,
	// another time and another body.
	if id == "" || strings.Contains(id, ".") || timestamp == "" || list == "" {
		return signedHeaders{}, ErrHeaders
	}
	at, err := parseTimestamp(timestamp)
	if err != nil {
		return signedHeaders{}, err
	}
	switch {
	case now.Sub(at) > Tolerance:
		return signedHeaders{}, ErrTooOld
	case at.Sub(now) > Tolerance:
		return signedHeaders{}, ErrTooNew
	}
	signatures := parseSignatures(list)
	if (len(v.keys) == 0 || len(signatures.hmacs) == 0) && (len(v.publics) == 0 || len(signatures.ed25519s) == 0) {
		return signedHeaders{}, ErrSignature
	}
	return signedHeaders{id: id, timestamp: timestamp, signatures: signatures}, nil
}

// single returns the header's value if there is exactly one: of two, this code and
// a proxy before it might each believe another.
func single(header http.Header, name string) string {
	values := header.Values(name)
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// parseTimestamp takes decimal Unix seconds and nothing else: no sign, no space.
func parseTimestamp(s string) (time.Time, error) {
	const digits = 12 // the year 33658; what is longer cannot be near now
	seconds, err := strconv.ParseUint(s, 10, 63)
	if err != nil || len(s) > digits {
		return time.Time{}, ErrHeaders
	}
	return time.Unix(int64(seconds), 0), nil
}

func parseSignatures(list string) (found signatures) {
	looked := 0
	for entry := range strings.SplitSeq(list, " ") {
		if looked++; looked > maxSignatures {
			break
		}
		to, text := &found.hmacs, strings.TrimPrefix(entry, versionHMAC)
		if len(text) == len(entry) {
			to, text = &found.ed25519s, strings.TrimPrefix(entry, versionEd25519)
		}
		if len(text) == len(entry) {
			continue
		}
		if sum, err := base64.StdEncoding.DecodeString(text); err == nil {
			*to = append(*to, sum)
		}
	}
	return found
}
