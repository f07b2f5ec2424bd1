package subscriptions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/seal"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/memory"
)

// rawStore is a store of which a test reads and writes the bytes.
type rawStore struct {
	storage.Backend
	t testing.TB
}

func newRawStore(t testing.TB) *rawStore {
	store := memory.New(memory.Options{})
	t.Cleanup(func() { _ = store.Close() })
	return &rawStore{store, t}
}

// service returns a node with these keys.
func (r *rawStore) service(keys Sealer) *Service {
	o := (&kit{}).options()
	o.Docs = storage.NewCollection[Document](r, "subscription")
	o.Claims = storage.NewCollection[Claim](r, "claim")
	o.Queues = &kit{others: []string{"outcomes"}}
	o.Sealer = keys
	return New(o)
}

func (r *rawStore) key(name string) storage.DocumentKey {
	return storage.DocumentKey{Kind: "subscription", Namespace: queue.DefaultNamespace, Name: name}
}

// bytes returns a document as it is stored.
func (r *rawStore) bytes(name string) []byte {
	r.t.Helper()
	doc, err := r.Get(r.t.Context(), r.key(name))
	if err != nil {
		r.t.Fatal(err)
	}
	return doc.Value
}

// write stores JSON in place of a document.
func (r *rawStore) write(name, text string) {
	r.t.Helper()
	doc, err := r.Get(r.t.Context(), r.key(name))
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		r.t.Fatal(err)
	}
	doc.DocumentKey, doc.Value = r.key(name), append([]byte{1}, text...)
	if _, err := r.Put(r.t.Context(), doc); err != nil {
		r.t.Fatal(err)
	}
}

// writeOlder stores what the release before this one wrote, with its claim.
func (r *rawStore) writeOlder(name, queueName string) {
	r.t.Helper()
	r.write(name, strings.NewReplacer(`"billing"`, `"`+name+`"`, `"orders"`, `"`+queueName+`"`).Replace(older))
	claims := storage.NewCollection[Claim](r, "claim")
	if _, err := claims.Put(r.t.Context(), queue.DefaultNamespace, queueName, Claim{Subscription: name}, 0, never); err != nil {
		r.t.Fatal(err)
	}
}

