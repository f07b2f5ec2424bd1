package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
)

// The headers that carry a signature. Their names are written in lower case, as
// the standard does; use [net/http.Header.Get] to read them.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

const (
	signatureVersion = "v1,"
	maxID            = 255
)

// Sign returns the value of webhook-signature for a body that is sent at a time
// under an id: one signature for each secret, in the order given, separated by
// spaces. The time counts in whole seconds.
func Sign(id string, at time.Time, body []byte, secrets ...string) (string, error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	timestamp := strconv.FormatInt(at.Unix(), 10)
	var b strings.Builder
	for i, secret := range secrets {
		key, err := ParseSecret(secret)
		if err != nil {
			return "", err
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(signatureVersion)
		b.WriteString(base64.StdEncoding.EncodeToString(mac(key, id, timestamp, body)))
	}
	return b.String(), nil
}

func mac(key []byte, id, timestamp string, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(id + "." + timestamp + "."))
	h.Write(body)
	return h.Sum(nil)
}

// checkID keeps dots out: with a dot in the id, one signature would fit two
// readings of id and timestamp.
func checkID(id string) error {
	if id == "" || len(id) > maxID {
		return errors.New("id: is not 1 to 255 characters long")
	}
	for i := 0; i < len(id); i++ {
		if c := id[i]; !isAlnum(c) && c != '_' && c != '-' {
			return errors.New("id: has a character that is not one of A-Z a-z 0-9 _ -")
		}
	}
	return nil
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
