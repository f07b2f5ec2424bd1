package push_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// canary is a secret that must be found nowhere.
type canary struct {
	name string
	// needles are the ways to write it down that are looked for.
	needles map[string][]byte
}

func newCanary(name string, secret []byte) canary {
	needles := map[string][]byte{
		"raw":               secret,
		"in hex":            []byte(hex.EncodeToString(secret)),
		"in upper-case hex": bytes.ToUpper([]byte(hex.EncodeToString(secret))),
		"as in a query":     []byte(url.QueryEscape(string(secret))),
		"as in a path":      []byte(url.PathEscape(string(secret))),
	}
	for offset := range 3 {
		// What stands before and behind it in a longer text moves the bits, so those that
		// depend on it are left out.
		for name, encoding := range map[string]*base64.Encoding{"in base64": base64.RawStdEncoding, "in base64 for URLs": base64.RawURLEncoding} {
			text := encoding.EncodeToString(slices.Concat(make([]byte, offset), secret))
			text = text[[]int{0, 2, 3}[offset]:]
			needles[name+string(rune(' '+offset))] = []byte(text[:len(text)-1])
		}
	}
	return canary{name, needles}
}

// secretText is a secret that reads otherwise in a URL, and the canary that it is.
func secretText(name string) (string, canary) {
	text := "c/" + rand.Text() + "+=" // RFC 6750 allows these in a token
	return text, newCanary(name, []byte(text))
}

// signingSecret splits what is shown of a secret: neither its text nor its bytes may show.
func signingSecret(t *testing.T, name, secret string) []canary {
	t.Helper()
	text := secret[strings.IndexByte(secret, '_')+1:]
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return []canary{newCanary(name+", its text", []byte(text)), newCanary(name+", its bytes", raw)}
}

// place is somewhere to look.
type place struct {
	name    string
	content []byte
	// known is what must be there, or nothing was looked at.
	known string
}

// find looks for all canaries in all places.
func find(t *testing.T, canaries []canary, places []place) {
	t.Helper()
	for _, p := range places {
		if !bytes.Contains(p.content, []byte(p.known)) {
			t.Errorf("%s: %q is not in its %d bytes: this is no place where secrets could be", p.name, p.known, len(p.content))
		}
		for _, c := range canaries {
			for how, needle := range c.needles {
				if at := bytes.Index(p.content, needle); at >= 0 {
					t.Errorf("%s, %s, is in %s: …%q", c.name, how, p.name, p.content[max(0, at-120):at])
				}
			}
		}
	}
}

// files returns all that is in a folder.
func files(t *testing.T, dir string) []byte {
	t.Helper()
	var all bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.Bytes()
}

// tables returns every row of every table of a database, as the database keeps the values.
func tables(t *testing.T, url string) []byte {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	const list = `select format('%I.%I', schemaname, tablename) from pg_tables
		where schemaname <> 'pg_catalog' and schemaname <> 'information_schema'`
	rows, err := conn.Query(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for _, name := range names {
		if _, err := conn.PgConn().CopyTo(t.Context(), &all, "copy (select * from "+name+") to stdout (format binary)"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return all.Bytes()
}

// A search that finds nothing must be able to.
func TestCanary_IsFoundHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	secret, c := secretText("a password")
	for name, written := range map[string]string{
		"raw":          secret,
		"hex":          hex.EncodeToString([]byte(secret)),
		"upper hex":    strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"query":        url.Values{"p": {secret}}.Encode(),
		"path":         (&url.URL{Path: "/" + url.PathEscape(secret)}).RawPath + url.PathEscape(secret),
		"base64 0":     base64.StdEncoding.EncodeToString([]byte(secret + "tail")),
		"base64 1":     base64.StdEncoding.EncodeToString([]byte("u" + secret + "tail")),
		"base64 2":     base64.StdEncoding.EncodeToString([]byte("u:" + secret)),
		"base64 URL 5": base64.RawURLEncoding.EncodeToString([]byte("user:" + secret)),
	} {
		found := false
		for _, needle := range c.needles {
			found = found || strings.Contains(written, string(needle))
		}
		if !found {
			t.Errorf("%s: not found in %s", name, written)
		}
	}
	for how, needle := range c.needles {
		if strings.Contains("nothing of the kind "+rand.Text(), string(needle)) {
			t.Errorf("%s: found where it is not", how)
		}
	}
}

// readAll reads an answer over HTTP.
func readAll(t *testing.T, body io.ReadCloser) []byte {
	t.Helper()
	defer body.Close()
	content, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
