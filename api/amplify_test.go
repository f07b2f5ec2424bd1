package api_test

import (
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
)

// Not parallel, for it counts what the whole process allocates.
func TestI02_ABodyCostsLittleMoreMemoryThanItHas(t *testing.T) {
	const size = 4_900_000
	// fill repeats a part between a head and a tail, up to the most that a call may have.
	fill := func(head, part, tail string) string {
		return head + strings.Repeat(part, (size-len(head)-len(tail))/len(part)) + tail
	}
	for name, body := range map[string]string{
		"a list of empty items":   fill(`{"queue_name":"q","items":[`, `{},`, `{}]}`),
		"a list of lists":         fill(`{"queue_name":"q","items":`, `[`, ``),
		"objects in objects":      fill(`{"queue_name":"q","items":`, `{"items":`, ``),
		"headers of one key":      fill(`{"queue_name":"q","items":[{"headers":{`, `"a":"",`, `"b":""}}]}`),
		"a text of escapes":       fill(`{"queue_name":"q","items":[{"utf8":"`, `\u0041`, `"}]}`),
		"spaces":                  fill(`{`, ` `, `}`),
		"unknown fields":          fill(`{`, `"x":0,`, `"x":0}`),
		"a number without an end": fill(`{"request_timeout":`, `1`, `}`),
	} {
		t.Run(name, func(t *testing.T) {
			e := setup(t)
			rec, r := httptest.NewRecorder(), request("/v1/queue.produce", strings.NewReader(body))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			e.server.ServeHTTP(rec, r)
			runtime.ReadMemStats(&after)
			if rec.Code < 400 || rec.Code >= 500 {
				t.Errorf("got %d %.200s, want it refused", rec.Code, rec.Body)
			}
			// The buffer that the body is read into doubles as it grows, and the payload of an
			// item is copied once or twice.
			if got, most := after.TotalAlloc-before.TotalAlloc, uint64(6*size); got > most {
				t.Errorf("%d bytes of body took %d bytes of memory, want %d at most", len(body), got, most)
			}
		})
	}
}