func newKeys(t *testing.T, text string) *seal.Keyring {
	t.Helper()
	k, err := seal.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestA07_TheStoreHasNoSecretInPlain(t *testing.T) {
	t.Parallel()
	r := newRawStore(t)
	s := r.service(seal.Random())
	ctx, ns := t.Context(), queue.DefaultNamespace
	p := params("billing", "orders")
	p.Change, p.Secret = everything(), "whsec_canary"
	check := func(what string) {
		t.Helper()
		if text := r.bytes("billing"); bytes.Contains(text, []byte("canary")) || bytes.Contains(text, []byte("example.com")) {
			t.Errorf("%s: stored is %s", what, text)
		}
	}
	if _, err := s.Create(ctx, p); err != nil {
		t.Fatal(err)
	}
	check("create")
	if _, err := s.RotateSecret(ctx, ns, "billing", RotateParams{Secret: "whsec_canary2"}); err != nil {
		t.Fatal(err)
	}
	check("rotate")
	if _, err := s.Update(ctx, UpdateParams{Namespace: ns, Name: "billing", Change: Change{Headers: map[string]string{"X": "canary"}}}); err != nil {
		t.Fatal(err)
	}
	check("update")
}

func TestA07_PlainSecretsOfAnOlderReleaseAreSealedAtTheStart(t *testing.T) {
	t.Parallel()
	r := newRawStore(t)
	names := []string{"a", "b", "pending"}
	for _, name := range names {
		r.writeOlder(name, "q"+name)
	}
	r.write("pending", strings.Replace(older, `{`, `{"pending":true,`, 1))
	s := r.service(seal.Random())
	before, err := s.Get(t.Context(), queue.DefaultNamespace, "a")
	if err != nil {
		t.Fatal(err)
	}
	done, err := s.Seal(t.Context())
	if err != nil || done != (SealResult{Sealed: 3}) {
		t.Fatalf("got %+v, %v", done, err)
	}
	for _, name := range names {
		if text := r.bytes(name); bytes.Contains(text, []byte("canary")) || bytes.Contains(text, []byte("whsec_")) {
			t.Errorf("%s is stored as %s", name, text)
		}
	}
	after, err := s.Get(t.Context(), queue.DefaultNamespace, "a")
	before.Revision = after.Revision
	if err != nil || !reflect.DeepEqual(after, before) {
		t.Errorf("got %+v, %v, want %+v", after, err, before)
	}
	if !bytes.Contains(r.bytes("pending"), []byte(`"pending":true`)) {
		t.Error("what nobody finished counts as finished")
	}
	if done, err := s.Seal(t.Context()); err != nil || done != (SealResult{}) {
		t.Errorf("again: %+v, %v", done, err)
	}
}

// Else an older release would read a subscription without secrets, and write it so.
func TestA07_AnOlderReleaseDoesNotTakeSealedSecretsForNone(t *testing.T) {
	t.Parallel()
	r := newRawStore(t)
	if _, err := r.service(seal.Random()).Create(t.Context(), params("billing", "orders")); err != nil {
		t.Fatal(err)
	}
	var asThen struct{ Secrets []string }
	if err := json.Unmarshal(r.bytes("billing")[1:], &asThen); err == nil {
		t.Errorf("it reads %d secrets without an error", len(asThen.Secrets))
	}
}

func TestA07_KeysAreChangedByRewrappingWithoutDowntime(t *testing.T) {
	t.Parallel()
	r := newRawStore(t)
	older, newer := seal.NewKey(), seal.NewKey()
	before := r.service(newKeys(t, older))
	for i := range 20 {
		if _, err := before.Create(t.Context(), params(fmt.Sprint("s", i), fmt.Sprint("q", i))); err != nil {
			t.Fatal(err)
		}
	}
	// One node after the other gets both keys, the old one first; then the new one first.
	for _, keys := range []string{older + "\n" + newer, newer + "\n" + older} {
		if subs, err := r.service(newKeys(t, keys)).All(t.Context()); err != nil || len(subs) != 20 {
			t.Fatalf("got %d, %v", len(subs), err)
		}
	}
	var nodes sync.WaitGroup
	results := make([]SealResult, 4)
	for i := range results {
		nodes.Go(func() {
			var err error
			if results[i], err = r.service(newKeys(t, newer+"\n"+older)).Seal(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	nodes.Wait()
	total := 0
	for _, each := range results {
		total += each.Rewrapped
	}
	if total != 20 {
		t.Errorf("rewrapped %d times, want each once", total)
	}
	subs, err := r.service(newKeys(t, newer)).All(t.Context())
	if err != nil || len(subs) != 20 || subs[0].Secrets[0].Secret != madeSecret {
		t.Errorf("with the new key alone: %d, %v", len(subs), err)
	}
}

func TestA07_SecretsWithoutTheirKeyAreRefusedAndNeverEmpty(t *testing.T) {
	t.Parallel()
	r := newRawStore(t)
	keys := seal.Random()
	ctx, ns := t.Context(), queue.DefaultNamespace
	if _, err := r.service(keys).Create(ctx, params("billing", "orders")); err != nil {
		t.Fatal(err)
	}
	kept := string(r.bytes("billing")[1:])
	for what, other := range map[string]*seal.Keyring{"no key": {}, "another key": seal.Random()} {
		s := r.service(other)
		var unknown *seal.UnknownKeyError
		_, err := s.Seal(ctx)
		if !errors.As(err, &unknown) || unknown.ID != keys.Current() || !strings.Contains(err.Error(), "billing") {
			t.Errorf("%s: seal: %v", what, err)
		}
		if sub, err := s.Get(ctx, ns, "billing"); !errors.As(err, &unknown) || len(sub.Secrets) != 0 {
			t.Errorf("%s: get: %v", what, err)
		}
		if all, err := s.All(ctx); err != nil || len(all) != 0 {
			t.Errorf("%s: %d are pushed, %v", what, len(all), err)
		}
		if list, err := s.List(ctx, ns, "", 10); err != nil || len(list) != 1 || list[0].Queue != "orders" {
			t.Errorf("%s: listed %v, %v", what, list, err)
		}
		if _, err := s.Pause(ctx, ns, "billing"); err == nil {
			t.Errorf("%s: it was written without its secrets", what)
		}
		if limit, err := s.Limit(ctx, ns, "orders"); err != nil || limit != 12 {
			t.Errorf("%s: limit %d, %v", what, limit, err)
		}
	}
	var doc Document
	if err := json.Unmarshal([]byte(kept), &doc); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*Document){
		func(d *Document) { d.Secrets.Text = d.Secrets.Text[:30] },
		func(d *Document) { d.Secrets.Text = []byte{} },
		func(d *Document) { d.Secrets.Text[40] ^= 1 },
		func(d *Document) { d.Secrets.Version++ },
		func(d *Document) { d.CreatedAt = d.CreatedAt.Add(1000) },
		func(d *Document) { d.Namespace++ },
	} {
		bad := doc
		bad.Secrets.Text = bytes.Clone(doc.Secrets.Text)
		change(&bad)
		text, err := json.Marshal(bad)
		if err != nil {
			t.Fatal(err)
		}
		r.write("billing", string(text))
		if sub, err := r.service(keys).Get(ctx, ns, "billing"); err == nil || len(sub.Secrets) != 0 {
			t.Errorf("stored as %.500s: got %d secrets, %v", text, len(sub.Secrets), err)
		}
	}
	// Moved to another subscription, it opens nothing there.
	r.write("thief", strings.Replace(kept, `"name":"billing"`, `"name":"thief"`, 1))
	if _, err := r.service(keys).Get(ctx, ns, "thief"); !errors.Is(err, seal.ErrRefused) {
		t.Errorf("moved: %v", err)
	}
	if err := r.service(keys).Delete(ctx, ns, "thief"); err != nil {
		t.Errorf("what does not open cannot be deleted: %v", err)
	}
}

// noKey is a sealer without a key.
type noKey struct{ *seal.Keyring }

func (noKey) Seal([]byte, ...string) ([]byte, error) { return nil, ErrNoKey }

func TestA07_NoSecretIsTakenWithoutAKey(t *testing.T) {
	t.Parallel()
	r := newRawStore(t)
	s := r.service(noKey{&seal.Keyring{}})
	if done, err := s.Seal(t.Context()); err != nil || done != (SealResult{}) {
		t.Errorf("without subscriptions: %+v, %v", done, err)
	}
	if _, err := s.Create(t.Context(), params("billing", "orders")); !errors.Is(err, ErrNoKey) {
		t.Errorf("create: %v", err)
	}
	if _, err := r.Get(t.Context(), r.key("billing")); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("it was written: %v", err)
	}
	r.writeOlder("billing", "orders")
	if _, err := s.Seal(t.Context()); !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), "billing") {
		t.Errorf("with plain secrets: %v", err)
	}
	if _, err := s.RotateSecret(t.Context(), queue.DefaultNamespace, "billing", RotateParams{}); !errors.Is(err, ErrNoKey) {
		t.Errorf("rotate: %v", err)
	}
}

// overtakingStore has somebody change each document before its first write.
type overtakingStore struct {
	*rawStore
	seen sync.Map
}

func (o *overtakingStore) Put(ctx context.Context, doc storage.Document, items ...queue.NewItem) (uint64, error) {
	if _, seen := o.seen.LoadOrStore(doc.Name, true); !seen && doc.Kind == "subscription" {
		o.write(doc.Name, strings.Replace(string(o.bytes(doc.Name)[1:]), "{", `{"paused":true,`, 1))
	}
	return o.rawStore.Put(ctx, doc, items...)
}

func TestService_SealUndoesNoChangeInBetween(t *testing.T) {
	t.Parallel()
	r := newRawStore(t)
	r.writeOlder("billing", "orders")
	s := r.service(seal.Random())
	s.docs = storage.NewCollection[Document](&overtakingStore{rawStore: r}, "subscription")
	if done, err := s.Seal(t.Context()); err != nil || done != (SealResult{Sealed: 1}) {
		t.Errorf("got %+v, %v", done, err)
	}
	sub, err := s.Get(t.Context(), queue.DefaultNamespace, "billing")
	if err != nil || !sub.Paused || sub.Secrets[0].Secret != canary {
		t.Errorf("got %+v, %v", sub, err)
	}
}

// The dispatcher reads all subscriptions every 10 s.
func BenchmarkService_All(b *testing.B) {
	for _, kind := range []string{"plain", "sealed"} {
		b.Run(kind, func(b *testing.B) {
			r := newRawStore(b)
			s := r.service(seal.Random())
			for i := range 10_000 {
				name := fmt.Sprintf("s%05d", i)
				r.write(name, strings.NewReplacer(`"billing"`, `"`+name+`"`).Replace(older))
			}
			if kind == "sealed" {
				if _, err := s.Seal(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if all, err := s.All(b.Context()); err != nil || len(all) != 10_000 {
					b.Fatal(len(all), err)
				}
			}
		})
	}
}
