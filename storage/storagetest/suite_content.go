package storagetest

import (
	"bytes"
	"math/rand/v2"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// wholeContent sets every field of an item's content.
func wholeContent() queue.Content {
	return queue.Content{
		Kind: "order.created", Encoding: "json", Reference: "größe", OrderingKey: "customer-7", SourceID: "src-1",
		Headers: map[string]string{"X-A": "1", "X-B": ""}, Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Hop: 3, Target: &queue.Target{URL: "https://example.com/hook?a=b", Method: "PUT", Timeout: 7 * time.Second},
		OnDone: "done", Payload: []byte(`{"a":1}`),
	}
}

var contentCases = []testCase{
	{"P11_AnyBytesAreKeptByteForByte", func(f *fixture) {
		q := f.queue()
		large := make([]byte, 1_000_000)
		random := rand.NewChaCha8([32]byte{1})
		if _, err := random.Read(large); err != nil {
			f.Fatal(err)
		}
		payloads := [][]byte{
			nil,
			{},
			{0},
			[]byte("a\x00b\x00"),
			{0xff, 0xfe, 0xed},
			[]byte("\xc0\xaf \xed\xa0\x80"), []byte(`{"a":"\u0000\ud800"}`),
			bytes.Repeat([]byte{0}, 1_000_000), large,
		}
		for _, payload := range payloads {
			item := f.item(q)
			item.Payload = payload
			f.produce(item)
		}
		for i, it := range f.lease(q, len(payloads)) {
			if !bytes.Equal(it.Payload, payloads[i]) {
				f.Errorf("payload %d: got %d bytes, want %d, or others", i, len(it.Payload), len(payloads[i]))
			}
		}
	}},
	{"Content_EveryFieldIsKept", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		item := f.item(q)
		item.Content = wholeContent()
		want := describeContent(item.Content)
		f.produce(item)
		same := func(where string, got queue.Item) {
			f.Helper()
			if got := describeContent(got.Content); got != want {
				f.Errorf("%s:\n got %s\nwant %s", where, got, want)
			}
		}
		leased := f.leaseOne(q, pull(1))
		same("lease", leased)
		f.apply(bury(leased, dead))
		same("bury", f.get(queue.Key{ID: item.ID, Queue: dead, Home: q}))
		same("list", f.listFrom(queue.ListRequest{Queue: dead, Limit: 1, Content: true})[0])
		f.wantMoved(f.move(queue.Move{Key: queue.Key{ID: item.ID, Queue: dead, Home: q}, Target: q})[0], queue.Moved)
		same("lease after a move", f.leaseOne(q, pull(1)))
	}},
	{"P11_TextOfOutcomesIsKept", func(f *fixture) {
		q := f.queue()
		long := string(bytes.Repeat([]byte("é"), queue.MaxLastError/2))
		leased := f.produceAndLease(q, push(1))
		s := retry(leased, time.Hour)
		s.Last = queue.Last{Status: 500, Error: long}
		s.Record = attempt("s", "retryable")
		s.Record.Response = bytes.Repeat([]byte{0xff, 0}, queue.MaxResponse/2)
		f.apply(s)
		if got := f.get(leased.Key).Last; got != s.Last {
			f.Errorf("last: got %d bytes, want %d", len(got.Error), len(long))
		}
		if got := f.records(leased.ID)[0].Response; !bytes.Equal(got, s.Record.Response) {
			f.Errorf("response: got %d bytes, want %d", len(got), len(s.Record.Response))
		}
	}},
	{"Content_NothingIsSharedWithTheCaller", func(f *fixture) {
		q := f.queue()
		item := f.item(q)
		item.Content = wholeContent()
		want := describeContent(item.Content)
		f.produce(item)
		spoil := func(c queue.Content) {
			c.Payload[0] ^= 0xff
			c.Headers["X-A"] = "spoilt"
			c.Target.URL = "spoilt"
		}
		spoil(item.Content)
		leased := f.leaseOne(q, pull(1))
		if got := describeContent(leased.Content); got != want {
			f.Errorf("what was given:\n got %s\nwant %s", got, want)
		}
		spoil(leased.Content)
		key := leased.Key
		spoil(f.get(key).Content)
		spoil(f.listFrom(queue.ListRequest{Queue: q, Limit: 1, Content: true})[0].Content)
		if got := describeContent(f.get(key).Content); got != want {
			f.Errorf("what was given away:\n got %s\nwant %s", got, want)
		}
	}},
	{"Content_DocumentsAndRecordsAreNotShared", func(f *fixture) {
		q := f.queue()
		doc := document(1, "a", 0)
		f.put(doc)
		doc.Value[0] = 'X'
		got, err := f.store.Get(f.Context(), doc.DocumentKey)
		if err != nil || string(got.Value) != "value of a" {
			f.Fatalf("Get: got %q, %v, want what was put", got.Value, err)
		}
		got.Value[0] = 'Y'
		if got, err := f.store.Get(f.Context(), doc.DocumentKey); err != nil || string(got.Value) != "value of a" {
			f.Errorf("Get again: got %q, %v, want what was put", got.Value, err)
		}
		s := complete(f.produceAndLease(q, pull(1)))
		s.Record = attempt("s", "delivered")
		f.apply(s)
		s.Record.Response[0] = 'X'
		f.records(s.Key.ID)[0].Response[0] = 'Y'
		if got, want := f.records(s.Key.ID)[0].Response, attempt("", "").Response; !bytes.Equal(got, want) {
			f.Errorf("response: got %q, want %q", got, want)
		}
	}},
}
