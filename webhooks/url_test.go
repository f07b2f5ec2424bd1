package webhooks

import (
	"strings"
	"testing"
)

func TestN06_URLs(t *testing.T) {
	t.Parallel()
	good := []string{
		"https://example.com", "http://example.com/", "https://example.com:8443/hooks?team=a%20b&x=%23",
		"HTTPS://EXAMPLE.COM/", "https://xn--bcher-kva.example/", "https://a_b.example.com./", "https://3com.com/",
		"https://8.8.8.8/", "https://[2606:4700:4700::1111]:443/", "https://localhost/", "http://127.0.0.1:8080/",
		"https://example.com/@x:y", "https://e.com/" + strings.Repeat("a", 2034), "https://0x.example/", "https://1.2.3.4.com/",
	}
	for _, raw := range good {
		if _, err := ParseURL(raw); err != nil {
			t.Errorf("%.60s: %v", raw, err)
		}
	}
	bad := []string{
		// not a URL that can be requested
		"", "example.com", "//example.com/", "/hooks", "https:", "https:/example.com", "https:example.com", "https://", "https:///x",
		"https://?x", "https://e.com/" + strings.Repeat("a", 2035), "https://e.com/%zz", "https://[::1",
		// other schemes
		"ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "unix:///var/run/docker.sock", "ws://example.com/",
		"javascript:alert(1)", "data:,x", "http+unix://x/",
		// user names, fragments
		"https://user@example.com/", "https://user:pass@example.com/", "https://:pass@example.com/", "https://@example.com/",
		"https://example.com@evil.example/", "https://example.com/#x", "https://example.com/#", "https://example.com#@evil.example/",
		// ports
		"https://example.com:0/", "https://example.com:/", "https://example.com:65536/", "https://example.com:-1/",
		"https://example.com:99999999999/", "https://example.com:http/", "https://example.com:80:80/",
		// characters
		"https://example.com/a b", " https://example.com/", "https://example.com/\n", "https://example.com/\x00", "https://exa\tmple.com/",
		"https://example.com/\x7f", "https://example.com/ä", "https://bücher.example/", "https://example.com\\@evil.example/",
		"http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/", "https://exam\u200bple.com/", "https://ex%61mple.com/", "https://exa%00mple.com/",
		// hosts
		"https://.example.com/", "https://example..com/", "https://./", "https://exa mple.com/", "https://exa!mple.com/", "https://*.example.com/",
		"https://" + strings.Repeat("a", 64) + ".com/", "https://" + strings.Repeat("a.", 130) + "com/",
		// numbers that others read as addresses
		"http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/", "http://127.0.1/",
		"http://0/", "http://0x/", "http://1.2.3.256/", "http://1.2.3.4.5/", "http://127.0.0.1./", "http://00.0.0.1/",
		// brackets
		"http://[127.0.0.1]/", "http://[fe80::1%25lo]/", "http://[fe80::1%lo]/", "http://[example.com]/", "http://[::1/", "http://[]/", "http://::1/",
	}
	for _, raw := range bad {
		if u, err := ParseURL(raw); err == nil {
			t.Errorf("%.60q: no error, host %q", raw, u.Host)
		}
	}
}

func TestH10_URLErrorsHoldNothingOfTheURL(t *testing.T) {
	t.Parallel()
	const canary = "canary"
	for _, raw := range []string{
		"https://user:" + canary + "@example.com/", "https://u:" + canary + "#x@example.com/", "https://u:" + canary + "?x@example.com:y/",
		"https://example.com/?key=" + canary + "#", "https://example.com/" + canary + "\n", "https://" + canary + "..com/",
		canary + "://x", "https://example.com:" + canary + "/", "https://example.com/%zz" + canary, "https://[" + canary + "]/",
	} {
		if _, err := ParseURL(raw); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%q: got %v", raw, err)
		}
	}
}

func TestN06_CheckURLKnowsTheGuard(t *testing.T) {
	t.Parallel()
	closed := NewGuard(GuardOptions{})
	opened := NewGuard(GuardOptions{Allow: rules(t, "127.0.0.1:8080 10.0.0.0/8:443"), HTTPSOnly: true})
	tests := []struct {
		guard *Guard
		url   string
		ok    bool
	}{
		{closed, "https://example.com/", true},
		{closed, "http://example.com/", true},
		{closed, "https://8.8.8.8/", true},
		{closed, "http://127.0.0.1:8080/", false},
		{closed, "http://[::1]/", false},
		{closed, "http://[::ffff:10.0.0.1]/", false},
		{closed, "http://169.254.169.254/latest/meta-data/", false},
		{closed, "https://user@8.8.8.8/", false},
		{opened, "https://127.0.0.1:8080/", true},
		{opened, "https://127.0.0.1/", false},
		{opened, "https://10.0.0.1/", true},
		{opened, "https://10.0.0.1:444/", false},
		{opened, "http://10.0.0.1:443/", false},
		{opened, "http://example.com/", false},
	}
	for _, tt := range tests {
		if err := tt.guard.CheckURL(tt.url); (err == nil) != tt.ok {
			t.Errorf("%s: got %v", tt.url, err)
		}
	}
	private, metadata := closed.CheckURL("http://10.0.0.1/"), closed.CheckURL("http://169.254.169.254/")
	if private == nil || metadata == nil || private.Error() != metadata.Error() {
		t.Errorf("the texts differ: %v, %v", private, metadata)
	}
}

func TestCheckMethod(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"", "POST", "PUT", "PATCH", "DELETE", "GET"} {
		if err := CheckMethod(method); err != nil {
			t.Errorf("%q: %v", method, err)
		}
	}
	for _, method := range []string{"post", "CONNECT", "TRACE", "HEAD", "OPTIONS", "POST ", "POST / HTTP/1.1\r\nX: y"} {
		if err := CheckMethod(method); err == nil {
			t.Errorf("%q: no error", method)
		}
	}
}
