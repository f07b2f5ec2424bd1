package hostile

import (
	"crypto/tls"
	"strings"
)

// handshakes are what an endpoint can do to TLS, and under it.
func handshakes() []Behaviour {
	stalled, refused := failed("tls_timeout"), failed("tls_error")
	list := []Behaviour{
		{Name: "stalls", Want: stalled, Slow: true, Unread: true, Play: func(c *Conn) { c.Hang() }},
		{Name: "drips", Want: stalled, Slow: true, Unread: true, Play: func(c *Conn) {
			c.Drip("\x16\x03\x03\x40\x00" + strings.Repeat("\x02", 1<<14))
		}},
		{Name: "hangs up", Want: refused, Unread: true, Play: func(c *Conn) { c.Nibble(); c.Close() }},
		{Name: "resets", Want: refused, Unread: true, Play: func(c *Conn) { c.Nibble(); c.Reset() }},
		{Name: "answers in plain HTTP", Want: refused, Unread: true, Play: says("HTTP/1.1 400 Bad Request\r\n\r\n")},
		{Name: "answers noise", Want: refused, Unread: true, Play: says(strings.Repeat("\xff", 100))},
		{Name: "answers an alert", Want: refused, Unread: true, Play: says("\x15\x03\x03\x00\x02\x02\x28")},
		{Name: "floods", Want: refused, Unread: true, Play: func(c *Conn) { c.Flood("\x16\x03\x03\x40\x00") }},
		{Name: "speaks TLS 1.1", Want: refused, Unread: true, Play: func(c *Conn) {
			c.Handshake(&tls.Config{Certificates: c.e.config.Certificates, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
		}},
		{Name: "has no certificate", Want: refused, Unread: true, Play: func(c *Conn) { c.Handshake(&tls.Config{}) }},
		{Name: "has no protocol in common", Want: refused, Unread: true, Play: func(c *Conn) {
			c.Handshake(&tls.Config{Certificates: c.e.config.Certificates, NextProtos: []string{"spdy/3"}})
		}},
		{Name: "is silent after it", Want: timedOut, Slow: true, Unread: true, Play: func(c *Conn) {
			c.Handshake(nil)
			c.Hang()
		}},
		{Name: "closes after it", Want: cutOff, Classes: []string{"closed_before_write"}, Unread: true, Play: func(c *Conn) {
			c.Handshake(nil)
			c.Close()
		}},
		{Name: "breaks a record", Want: cutOff, Play: under("\x17\x03\x03\x00\x20" + strings.Repeat("x", 32))},
		{Name: "goes on in plain HTTP", Want: cutOff, Play: under(okay)},
		{Name: "sends a record that is too long", Want: cutOff, Play: under("\x17\x03\x03\xff\xff" + strings.Repeat("x", 1<<16))},
		{Name: "sends an alert", Want: cutOff, Play: under("\x15\x03\x03\x00\x02\x02\x28")},
		{Name: "answers and breaks a record", Want: delivered(200), Spoils: true, Play: func(c *Conn) {
			if c.Handshake(nil) && c.Request() {
				c.Say(okay)
				c.Raw.Write([]byte("\x17\x03\x03\x00\x20" + strings.Repeat("x", 32)))
			}
		}},
		{Name: "closes a body without a goodbye", Want: delivered(200), Play: func(c *Conn) {
			if c.Handshake(nil) {
				answersAndEnds("HTTP/1.1 200 OK\r\n\r\nhalf")(c)
			}
		}},
		{Name: "says goodbye and stays", Want: delivered(200), Spoils: true, Play: func(c *Conn) {
			if c.Handshake(nil) {
				answers(okay)(c)
				c.HalfClose()
			}
		}},
		{Name: "speaks TLS 1.2", Want: delivered(200), Keeps: true, Play: func(c *Conn) {
			_, secure := c.Conn.(*tls.Conn)
			if secure || c.Handshake(&tls.Config{Certificates: c.e.config.Certificates, MaxVersion: tls.VersionTLS12}) {
				answers(okay)(c)
			}
		}},
	}
	for i := range list {
		list[i].ID, list[i].OnlyTLS = "H-07", true
		list[i].Name = "TLS: " + list[i].Name
	}
	return list
}

// says speaks without having listened.
func says(text string) func(*Conn) {
	return func(c *Conn) {
		c.Say(text)
		c.HalfClose()
		c.Hang()
	}
}

// under reads a request over TLS and answers beneath it.
func under(text string) func(*Conn) {
	return func(c *Conn) {
		if c.Handshake(nil) && c.Request() {
			c.Raw.Write([]byte(text))
		}
		c.Hang()
	}
}
