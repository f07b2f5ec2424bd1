package hostile

import (
	"bytes"
	"compress/gzip"
	"strconv"
	"strings"
	"sync"
)

// bodies are answers whose body is too much, too little, or something else.
func bodies() []Behaviour {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	length := func(n int) string { return "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(n) + "\r\n\r\n" }
	return []Behaviour{
		{ID: "H-01", Name: "endless body without a length", Want: delivered(200), Play: floods("HTTP/1.1 200 OK\r\n\r\n", "x")},
		{ID: "H-01", Name: "endless chunks", Want: delivered(200), Play: floods(chunked, "1000\r\n"+strings.Repeat("x", 0x1000)+"\r\n")},
		{ID: "H-01", Name: "a gigabyte that is said and sent", Want: delivered(200), Play: floods(length(1<<30), "x")},
		{ID: "H-01", Name: "endless body of an error", Want: retryable(500), Play: floods("HTTP/1.1 500 x\r\n\r\n", "x")},
		{ID: "H-01", Name: "endless body of a refusal", Want: rejected(404), Play: floods("HTTP/1.1 404 x\r\n\r\n", "x")},
		{ID: "H-01", Name: "as much as is read", Want: delivered(200), Keeps: true, Play: answers(length(limit) + strings.Repeat("x", limit))},
		{ID: "H-01", Name: "a byte more than is read", Want: delivered(200), Play: answers(length(limit+1) + strings.Repeat("x", limit+1))},
		{ID: "H-01", Name: "body cut short", Want: delivered(200), Play: answersAndEnds(length(100) + "half")},
		{ID: "H-01", Name: "length and nothing more", Want: delivered(200), Play: answersAndEnds(length(1 << 30))},
		{ID: "H-01", Name: "body reset midway", Want: delivered(200), Play: func(c *Conn) {
			if c.Request() {
				c.Say(length(100) + "half")
			}
			c.Reset()
		}},
		{ID: "H-01", Name: "chunk cut midway", Want: delivered(200), Play: answersAndEnds(chunked + "10\r\nhalf")},
		{ID: "H-01", Name: "no last chunk", Want: delivered(200), Play: answersAndEnds(chunked + "4\r\nhalf\r\n")},
		{ID: "H-01", Name: "chunk size of letters", Want: delivered(200), Play: answers(chunked + "4\r\nhalf\r\nZZZ\r\n")},
		{ID: "H-01", Name: "chunk size beyond 64 bits", Want: delivered(200), Play: answers(chunked + "4\r\nhalf\r\nfffffffffffffffff\r\n")},
		{ID: "H-01", Name: "negative chunk size", Want: delivered(200), Play: answers(chunked + "-4\r\nhalf\r\n0\r\n\r\n")},
		{ID: "H-01", Name: "chunk size with 0x", Want: delivered(200), Play: answers(chunked + "0x4\r\nhalf\r\n0\r\n\r\n")},
		{ID: "H-01", Name: "chunk longer than it says", Want: delivered(200), Play: answers(chunked + "1\r\nhalf\r\n0\r\n\r\n")},
		{ID: "H-01", Name: "no chunks where there should be", Want: delivered(200), Play: answersAndEnds(chunked + "<html>hello</html>")},
		{ID: "H-01", Name: "body behind 204", Want: delivered(204), Play: answers("HTTP/1.1 204 x\r\nContent-Length: 4\r\n\r\nbody")},
		{ID: "H-01", Name: "body behind 304", Want: rejected(304), Play: answers("HTTP/1.1 304 x\r\nContent-Length: 4\r\n\r\nbody")},
		{ID: "H-08", Name: "flood of chunk extensions", Want: delivered(200), Play: floods(chunked, "1;x="+strings.Repeat("y", 1000)+"\r\nx\r\n")},
		{ID: "H-08", Name: "endless chunk extension", Want: delivered(200), Play: floods(chunked+"1;x=", "y")},
		{ID: "H-08", Name: "endless trailers", Want: delivered(200), Play: floods(chunked+"0\r\n", "X-Late: x\r\n")},
		{ID: "H-08", Name: "chunks of one byte", Want: delivered(200), Play: floods(chunked, "1\r\nx\r\n")},
		{ID: "H-03", Name: "gzip bomb", Want: delivered(200), Keeps: true, Play: answers(bomb())},
		{ID: "H-03", Name: "bomb that fails", Want: retryable(502), Play: answers(strings.Replace(bomb(), "200 OK", "502 x", 1)), Keeps: true},
		{ID: "H-03", Name: "gzip that is none", Want: delivered(200), Keeps: true, Play: answers(strings.Replace(withLength("200 OK", "\x1f\x8b\x00"), "\r\n\r\n", "\r\nContent-Encoding: gzip, br, zstd\r\n\r\n", 1))},
		{ID: "H-11", Name: "NUL and broken UTF-8 in the body", Want: retryable(500), Keeps: true, Play: answers(withLength("500 x", "\x00\xff\xc3(\xed\xa0\x80\x1b[2J"+strings.Repeat("\x00", 5000)))},
		{ID: "H-11", Name: "rune cut at the end of what is kept", Want: rejected(400), Keeps: true, Play: answers(withLength("400 x", strings.Repeat("€", 2000)))},
	}
}

// floods reads the request, says a text, and then another for ever.
func floods(first, then string) func(*Conn) {
	return func(c *Conn) {
		if c.Request() && c.Say(first) {
			c.Flood(then)
		}
	}
}

// bomb is an answer of a few kilobytes that unpacks to 16 MiB.
var bomb = sync.OnceValue(func() string {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // a level that exists
	w.Write(make([]byte, 16<<20))                         // to a buffer, which takes all
	w.Close()
	return "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: " + strconv.Itoa(b.Len()) + "\r\n\r\n" + b.String()
})

// framing are answers of which two readers may see two different ends.
func framing() []Behaviour {
	head := func(lines ...string) string { return "HTTP/1.1 200 OK\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n" }
	return []Behaviour{
		{ID: "H-08", Name: "two lengths that differ", Want: broken, Play: answers(head("Content-Length: 1", "Content-Length: 2") + "ab")},
		{ID: "H-08", Name: "two lengths that agree", Want: delivered(200), Keeps: true, Play: answers(head("Content-Length: 2", "Content-Length: 2") + "ab")},
		{ID: "H-08", Name: "list of lengths", Want: broken, Play: answers(head("Content-Length: 2, 2") + "ab")},
		{ID: "H-08", Name: "negative length", Want: broken, Play: answers(head("Content-Length: -1"))},
		{ID: "H-08", Name: "signed length", Want: broken, Play: answers(head("Content-Length: +2") + "ab")},
		{ID: "H-08", Name: "length beyond 64 bits", Want: broken, Play: answers(head("Content-Length: 99999999999999999999"))},
		{ID: "H-08", Name: "length in letters", Want: broken, Play: answers(head("Content-Length: two") + "ab")},
		{ID: "H-08", Name: "length and chunks", Want: delivered(200), Keeps: true, Play: answers(head("Content-Length: 5", "Transfer-Encoding: chunked") + "0\r\n\r\n")},
		{ID: "H-08", Name: "length that hides an answer behind chunks", Want: delivered(200), Play: answers(head("Content-Length: 5", "Transfer-Encoding: chunked") + "0\r\n\r\n" + withLength("410 smuggled", ""))},
		{ID: "H-08", Name: "chunked twice", Want: broken, Play: answers(head("Transfer-Encoding: chunked, chunked") + "0\r\n\r\n")},
		{ID: "H-08", Name: "chunked in two headers", Want: broken, Play: answers(head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + "0\r\n\r\n")},
		{ID: "H-08", Name: "compressed transfer", Want: broken, Play: answers(head("Transfer-Encoding: gzip, chunked") + "0\r\n\r\n")},
		{ID: "H-08", Name: "transfer of identity", Want: broken, Play: answers(head("Transfer-Encoding: identity") + "x")},
		{ID: "H-08", Name: "chunked with a tab", Want: broken, Play: answers(head("Transfer-Encoding:\vchunked") + "0\r\n\r\n")},
		{ID: "H-08", Name: "second answer in the same write", Want: delivered(200), Play: answers(okay + withLength("410 smuggled", ""))},
		{ID: "H-08", Name: "second answer a moment later", Want: delivered(200), Spoils: true, Play: func(c *Conn) {
			if c.Request() && c.Say(okay) && c.Pause(slight) {
				c.Say(withLength("410 smuggled", ""))
			}
		}},
		{ID: "H-08", Name: "bytes behind the answer", Want: delivered(200), Play: answers(okay + "\x00")},
		{ID: "H-08", Name: "line end behind the answer", Want: delivered(200), Play: answers(okay + "\r\n")},
		{ID: "H-08", Name: "answer behind a refusal", Want: rejected(400), Play: answers(withLength("400 x", "no") + okay)},
	}
}
