package webhooks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// Bounds of making a connection; the attempt's deadline may be sooner.
const (
	dnsTimeout       = 5 * time.Second
	connectTimeout   = 30 * time.Second
	handshakeTimeout = 10 * time.Second
	// fallbackDelay is the head start of the first address family over the other.
	fallbackDelay = 300 * time.Millisecond
	// minAddressTime is what an address gets at least, however many there are.
	minAddressTime = 2 * time.Second
	// maxAddresses bounds how many connections one name can make us try.
	maxAddresses = 16
)

// The names by which TLS settles on a version of HTTP.
const (
	protoHTTP1 = "http/1.1"
	protoHTTP2 = "h2"
)

// dialer makes connections to addresses that the guard permits.
type dialer struct {
	guard    *Guard
	resolver resolver
	tls      *tls.Config
}

// resolver is the part of [net.Resolver] that is used.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// newDialer takes roots to verify endpoints by; nil is the system's.
func newDialer(guard *Guard, roots *x509.CertPool) *dialer {
	return &dialer{
		guard: guard,
		// Go's own resolver: the C library's reads 127.1 and 0x7f000001 as addresses.
		resolver: &net.Resolver{PreferGo: true},
		tls: &tls.Config{
			MinVersion: tls.VersionTLS12,
			RootCAs:    roots,
			NextProtos: []string{protoHTTP1},
		},
	}
}

// connect makes a connection to a target, over TLS if its URL says so.
func (d *dialer) connect(ctx context.Context, t *target) (net.Conn, error) {
	raw, err := d.dial(ctx, t.address)
	if err != nil || t.url.Scheme != "https" {
		return raw, err
	}
	secure := tls.Client(raw, d.config(t))
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, &handshakeError{err}
	}
	return secure, nil
}

// config is what TLS does towards a target. Nothing can turn verification off.
func (d *dialer) config(t *target) *tls.Config {
	c := d.tls.Clone()
	c.ServerName = t.url.Hostname()
	if t.http2 {
		c.NextProtos = []string{protoHTTP2, protoHTTP1}
	}
	if t.identity == nil {
		return c
	}
	if t.identity.roots != nil {
		c.RootCAs = t.identity.roots
	}
	if own := t.identity.certificate; own != nil {
		// Whatever authorities the endpoint names: it may not name them all, and to send
		// none would only have it refuse us in words that nobody understands.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil }
	}
	return c
}

func (d *dialer) dial(ctx context.Context, address string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, err
	}
	targets, err := d.resolve(ctx, host, uint16(port))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return d.race(ctx, targets)
}

// resolve returns the permitted addresses of a host, in the resolver's order of
// preference. If there are none, because all are denied, that is errBlocked.
func (d *dialer) resolve(ctx context.Context, host string, port uint16) ([]netip.AddrPort, error) {
	addrs := []netip.Addr{}
	if addr, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, addr)
	} else {
		ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
		defer cancel()
		if addrs, err = d.resolver.LookupNetIP(ctx, "ip", host); err != nil {
			return nil, err
		}
	}
	var targets []netip.AddrPort
	for _, addr := range addrs {
		target := netip.AddrPortFrom(addr.Unmap(), port)
		if !d.guard.Permits(target) {
			d.guard.refused.Add(1)
			continue
		}
		if targets = append(targets, target); len(targets) == maxAddresses {
			break
		}
	}
	if len(targets) == 0 {
		return nil, errBlocked
	}
	return targets, nil
}

// race dials the addresses of the first one's family, and those of the other
// family a moment later or when the first have failed. It returns when both have
// ended, with the first connection, or with the first family's error.
func (d *dialer) race(ctx context.Context, targets []netip.AddrPort) (net.Conn, error) {
	var first, second []netip.AddrPort
	for _, t := range targets {
		if t.Addr().Is4() == targets[0].Addr().Is4() {
			first = append(first, t)
		} else {
			second = append(second, t)
		}
	}
	if len(second) == 0 {
		return d.inTurn(ctx, first)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		conn net.Conn
		err  error
	}
	outcomes := make(chan outcome)
	running := 0
	start := func(targets []netip.AddrPort) {
		running++
		go func() {
			c, err := d.inTurn(ctx, targets)
			outcomes <- outcome{c, err}
		}()
	}
	start(first)
	headStart := time.NewTimer(fallbackDelay)
	defer headStart.Stop()

	var winner net.Conn
	var firstErr error
	for running > 0 {
		select {
		case <-headStart.C:
			if second != nil && winner == nil {
				start(second)
				second = nil
			}
		case o := <-outcomes:
			running--
			switch {
			case o.err == nil && winner == nil:
				winner = o.conn
				cancel()
			case o.err == nil:
				o.conn.Close()
			case firstErr == nil:
				firstErr = o.err
			}
			if o.err != nil && second != nil && winner == nil {
				start(second)
				second = nil
			}
		}
	}
	if winner != nil {
		return winner, nil
	}
	return nil, firstErr
}

// inTurn dials one address after the other and gives each a fair share of the time.
func (d *dialer) inTurn(ctx context.Context, targets []netip.AddrPort) (net.Conn, error) {
	// The target is an address, so that nothing is resolved again between the
	// decision and the dial; Control looks at it once more all the same.
	nd := net.Dialer{ControlContext: d.guard.Control}
	var first error
	for i, target := range targets {
		nd.Timeout = 0
		if deadline, ok := ctx.Deadline(); ok {
			nd.Timeout = max(minAddressTime, time.Until(deadline)/time.Duration(len(targets)-i))
		}
		c, err := nd.DialContext(ctx, "tcp", target.String())
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

// handshakeError marks an error of the TLS handshake.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return fmt.Sprintf("TLS handshake: %v", e.err) }
func (e *handshakeError) Unwrap() error { return e.err }
