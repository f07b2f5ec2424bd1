package api

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// checkBrowser refuses what a web page may have made its reader's browser send: where
// callers have no keys, a page of anybody could call a server on loopback. Where they
// have, it is not needed: a browser adds no key by itself, and a page has none.
func (s *Server) checkBrowser(r *http.Request) error {
	if !s.open {
		return nil
	}
	name, value := "Sec-Fetch-Site", r.Header.Get("Sec-Fetch-Site")
	if value == "" {
		name, value = "Origin", r.Header.Get("Origin")
	}
	if value == "" {
		return nil // no browser
	}
	if s.origins.Check(r) != nil {
		return &browserError{fmt.Sprintf("header %s says %q: a web page of another origin sent this; "+
			"call the server from a program, or through a proxy that knows who is calling and takes this header away", name, clip(value))}
	}
	// A page can point a name of its own to loopback, and is then of the same origin.
	if !isLoopbackHost(r.Host) {
		return &browserError{fmt.Sprintf("header Host says %q, which is no loopback address, and header %s that a browser sent this; "+
			"call the server as http://127.0.0.1 or http://localhost, with its port", clip(r.Host), name)}
	}
	return nil
}

// ownHost refuses whatever asks for another host than this machine. Profiles are read
// by GET, of which browsers do not say that they sent it.
func ownHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopbackHost(r.Host) {
			http.Error(w, fmt.Sprintf("header Host says %q, which is no loopback address; "+
				"call this listener as http://127.0.0.1 or http://localhost, with its port", clip(r.Host)), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLoopbackHost judges a Host header. Names are not resolved, for whoever owns a name
// says what it resolves to.
func isLoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}
