package webhooks

import "net/netip"

// special are the prefixes that are not the public internet: IANA's registries of
// special-purpose addresses, whole, and what has been withdrawn since. Entries that
// the registries call globally reachable (anycast relays, AS112) are in it as well:
// no endpoint lives there.
var special = prefixes(
	"0.0.0.0/8",       // this network
	"10.0.0.0/8",      // private
	"100.64.0.0/10",   // shared by carriers; metadata of Alibaba
	"127.0.0.0/8",     // loopback
	"169.254.0.0/16",  // link-local; metadata
	"172.16.0.0/12",   // private
	"192.0.0.0/24",    // protocol assignments; metadata of Oracle
	"192.0.2.0/24",    // documentation
	"192.31.196.0/24", // AS112
	"192.52.193.0/24", // AMT relays
	"192.88.99.0/24",  // 6to4 relays
	"192.168.0.0/16",  // private
	"192.175.48.0/24", // AS112
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"224.0.0.0/4",     // multicast
	"240.0.0.0/4",     // reserved, broadcast

	// Public by number, and yet the host's own agent on Azure.
	"168.63.129.16/32",

	// Outside 2000::/3 nothing is public, so these are the exceptions inside it.
	"2001::/23",         // protocol assignments: Teredo, ORCHID, benchmarks
	"2001:db8::/32",     // documentation
	"2002::/16",         // 6to4
	"2620:4f:8000::/48", // AS112
	"3fff::/20",         // documentation
)

// publicIPv6 is all that IANA has given out for the internet.
var publicIPv6 = netip.MustParsePrefix("2000::/3")

// protected stay denied also where an operator opened the network around them:
// what answers there gives out credentials, or is this host by another name.
var protected = prefixes(
	"0.0.0.0/8",
	"::/128",
	"169.254.0.0/16",
	"fe80::/10",
	"100.100.100.200/32", // Alibaba
	"168.63.129.16/32",   // Azure
	"192.0.0.192/32",     // Oracle
	"fd00:ec2::/32",      // AWS
	"fd20:ce::254/128",   // Google
)

func isPublic(addr netip.Addr) bool {
	if addr.Is6() && !publicIPv6.Contains(addr) {
		return false
	}
	_, embeds := embeddedIPv4(addr)
	return !embeds && !contains(special, addr)
}

// Prefixes whose addresses lead to an IPv4 address that they embed.
var (
	nat64      = prefixes("64:ff9b::/96", "64:ff9b:1::/48")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	teredo     = netip.MustParsePrefix("2001::/32")
	siit       = netip.MustParsePrefix("::ffff:0:0:0/96")
	compatible = netip.MustParsePrefix("::/96")
)

// embeddedIPv4 finds the IPv4 address that a translator or a tunnel would make of
// an IPv6 address. Of a local NAT64 prefix it reads the usual form, with the
// address at the end.
func embeddedIPv4(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	at := func(i int) (netip.Addr, bool) { return netip.AddrFrom4([4]byte(b[i : i+4])), true }
	switch {
	case contains(nat64, addr), siit.Contains(addr):
		return at(12)
	case compatible.Contains(addr) && addr != netip.IPv6Loopback() && !addr.IsUnspecified():
		return at(12)
	case sixToFour.Contains(addr):
		return at(2)
	case teredo.Contains(addr):
		for i := 12; i < 16; i++ {
			b[i] ^= 0xff // Teredo hides it from translators that rewrite what they see
		}
		return at(12)
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe:
		return at(12) // ISATAP, under any prefix; the bit says whether it is unique
	default:
		return netip.Addr{}, false
	}
}

func contains(list []netip.Prefix, addr netip.Addr) bool {
	for _, p := range list {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}
