package webhooks

import (
	"bufio"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"os"
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

// TestN01_RandomAddresses compares with a second statement of the rules, in
// arithmetic instead of prefixes.
func TestN01_RandomAddresses(t *testing.T) {
	t.Parallel()
	guard := NewGuard(GuardOptions{})
	rnd := rand.New(rand.NewPCG(1, 2))
	permitted := 0
	for range 400_000 {
		addr := randomAddr(rnd)
		want := publicByArithmetic(addr)
		got := guard.Permits(netip.AddrPortFrom(addr, 443))
		if got != want {
			t.Fatalf("%s: permitted: %v, want %v", addr, got, want)
		}
		if got {
			permitted++
		}
	}
	if permitted < 40_000 || permitted > 360_000 {
		t.Errorf("%d of 400000 permitted: the sample is lopsided", permitted)
	}
}

// randomAddr prefers the neighbourhood of special addresses, where mistakes live.
func randomAddr(rnd *rand.Rand) netip.Addr {
	if rnd.IntN(2) == 0 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], rnd.Uint32())
		if rnd.IntN(2) == 0 {
			heads := []uint32{0x0a000000, 0x64400000, 0xac100000, 0xc0000000, 0xc01fc400, 0xc0586300, 0xc6120000, 0xcb007100, 0xa83f8110}
			binary.BigEndian.PutUint32(b[:], heads[rnd.IntN(len(heads))]^(rnd.Uint32()>>rnd.IntN(32)))
		}
		return netip.AddrFrom4(b)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], rnd.Uint64())
	binary.BigEndian.PutUint64(b[8:], rnd.Uint64()>>rnd.IntN(64))
	switch rnd.IntN(8) {
	case 0: // zeros in front: ::/96, mapped, SIIT
		copy(b[:10], make([]byte, 10))
		b[10] |= byte(-rnd.IntN(2))
		b[11] |= byte(-rnd.IntN(2))
	case 1:
		copy(b[:], "\x00\x64\xff\x9b\x00\x00")
		b[5] = byte(rnd.IntN(3))
	case 2: // 2001::/16, where most special prefixes are
		b[0], b[1], b[2] = 0x20, 0x01, b[2]&0x0f
	case 3:
		copy(b[8:], "\x00\x00\x5e\xfe")
		b[8] = byte(rnd.IntN(4))
	case 4:
		b[0], b[1] = 0x3f, 0xff
		b[2] &= 0x1f
	default: // 2000::/3
		b[0] = b[0]&0x1f | 0x20
	}
	return netip.AddrFrom16(b)
}

func publicByArithmetic(addr netip.Addr) bool {
	if addr.Is4() || addr.Is4In6() {
		b := addr.Unmap().As4()
		return publicIPv4ByArithmetic(binary.BigEndian.Uint32(b[:]))
	}
	b := addr.As16()
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	switch {
	case hi>>61 != 1,
		hi>>41 == 0x20010000_00000000>>41,
		hi>>32 == 0x20010db8,
		hi>>48 == 0x2002,
		hi>>16 == 0x2620004f8000,
		hi>>44 == 0x3fff0,
		lo>>32 == 0x5efe, lo>>32 == 0x02005efe:
		return false
	}
	return true
}

func publicIPv4ByArithmetic(n uint32) bool {
	ranges := [][2]uint32{
		{0x00000000, 0x00ffffff},
		{0x0a000000, 0x0affffff},
		{0x64400000, 0x647fffff},
		{0x7f000000, 0x7fffffff},
		{0xa83f8110, 0xa83f8110},
		{0xa9fe0000, 0xa9feffff},
		{0xac100000, 0xac1fffff},
		{0xc0000000, 0xc00000ff},
		{0xc0000200, 0xc00002ff},
		{0xc01fc400, 0xc01fc4ff},
		{0xc034c100, 0xc034c1ff},
		{0xc0586300, 0xc05863ff},
		{0xc0a80000, 0xc0a8ffff},
		{0xc0af3000, 0xc0af30ff},
		{0xc6120000, 0xc613ffff},
		{0xc6336400, 0xc63364ff},
		{0xcb007100, 0xcb0071ff},
		{0xe0000000, 0xffffffff},
	}
	for _, r := range ranges {
		if n >= r[0] && n <= r[1] {
			return false
		}
	}
	return true
}

