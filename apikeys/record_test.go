package apikeys_test

import (
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/apikeys"
)

func TestRing_HoldsItsKeysAlone(t *testing.T) {
	t.Parallel()
	a, b, other := newKey(t), newKey(t), newKey(t)
	ring := apikeys.NewRing(a.Record(), b.Record())
	if !ring.Holds(a) || !ring.Holds(b) {
		t.Error("a key of the ring is not held")
	}
	// Of a known id, with the secret of another: well-formed, and wrong.
	record := other.Record()
	record.ID = a.ID()
	if forged := apikeys.NewRing(record); forged.Holds(a) {
		t.Error("an id with another secret is held")
	}
	for name, k := range map[string]apikeys.Key{"unknown": other, "zero": {}} {
		if ring.Holds(k) || apikeys.NewRing().Holds(k) {
			t.Errorf("a key that is %s is held", name)
		}
	}
	if apikeys.NewRing(apikeys.Record{}).Holds(apikeys.Key{}) {
		t.Error("an empty record holds the empty key")
	}
}

func TestA01_RecordHasTheHashAndNotTheSecret(t *testing.T) {
	t.Parallel()
	k := newKey(t)
	secret := strings.Split(k.Reveal(), "_")[3]
	if want := sha256.Sum256([]byte(secret)); k.Record().Hash != want {
		t.Errorf("got hash %x, want the SHA-256 of the secret", k.Record().Hash)
	}
	text, err := json.Marshal(k.Record())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), secret) {
		t.Errorf("stored with its secret: %s", text)
	}
	var read apikeys.Record
	if err := json.Unmarshal(text, &read); err != nil || !apikeys.NewRing(read).Holds(k) {
		t.Errorf("%s: read as %+v, %v", text, read, err)
	}
}

func TestHash_RefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{`""`, `"00"`, `"` + strings.Repeat("0", 66) + `"`, `"` + strings.Repeat("x", 64) + `"`} {
		var h apikeys.Hash
		if err := json.Unmarshal([]byte(bad), &h); err == nil {
			t.Errorf("%s is read as %x", bad, h)
		}
	}
}
