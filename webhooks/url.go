package webhooks

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

const (
	maxURL   = 2048
	maxHost  = 253
	maxLabel = 63
)

// ParseURL reads the URL of an endpoint and refuses what two programs might read
// differently, or what could not be requested. Its errors hold no part of the URL,
// since a URL may hold secrets. It looks at the text alone: whether the address is
// allowed is for [Guard.CheckURL] and, in the end, for the dial.
func ParseURL(raw string) (*url.URL, error) {
	if raw == "" {
		return nil, errors.New("is missing")
	}
	if len(raw) > maxURL {
		return nil, errors.New("is longer than 2048 bytes")
	}
	for i := 0; i < len(raw); i++ {
		if c := raw[i]; c <= ' ' || c > '~' {
			return nil, errors.New("has a space, a control character or one outside ASCII; " +
				"percent-encode it, and write an international host name as xn--…")
		}
	}
	u, err := url.Parse(raw)
	if err != nil {
		// What url.Parse says quotes the URL, or the part of a password.
		return nil, errors.New("cannot be parsed")
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("does not start with https:// or http://")
	case u.User != nil:
		return nil, errors.New("has a user name or password; use an Authorization header")
	case strings.Contains(raw, "#"):
		return nil, errors.New("has a fragment (#…), which is never sent")
	case u.Host == "":
		return nil, errors.New("has no host")
	}
	if err := checkHost(u); err != nil {
		return nil, err
	}
	return u, checkPort(u)
}

func checkPort(u *url.URL) error {
	port := u.Port()
	if port == "" {
		if strings.HasSuffix(u.Host, ":") {
			return errors.New("has a colon without a port after the host")
		}
		return nil
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return errors.New("has a port that is not one of 1 to 65535")
	}
	return nil
}

func checkHost(u *url.URL) error {
	host := u.Hostname()
	if strings.HasPrefix(u.Host, "[") {
		if addr, err := netip.ParseAddr(host); err != nil || !addr.Is6() || addr.Zone() != "" {
			return errors.New("has a host in brackets that is not an IPv6 address without a zone")
		}
		return nil
	}
	name := strings.TrimSuffix(host, ".")
	if name == "" || len(name) > maxHost {
		return errors.New("has a host name that is not 1 to 253 characters long")
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxLabel {
			return errors.New("has a host name with a part that is not 1 to 63 characters long")
		}
		for i := 0; i < len(label); i++ {
			if c := label[i]; !isAlnum(c) && c != '-' && c != '_' {
				return errors.New("has a host name with a character other than A-Z a-z 0-9 . _ and -")
			}
		}
		last = label
	}
	// Browsers and C libraries read 127.1, 0x7f000001 and 2130706433 as addresses. We
	// would ask a name server for them; nobody means that.
	if looksNumeric(last) {
		if addr, err := netip.ParseAddr(host); err != nil || !addr.Is4() {
			return errors.New("has a host that is neither a name nor an IPv4 address of four decimal numbers")
		}
	}
	return nil
}

// looksNumeric says whether a name that ends in this label is taken for an IPv4
// address by the rules that browsers follow.
func looksNumeric(label string) bool {
	if isDigits(label) {
		return true
	}
	digits, ok := strings.CutPrefix(strings.ToLower(label), "0x")
	return ok && strings.Trim(digits, "0123456789abcdef") == ""
}
