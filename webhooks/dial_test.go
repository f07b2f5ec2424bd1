package webhooks

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// names resolves from a list; a name that is not in it does not exist.
type names map[string][]string

func (n names) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > dnsTimeout {
		return nil, errors.New("looked up without a deadline")
	}
	texts, ok := n[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, Server: "192.0.2.53:53", IsNotFound: true}
	}
	var addrs []netip.Addr
	for _, text := range texts {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	return addrs, nil
}

// newNamesSender resolves names from a list, and may go to loopback.
func newNamesSender(t *testing.T, n names) (*Sender, *dialer) {
	t.Helper()
	s := newTestSender(t)
	d := &dialer{guard: s.guard, resolver: n}
	s.dial = d.connect
	return s, d
}

func TestN13_OnlyPermittedAddressesOfAnAnswerAreUsed(t *testing.T) {
	t.Parallel()
	e := answering(t, okay)
	_, port, _ := net.SplitHostPort(e.addr)
	s, _ := newNamesSender(t, names{"mixed.test": {"169.254.169.254", "10.0.0.1", "fe80::1", "127.0.0.1"}})
	want(t, s.Send(t.Context(), request("http://mixed.test:"+port+"/")), Delivered, 200, "")
	if n := s.guard.Refused(); n != 3 {
		t.Errorf("Refused: got %d, want 3", n)
	}
}

func TestN13_NoMoreThanSixteenAddressesAreTried(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 200 {
		many = append(many, netip.AddrFrom4([4]byte{127, 0, 1, byte(i)}).String())
	}
	_, d := newNamesSender(t, names{"many.test": many})
	targets, err := d.resolve(t.Context(), "many.test", 80)
	if err != nil || len(targets) != 16 || targets[0].String() != "127.0.1.0:80" {
		t.Errorf("got %v, %v", targets, err)
	}
}

// TestN09_BlockedTargetsLookAlike: whatever is behind an address, and whether a
// port is open, the answer is one and the same, and nothing was sent.
func TestN09_BlockedTargetsLookAlike(t *testing.T) {
	t.Parallel()
	open := answering(t, okay)
	_, port, _ := net.SplitHostPort(open.addr)
	s := NewSender(SenderOptions{}) // nothing is allowed
	t.Cleanup(s.Close)
	s.dial = (&dialer{guard: s.guard, resolver: names{
		"local.test": {"127.0.0.1"}, "metadata.test": {"169.254.169.254", "fd00:ec2::254"}, "rebind.test": {"::ffff:127.0.0.1"},
	}}).connect
	texts := map[string]bool{}
	for _, url := range []string{
		open.url, "http://127.0.0.1:1/", "https://127.0.0.1:" + port + "/", "http://[::1]:" + port + "/", "http://[::ffff:127.0.0.1]:" + port + "/",
		"http://10.0.0.1/", "http://169.254.169.254/latest/", "http://local.test:" + port + "/", "http://metadata.test/",
		"http://rebind.test:" + port + "/", "http://0.0.0.0:" + port + "/",
	} {
		r := s.Send(t.Context(), request(url))
		want(t, r, Blocked, 0, ClassBlocked)
		texts[r.Error] = true
	}
	if len(texts) != 1 {
		t.Errorf("different texts: %v", texts)
	}
	if n := open.accepted.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// TestN02_TheGuardLooksAgainAtTheDial: even where an address got past the choice
// of addresses, the connection is not made.
func TestN02_TheGuardLooksAgainAtTheDial(t *testing.T) {
	t.Parallel()
	e := answering(t, okay)
	d := &dialer{guard: NewGuard(GuardOptions{})}
	_, err := d.inTurn(t.Context(), []netip.AddrPort{netip.MustParseAddrPort(e.addr)})
	if !errors.Is(err, errBlocked) || e.accepted.Load() != 0 {
		t.Errorf("got %v, %d connections", err, e.accepted.Load())
	}
}

func TestN07_TheResolverIsGos(t *testing.T) {
	t.Parallel()
	s := newTestSender(t)
	for _, host := range []string{"2130706433", "0x7f000001", "0177.0.0.1", "127.1"} {
		want(t, s.Send(t.Context(), request("http://"+host+"/")), Rejected, 0, ClassInvalidRequest)
	}
	d := newDialer(s.guard, nil)
	if r, ok := d.resolver.(*net.Resolver); !ok || !r.PreferGo {
		t.Errorf("resolver: got %+v", d.resolver)
	}
}

func TestH07_NamesThatDoNotResolve(t *testing.T) {
	t.Parallel()
	s, _ := newNamesSender(t, names{})
	r := s.Send(t.Context(), request("http://nobody.test/?key=canary"))
	want(t, r, Retryable, 0, ClassDNS)
	if !strings.Contains(r.Error, "nobody.test") || strings.Contains(r.Error, "192.0.2.53") || strings.Contains(r.Error, "canary") {
		t.Errorf("text: %q", r.Error)
	}
}

func TestDial_FallsBackToTheOtherFamilyAndTheNextAddress(t *testing.T) {
	t.Parallel()
	e := answering(t, okay)
	_, port, _ := net.SplitHostPort(e.addr)
	s, _ := newNamesSender(t, names{
		"six.test":  {"::1", "127.0.0.1"},              // nobody listens at [::1]
		"next.test": {"127.0.0.9", "127.0.0.1"},        // nor at 127.0.0.9
		"both.test": {"127.0.0.1", "::1", "127.0.0.9"}, // the first wins
	})
	for _, host := range []string{"six.test", "next.test", "both.test"} {
		want(t, s.Send(t.Context(), request("http://"+host+":"+port+"/")), Delivered, 200, "")
	}
}

func TestDial_GivesTheFirstFamilysError(t *testing.T) {
	t.Parallel()
	_, d := newNamesSender(t, names{})
	targets := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.9:1"), netip.MustParseAddrPort("[::1]:1"), netip.MustParseAddrPort("127.0.0.8:1")}
	_, err := d.race(t.Context(), slices.Clone(targets))
	if err == nil || !strings.Contains(err.Error(), "127.0.0.9:1") {
		t.Errorf("got %v", err)
	}
}

func TestH02_ADialEndsWithItsAttempt(t *testing.T) {
	t.Parallel()
	s := newTestSender(t)
	deadline := make(chan time.Time, 1)
	inner := s.dial
	s.dial = func(ctx context.Context, to *target) (net.Conn, error) {
		at, _ := ctx.Deadline()
		deadline <- at
		return inner(ctx, to)
	}
	e := answering(t, okay)
	r := request(e.url)
	r.Timeout = 7 * time.Second
	got := s.Send(t.Context(), r)
	want(t, got, Delivered, 200, "")
	if at := <-deadline; !at.Equal(got.StartedAt.Add(r.Timeout)) {
		t.Errorf("deadline: got %v, want %v after the start", at, r.Timeout)
	}
}
