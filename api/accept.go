package api

import (
	"mime"
	"strconv"
	"strings"
)

// mediaRange is one entry of Accept: application/json, application/*, */*.
type mediaRange struct {
	media string
	// q is from 0, which is not accepted, to 1.
	q float64
}

// mediaRanges reads the values of Accept (RFC 9110, section 12.5.1). What is no range
// is skipped, for a header that only chooses is no reason to refuse a call.
func mediaRanges(values []string) []mediaRange {
	var ranges []mediaRange
	for _, value := range values {
		for value != "" {
			var entry string
			entry, value = cutEntry(value)
			media, params, err := mime.ParseMediaType(entry)
			if err != nil {
				continue
			}
			r := mediaRange{media: media, q: 1}
			if text, ok := params["q"]; ok {
				q, err := strconv.ParseFloat(text, 64)
				if err != nil || !(q >= 0 && q <= 1) { // not even NaN
					continue
				}
				r.q = q
			}
			ranges = append(ranges, r)
		}
	}
	return ranges
}

// cutEntry cuts a list at its first comma that is in no quotes.
func cutEntry(list string) (entry, rest string) {
	quoted := false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == ',' && !quoted:
			return list[:i], list[i+1:]
		}
	}
	return list, ""
}

// quality says how much a media type is wanted: what the range says that fits it best,
// and 0 if none fits. Parameters do not count: none of ours has some.
func quality(ranges []mediaRange, media string) float64 {
	class, _, _ := strings.Cut(media, "/")
	var q float64
	best := 0
	for _, r := range ranges {
		fit := 0
		switch r.media {
		case media:
			fit = 3
		case class + "/*":
			fit = 2
		case "*/*":
			fit = 1
		}
		if fit > best || fit > 0 && fit == best && r.q > q {
			best, q = fit, r.q
		}
	}
	return q
}
