package webhooks

import (
	"context"
	"net/netip"
	"strings"
	"testing"
)

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