func TestN02_ControlReadsTheAddressThatIsDialled(t *testing.T) {
	t.Parallel()
	guard := NewGuard(GuardOptions{})
	tests := []struct {
		network, address string
		ok               bool
	}{
		{"tcp4", "8.8.8.8:443", true},
		{"tcp6", "[2606:4700:4700::1111]:443", true},
		{"tcp4", "8.8.8.8:0", false},
		{"tcp4", "127.0.0.1:443", false},
		{"tcp6", "[::ffff:127.0.0.1]:443", false},
		{"tcp6", "[fe80::1%lo]:443", false},
		{"tcp", "localhost:443", false},
		{"tcp", "", false},
		{"udp4", "8.8.8.8:443", false},
		{"unix", "/var/run/docker.sock", false},
		{"unix", "8.8.8.8:443", false},
		{"ip4:icmp", "8.8.8.8", false},
	}
	refused := uint64(0)
	for _, tt := range tests {
		err := guard.Control(context.Background(), tt.network, tt.address, nil)
		if (err == nil) != tt.ok {
			t.Errorf("%s %s: got %v", tt.network, tt.address, err)
		}
		if err != nil {
			refused++
			if err != errBlocked {
				t.Errorf("%s %s: another error than for the rest: %v", tt.network, tt.address, err)
			}
		}
	}
	if guard.Refused() != refused {
		t.Errorf("Refused: got %d, want %d", guard.Refused(), refused)
	}
}

func TestN05_AllowRules(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rules  string
		target string
		ok     bool
	}{
		{"127.0.0.1/32", "127.0.0.1:80", true},
		{"127.0.0.1", "[::ffff:127.0.0.1]:80", true},
		{"127.0.0.1/32", "127.0.0.2:80", false},
		{"127.0.0.1/32", "[::1]:80", false},
		{"::1", "[::1]:80", true},
		{"10.0.0.0/8", "10.1.2.3:1", true},
		{"10.0.0.0/8:8443", "10.1.2.3:8443", true},
		{"10.0.0.0/8:8443", "10.1.2.3:443", false},
		{"10.0.0.0/8:8443 10.0.0.0/8:443", "10.1.2.3:443", true},
		{"[fd00::/8]:8443", "[fd00::1]:8443", true},
		{"[fd00::/8]:8443", "[fd00::1]:443", false},
		{"[fd00::/8]:8443", "[fd00::1%eth0]:8443", true},
		{"10.0.0.0/8", "8.8.8.8:443", true},

		// What gives out credentials has to be named alone.
		{"0.0.0.0/0 ::/0", "169.254.169.254:80", false},
		{"169.254.0.0/16", "169.254.169.254:80", false},
		{"169.254.169.254/31", "169.254.169.254:80", false},
		{"169.254.169.254/32", "169.254.169.254:80", true},
		{"169.254.169.254:81", "169.254.169.254:80", false},
		{"100.64.0.0/10", "100.64.0.1:80", true},
		{"100.64.0.0/10", "100.100.100.200:80", false},
		{"0.0.0.0/0", "192.0.0.192:80", false},
		{"0.0.0.0/0", "168.63.129.16:80", false},
		{"0.0.0.0/0", "0.0.0.0:80", false},
		{"::/0", "[::]:80", false},
		{"fe80::/10", "[fe80::1%eth0]:80", false},
		{"fe80::1", "[fe80::1%eth0]:80", true},
		{"fc00::/7", "[fd00:ec2::254]:80", false},
		{"fd00:ec2::254", "[fd00:ec2::254]:80", true},
		{"fc00::/7", "[fd20:ce::254]:80", false},

		// Our own listeners, 127.0.0.1:2319 and, on all addresses, port 2320.
		{"127.0.0.0/8", "127.0.0.1:8080", true},
		{"127.0.0.0/8", "127.0.0.1:2319", false},
		{"127.0.0.0/8", "[::ffff:127.0.0.1]:2319", false},
		{"127.0.0.0/8", "127.0.0.2:2319", true},
		{"127.0.0.0/8", "127.9.9.9:2320", false},
		{"::/127", "[::1]:2320", false},
		{"127.0.0.1/32", "127.0.0.1:2319", true},
		{"", "8.8.8.8:2320", true},
	}
	for _, tt := range tests {
		guard := NewGuard(GuardOptions{Allow: rules(t, tt.rules), Own: []netip.AddrPort{
			netip.MustParseAddrPort("127.0.0.1:2319"), netip.MustParseAddrPort("[::]:2320"),
		}})
		if got := guard.Permits(netip.MustParseAddrPort(tt.target)); got != tt.ok {
			t.Errorf("rules %q, target %s: permitted: %v", tt.rules, tt.target, got)
		}
	}
}

