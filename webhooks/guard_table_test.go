package webhooks

import (
	"bufio"
	"context"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestN03_CuratedAddresses(t *testing.T) {
	t.Parallel()
	guard := NewGuard(GuardOptions{})
	lines := 0
	for verdict, rest := range table(t, "testdata/guard.txt") {
		lines++
		addr, err := netip.ParseAddr(rest)
		if err != nil {
			t.Fatal(err)
		}
		if got := guard.Permits(netip.AddrPortFrom(addr, 443)); got != (verdict == "allow") {
			t.Errorf("%s: permitted: %v, want %s", addr, got, verdict)
		}
	}
	if lines < 300 {
		t.Errorf("the table has %d addresses, want at least 300", lines)
	}
}

// Each address of the table, behind a name: whatever a name leads to is judged as the
// address is, and where it is denied nothing is dialled.
func TestN13_NamesAreJudgedByWhereTheyLead(t *testing.T) {
	t.Parallel()
	for verdict, address := range table(t, "testdata/guard.txt") {
		guard := NewGuard(GuardOptions{})
		d := newDialer(guard, nil)
		d.resolver = names{"rebound.example": {address}}
		targets, err := d.resolve(t.Context(), "rebound.example", 443)
		switch {
		case verdict == "allow" && (err != nil || len(targets) != 1):
			t.Errorf("%s: %v", address, err)
		case verdict == "deny" && (err != errBlocked || guard.Refused() != 1):
			t.Errorf("%s: %v, %v, %d refused", address, targets, err, guard.Refused())
		}
	}
}

// TestN06_CuratedURLs judges each URL twice: when it is configured, and when an attempt
// is made with it all the same. Of those that are denied nobody learns why.
func TestN06_CuratedURLs(t *testing.T) {
	t.Parallel()
	lines, texts := 0, map[string]bool{}
	for verdict, raw := range table(t, "testdata/guard_urls.txt") {
		lines++
		if unquoted, err := strconv.Unquote(raw); err == nil {
			raw = unquoted
		}
		s := NewSender(SenderOptions{})
		d := newDialer(s.guard, nil)
		if s.dial = d.connect; verdict != "deny" {
			s.dial = func(context.Context, *target) (net.Conn, error) { return nil, errTest }
		}
		_, parse := ParseURL(raw)
		configured := s.guard.CheckURL(raw)
		switch verdict {
		case "allow", "name":
			if configured != nil {
				t.Errorf("%q: %v", raw, configured)
			}
		case "deny":
			if parse != nil || configured == nil {
				t.Errorf("%q: as a text %v, as an address %v", raw, parse, configured)
				break
			}
			texts[configured.Error()] = true
			r := s.Send(t.Context(), request(raw))
			want(t, r, Blocked, 0, ClassBlocked)
			texts[r.Error] = true
		case "invalid":
			if parse == nil || configured == nil {
				t.Errorf("%q: as a text %v, as an address %v", raw, parse, configured)
			}
			want(t, s.Send(t.Context(), request(raw)), Rejected, 0, ClassInvalidRequest)
		default:
			t.Errorf("%q: no such verdict", verdict)
		}
	}
	if lines < 300 {
		t.Errorf("the table has %d URLs, want at least 300", lines)
	}
	if len(texts) != 2 {
		t.Errorf("what is denied is told in %d ways, want one when configured and one when dialled: %v", len(texts), texts)
	}
}

// TestN07_NamesThatLeadHereAreBlockedAtTheDial has all names of the table lead to this
// host, where somebody listens.
func TestN07_NamesThatLeadHereAreBlockedAtTheDial(t *testing.T) {
	t.Parallel()
	e := answering(t, okay)
	_, port, _ := net.SplitHostPort(e.addr)
	s := NewSender(SenderOptions{})
	d := newDialer(s.guard, nil)
	d.resolver = everywhere{"127.0.0.1", "::1"}
	s.dial = d.connect
	names := 0
	for verdict, raw := range table(t, "testdata/guard_urls.txt") {
		if verdict != "name" {
			continue
		}
		u, err := ParseURL(raw)
		if err != nil {
			t.Fatal(err)
		}
		names++
		want(t, s.Send(t.Context(), request("http://"+u.Hostname()+":"+port+"/")), Blocked, 0, ClassBlocked)
	}
	if n := s.guard.Refused(); names < 20 || n != uint64(2*names) {
		t.Errorf("%d addresses of %d names were refused, want two each", n, names)
	}
	if n := e.accepted.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// everywhere is a resolver that answers the same to every question.
type everywhere []string

func (a everywhere) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	addrs := make([]netip.Addr, len(a))
	for i, text := range a {
		addrs[i] = netip.MustParseAddr(text)
	}
	return addrs, nil
}

// table yields the lines of a file: verdict and what it is about, without comments.
func table(t *testing.T, path string) func(yield func(string, string) bool) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return func(yield func(string, string) bool) {
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			text, _, _ := strings.Cut(lines.Text(), "  #")
			if strings.HasPrefix(text, "# ") || text == "" {
				continue
			}
			verdict, rest, _ := strings.Cut(text, " ")
			if !yield(verdict, rest) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
	}
}
