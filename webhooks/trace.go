package webhooks

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// childTraceparent continues a W3C trace under a new span id, or returns the empty
// string if the parent is not one. A later version is read by its first four
// fields and answered as version 00, as the recommendation says.
func childTraceparent(parent string) string {
	const size = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	if len(parent) < size || len(parent) > size && (parent[:2] == "00" || parent[size] != '-') {
		return ""
	}
	fields := strings.SplitN(parent, "-", 5)
	if len(fields) < 4 {
		return ""
	}
	version, trace, span, flags := fields[0], fields[1], fields[2], fields[3]
	if !isHex(version, 2) || version == "ff" || !isHex(trace, 32) || !isHex(span, 16) || !isHex(flags, 2) ||
		strings.Trim(trace, "0") == "" || strings.Trim(span, "0") == "" {
		return ""
	}
	var id [8]byte
	rand.Read(id[:]) // never returns an error
	return "00-" + trace + "-" + hex.EncodeToString(id[:]) + "-" + flags
}

func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}