func TestN04_AnOpenedTranslatorIsJudgedByWhatItLeadsTo(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rules  string
		target string
		ok     bool
	}{
		{"", "[64:ff9b::8.8.8.8]:443", false},
		{"64:ff9b::/96", "[64:ff9b::8.8.8.8]:443", true},
		{"64:ff9b::/96", "[64:ff9b::10.0.0.1]:443", false},
		{"64:ff9b::/96 10.0.0.0/8", "[64:ff9b::10.0.0.1]:443", true},
		{"64:ff9b::/96 10.0.0.0/8:80", "[64:ff9b::10.0.0.1]:443", false},
		{"64:ff9b::/96 0.0.0.0/0", "[64:ff9b::169.254.169.254]:443", false},
		{"64:ff9b::/96", "[64:ff9b:1::8.8.8.8]:443", false},
		{"64:ff9b:1::/48", "[64:ff9b:1::8.8.8.8]:443", true},
		{"64:ff9b:1::/48", "[64:ff9b:1::127.0.0.1]:443", false},
		{"2002::/16", "[2002:7f00:1::]:443", false},
		{"2002::/16", "[2002:808:808::]:443", true},
		{"2001::/32", "[2001:0:808:808::80ff:fffe]:443", false},     // 127.0.0.1, inverted
		{"2001::/32", "[2001:0:7f00:1::f7f7:f7f7]:443", true},       // 8.8.8.8, inverted
		{"2607:f8b0::/32", "[2607:f8b0::5efe:10.0.0.1]:443", false}, // ISATAP
		{"::/96", "[::127.0.0.1]:443", false},
		{"::ffff:0:0:0/96", "[::ffff:0:127.0.0.1]:443", false},
	}
	for _, tt := range tests {
		guard := NewGuard(GuardOptions{Allow: rules(t, tt.rules)})
		if got := guard.Permits(netip.MustParseAddrPort(tt.target)); got != tt.ok {
			t.Errorf("rules %q, target %s: permitted: %v", tt.rules, tt.target, got)
		}
	}
}

func TestParseAllow_RefusesWhatIsAmbiguous(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "localhost", "10.0.0.1/8", "fd00::1/8", "10.0.0.0/33", "10.0.0.0/8:0", "10.0.0.0/8:65536", "10.0.0.0/8:http",
		"10.0.0.0/8:", "[fd00::/8", "[fd00::/8]8443", "[fd00::/8]:", "fe80::1%eth0", "::ffff:10.0.0.0/104", "10/8", "*",
	} {
		if rule, err := ParseAllow(text); err == nil {
			t.Errorf("%q: got %+v", text, rule)
		}
	}
	got, err := ParseAllow("::ffff:127.0.0.1")
	if err != nil || got.Prefix != netip.MustParsePrefix("127.0.0.1/32") {
		t.Errorf("a mapped address: got %v, %v", got, err)
	}
}

func rules(t *testing.T, text string) []AllowRule {
	t.Helper()
	var list []AllowRule
	for _, field := range strings.Fields(text) {
		rule, err := ParseAllow(field)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, rule)
	}
	return list
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
