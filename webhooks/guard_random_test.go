package webhooks

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

// TestN01_AMillionRandomAddresses compares the guard with two other statements of the
// rules: one in arithmetic, and one that holds each address bit by bit against a list
// that it reads by itself.
func TestN01_AMillionRandomAddresses(t *testing.T) {
	t.Parallel()
	const addresses = 1_000_000
	guard := NewGuard(GuardOptions{})
	rnd := rand.New(rand.NewPCG(1, 2))
	denied := bitLists(t, notPublic)
	deniedTrees := grow(denied)
	permitted := 0
	for i := range addresses {
		addr := randomAddr(rnd)
		if i%2 == 0 {
			addr = denied[rnd.IntN(len(denied))].near(rnd)
		}
		got := guard.Permits(netip.AddrPortFrom(addr, 443))
		if want := publicByArithmetic(addr); got != want {
			t.Fatalf("%s: permitted: %v, by arithmetic %v", addr, got, want)
		}
		if want := publicByBits(deniedTrees, addr); got != want {
			t.Fatalf("%s: permitted: %v, bit by bit %v", addr, got, want)
		}
		if got {
			permitted++
		}
	}
	if permitted < addresses/10 || permitted > addresses*9/10 {
		t.Errorf("%d of %d permitted: the sample is lopsided", permitted, addresses)
	}
}

// TestN05_RandomAddressesWithEverythingOpen opens all networks there are: what gives out
// credentials stays closed, and so does what leads to it.
func TestN05_RandomAddressesWithEverythingOpen(t *testing.T) {
	t.Parallel()
	guard := NewGuard(GuardOptions{Allow: rules(t, "0.0.0.0/0 ::/0")})
	rnd := rand.New(rand.NewPCG(3, 4))
	closed := bitLists(t, neverOpen)
	closedTrees := grow(closed)
	refused := 0
	for i := range 200_000 {
		addr := randomAddr(rnd)
		if i%2 == 0 {
			addr = closed[rnd.IntN(len(closed))].near(rnd)
		}
		got, want := guard.Permits(netip.AddrPortFrom(addr, 443)), !leadsInto(closedTrees, addr)
		if got != want {
			t.Fatalf("%s: permitted: %v, want %v", addr, got, want)
		}
		if !got {
			refused++
		}
	}
	if refused < 20_000 {
		t.Errorf("%d refused: the sample is lopsided", refused)
	}
}

// notPublic is the network that is not public, as the registries of special addresses
// write it, one prefix a line. What is outside 2000::/3 is not in it.
const notPublic = `
0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12
192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24
198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 255.255.255.255/32 168.63.129.16/32
::/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001:db8::/32 2002::/16
2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8
0000::/3 4000::/2 8000::/1
`

// neverOpen is opened by no rule for a network, however large.
const neverOpen = `
0.0.0.0/8 169.254.0.0/16 100.100.100.200/32 168.63.129.16/32 192.0.0.192/32
::/128 fe80::/10 fd00:ec2::/32 fd20:ce::254/128
`

// bits is a prefix as a text of 0 and 1, of IPv4 or IPv6.
type bits struct {
	text  string
	width int
}

func bitLists(t *testing.T, text string) []bits {
	t.Helper()
	var list []bits
	for _, field := range strings.Fields(text) {
		address, length, _ := strings.Cut(field, "/")
		n, err := strconv.Atoi(length)
		if err != nil {
			t.Fatal(err)
		}
		all := bitsOf(t, address)
		list = append(list, bits{all[:n], len(all)})
	}
	return list
}

