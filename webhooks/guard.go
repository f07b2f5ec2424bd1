package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// errBlocked is the same for every address, so that nobody can scan a network by
// comparing errors: it is decided before anything is sent.
var errBlocked = errors.New("the endpoint's address is not one that may be dialled")

// AllowRule opens addresses that the guard denies by default.
type AllowRule struct {
	Prefix netip.Prefix
	// Port is the only one opened; 0 opens all.
	Port uint16
}

// ParseAllow reads a rule: 10.0.0.0/8, 127.0.0.1, 10.0.0.0/8:8443, fd00::/8,
// [fd00::/8]:8443. An address alone is a prefix of its full length.
func ParseAllow(text string) (AllowRule, error) {
	prefix, port, hasPort := text, "", false
	if rest, ok := strings.CutPrefix(text, "["); ok {
		prefix, port, ok = strings.Cut(rest, "]")
		if !ok || port != "" && !strings.HasPrefix(port, ":") {
			return AllowRule{}, fmt.Errorf("allow rule %q: brackets belong around the prefix, a port comes behind them", text)
		}
		port, hasPort = strings.CutPrefix(port, ":")
	} else if strings.Count(text, ":") == 1 {
		prefix, port, hasPort = strings.Cut(text, ":")
	}

	var rule AllowRule
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return AllowRule{}, fmt.Errorf("allow rule %q: the port is not one of 1 to 65535", text)
		}
		rule.Port = uint16(n)
	}
	var err error
	if rule.Prefix, err = parsePrefix(prefix); err != nil {
		return AllowRule{}, fmt.Errorf("allow rule %q: %w", text, err)
	}
	return rule, nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, errors.New("not an address without a zone")
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, errors.New("not an address or a prefix such as 10.0.0.0/8")
	case prefix.Addr().Is4In6():
		return netip.Prefix{}, errors.New("an IPv4 prefix is written without the ::ffff: before it")
	case prefix != prefix.Masked():
		// 127.0.0.1/8 may mean one address or sixteen million; better ask.
		return netip.Prefix{}, fmt.Errorf("has bits behind the prefix; want %s, or the address alone", prefix.Masked())
	}
	return prefix, nil
}

// GuardOptions configure a [Guard]. The zero value opens nothing beyond the public
// internet.
type GuardOptions struct {
	// Allow opens private targets. Link-local addresses, the metadata services of
	// clouds and Own stay denied, unless a rule names just that one address. A rule
	// for a prefix that embeds IPv4 (64:ff9b::/96 of a DNS64 network) opens it for
	// those IPv4 addresses that are themselves allowed.
	Allow []AllowRule
	// Own are addresses that must not be pushed to: our listeners, the store. An
	// unspecified address (0.0.0.0, ::) stands for the port on every address that is
	// not public.
	Own []netip.AddrPort
	// HTTPSOnly refuses URLs that start with http://.
	HTTPSOnly bool
}

// Guard decides which addresses may be dialled. Safe for concurrent use.
type Guard struct {
	options GuardOptions
	refused atomic.Uint64
}

// NewGuard returns a guard.
func NewGuard(o GuardOptions) *Guard { return &Guard{options: o} }

// Refused counts the addresses that were refused at a dial, or left out of a
// name's answer, since the guard was made.
func (g *Guard) Refused() uint64 { return g.refused.Load() }

// Control refuses an address at the last moment before a connection is made to it.
// It is a [net.Dialer.ControlContext].
func (g *Guard) Control(_ context.Context, network, address string, _ syscall.RawConn) error {
	if target, err := netip.ParseAddrPort(address); err == nil && strings.HasPrefix(network, "tcp") && g.Permits(target) {
		return nil
	}
	g.refused.Add(1)
	return errBlocked
}

// Permits says whether an address may be dialled.
func (g *Guard) Permits(target netip.AddrPort) bool {
	// A zone makes Prefix.Contains false, and ::ffff:127.0.0.1 is in no IPv4 prefix.
	addr, port := target.Addr().WithZone("").Unmap(), target.Port()
	if !addr.IsValid() || port == 0 {
		return false
	}
	listed, alone := g.listed(addr, port)
	switch {
	case alone:
		return true
	case contains(protected, addr), g.own(addr, port):
		return false
	}
	if inner, ok := embeddedIPv4(addr); ok {
		return listed && g.Permits(netip.AddrPortFrom(inner, port))
	}
	return listed || isPublic(addr)
}

// listed says whether a rule opens the address, and whether one names it alone.
func (g *Guard) listed(addr netip.Addr, port uint16) (listed, alone bool) {
	for _, rule := range g.options.Allow {
		if (rule.Port == 0 || rule.Port == port) && rule.Prefix.Contains(addr) {
			listed = true
			alone = alone || rule.Prefix.IsSingleIP()
		}
	}
	return listed, alone
}

func (g *Guard) own(addr netip.Addr, port uint16) bool {
	for _, own := range g.options.Own {
		if own.Port() != port {
			continue
		}
		if a := own.Addr().WithZone("").Unmap(); a == addr || a.IsUnspecified() && !isPublic(addr) {
			return true
		}
	}
	return false
}

// CheckURL judges a URL when it is configured. Beyond [ParseURL] it refuses an
// address in figures that would be blocked at every attempt; names are not resolved.
func (g *Guard) CheckURL(raw string) error {
	u, err := ParseURL(raw)
	if err != nil {
		return err
	}
	if err := g.checkScheme(u); err != nil {
		return err
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && !g.Permits(netip.AddrPortFrom(addr, portOf(u))) {
		return errors.New("leads to an address that is private, reserved or our own, " +
			"and that the configuration does not open (--egress-allow)")
	}
	return nil
}

func (g *Guard) checkScheme(u *url.URL) error {
	if g.options.HTTPSOnly && u.Scheme != "https" {
		return errors.New("does not start with https://, which is required here")
	}
	return nil
}

// portOf returns the port of a URL that [ParseURL] took.
func portOf(u *url.URL) uint16 {
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(n)
	}
	if u.Scheme == "https" {
		return 443
	}
	return 80
}