// bitsOf reads an address without any library for addresses.
func bitsOf(t *testing.T, address string) string {
	t.Helper()
	separator, base, size, count := ".", 10, 8, 4
	if strings.Contains(address, ":") {
		separator, base, size, count = ":", 16, 16, 8
		if front, back, gap := strings.Cut(address, "::"); gap {
			parts := func(s string) []string { return strings.FieldsFunc(s, func(r rune) bool { return r == ':' }) }
			f, b := parts(front), parts(back)
			for len(f)+len(b) < count {
				f = append(f, "0")
			}
			address = strings.Join(append(f, b...), ":")
		}
	}
	parts := strings.Split(address, separator)
	if len(parts) != count {
		t.Fatalf("%q has %d parts", address, len(parts))
	}
	var out strings.Builder
	for _, part := range parts {
		n, err := strconv.ParseUint(part, base, size)
		if err != nil {
			t.Fatal(err)
		}
		text := strconv.FormatUint(n, 2)
		out.WriteString(strings.Repeat("0", size-len(text)) + text)
	}
	return out.String()
}

// near returns an address in the prefix, or one bit beside it.
func (b bits) near(rnd *rand.Rand) netip.Addr {
	raw := make([]byte, b.width/8)
	for i := range b.width {
		one := rnd.IntN(2) == 1
		if i < len(b.text) {
			one = b.text[i] == '1'
		}
		if one {
			raw[i/8] |= 0x80 >> (i % 8)
		}
	}
	if len(b.text) > 0 && rnd.IntN(2) == 0 {
		flip := len(b.text) - 1 - rnd.IntN(min(len(b.text), 4))
		raw[flip/8] ^= 0x80 >> (flip % 8)
	}
	addr, _ := netip.AddrFromSlice(raw) // 4 or 16 bytes
	return addr
}

// tree holds prefixes of one width, a bit a step.
type tree struct {
	next [2]*tree
	ends bool
}

// trees are those of IPv4 and IPv6.
type trees struct{ four, six tree }

func grow(list []bits) *trees {
	both := &trees{}
	for _, b := range list {
		at := &both.six
		if b.width == 32 {
			at = &both.four
		}
		for i := range len(b.text) {
			next := &at.next[b.text[i]-'0']
			if *next == nil {
				*next = &tree{}
			}
			at = *next
		}
		at.ends = true
	}
	return both
}

func (both *trees) hold(raw []byte) bool {
	at := &both.six
	if len(raw) == 4 {
		at = &both.four
	}
	for i := 0; at != nil; i++ {
		if at.ends {
			return true
		}
		if i == 8*len(raw) {
			return false
		}
		at = at.next[raw[i/8]>>(7-i%8)&1]
	}
	return false
}

// plain is an address as bytes, IPv4 wherever it is mapped.
func plain(addr netip.Addr) []byte {
	raw := addr.AsSlice()
	if len(raw) == 16 && string(raw[:12]) == "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff" {
		return raw[12:]
	}
	return raw
}

func publicByBits(denied *trees, addr netip.Addr) bool {
	raw := plain(addr)
	return !denied.hold(raw) && !isISATAP(raw)
}

func isISATAP(raw []byte) bool {
	return len(raw) == 16 && (raw[8] == 0 || raw[8] == 2) && string(raw[9:12]) == "\x00\x5e\xfe"
}

// leadsInto says whether an address is in the list, or embeds one that is.
func leadsInto(list *trees, addr netip.Addr) bool {
	raw := plain(addr)
	if list.hold(raw) {
		return true
	}
	if len(raw) != 16 {
		return false
	}
	loopback := netip.IPv6Loopback().AsSlice()
	switch head := string(raw[:12]); {
	case head == "\x00\x64\xff\x9b\x00\x00\x00\x00\x00\x00\x00\x00", // NAT64
		string(raw[:6]) == "\x00\x64\xff\x9b\x00\x01",              // local NAT64
		head == "\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00", // SIIT
		head == string(make([]byte, 12)) && string(raw) != string(loopback),
		isISATAP(raw) && string(raw[:2]) != "\x20\x02" && string(raw[:4]) != "\x20\x01\x00\x00":
		return list.hold(raw[12:])
	case string(raw[:2]) == "\x20\x02": // 6to4
		return list.hold(raw[2:6])
	case string(raw[:4]) == "\x20\x01\x00\x00": // Teredo
		return list.hold([]byte{^raw[12], ^raw[13], ^raw[14], ^raw[15]})
	}
	return false
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
