package subscriptions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Sealer keeps secrets from whoever reads the store. Its methods may be called
// concurrently; errors hold nothing of what is sealed.
type Sealer interface {
	// Seal encrypts; the context, which says what it is for, must be given to Open as well.
	// Without a key it answers an error that is [ErrNoKey].
	Seal(plain []byte, context ...string) ([]byte, error)
	// Open returns what was sealed, which is not empty.
	Open(sealed []byte, context ...string) ([]byte, error)
	// IsCurrent says whether it is under the current key, and Rewrap puts it there.
	IsCurrent(sealed []byte) bool
	Rewrap(sealed []byte) ([]byte, error)
}

// ErrNoKey: there is no key to encrypt secrets under, so none are taken.
var ErrNoKey = errors.New("no encryption key")

// SecretsDocument is what is secret of a [Document], sealed: signing secrets, headers and
// credentials in one, since a push needs all of them, and one data key a subscription is
// one to wrap anew when the encryption key changes.
type SecretsDocument struct {
	// Version is the revision of the document that this one replaced, so that it rises
	// with each. It is bound to the text.
	Version uint64 `json:"version"`
	// Text is nil in documents of releases that did not seal.
	Text []byte `json:"text"`

	// plain are the signing secrets of such a document, which is read and never written.
	plain []string
}

// UnmarshalJSON implements json.Unmarshaler. Releases that did not seal have a list in
// this place, and stumble over what is sealed. That is meant: they would read a
// subscription without secrets, and write it so.
func (d *SecretsDocument) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("[")) {
		return json.Unmarshal(text, &d.plain)
	}
	type fields SecretsDocument
	return json.Unmarshal(text, (*fields)(d))
}

// place is what the sealed part of d is bound to. A name may be used again after a
// deletion, so the time of the creation is a part of who it is.
func (d *Document) place() []string {
	return []string{
		"subscription", strconv.FormatUint(uint64(d.Namespace), 10), d.Name, d.CreatedAt.UTC().Format(time.RFC3339Nano),
		strconv.FormatUint(d.Secrets.Version, 10), "secrets",
	}
}

// sealed returns the document of s, which is to replace the one of s.Revision.
func (s *Service) sealed(sub *Subscription) (Document, error) {
	text, err := secretsOf(sub)
	if err != nil {
		return Document{}, fmt.Errorf("subscription %s: %w", sub.Name, err)
	}
	d := toDocument(sub)
	d.Secrets.Version = sub.Revision
	if d.Secrets.Text, err = s.sealer.Seal(text, d.place()...); err != nil {
		return Document{}, fmt.Errorf("subscription %s: %w", sub.Name, err)
	}
	return d, nil
}

// opened returns the subscription of a document. With an error it has all but what is
// secret.
func (s *Service) opened(d *Document, revision uint64) (Subscription, error) {
	sub := d.open(revision)
	if d.Secrets.Text == nil {
		sub.Headers = d.Headers
		for _, secret := range d.Secrets.plain {
			sub.Secrets = append(sub.Secrets, SigningSecret{Secret: Secret(secret)})
		}
		return sub, nil
	}
	text, err := s.sealer.Open(d.Secrets.Text, d.place()...)
	if err != nil {
		return sub, fmt.Errorf("secrets of subscription %s: %w", sub.Name, err)
	}
	if err := sub.takeSecrets(text); err != nil {
		// Without the cause, which may quote what it did not understand.
		return d.open(revision), fmt.Errorf("secrets of subscription %s: are not as this release writes them", sub.Name)
	}
	return sub, nil
}

// SealResult counts what [Service.Seal] has written.
type SealResult struct {
	// Sealed were in plain text, Rewrapped under an older key.
	Sealed, Rewrapped int
}

// Seal looks at the secrets of every subscription, of all namespaces that are served:
// those that an older release left in plain text are sealed, those under an older key
// are put under the current one. It is for the start, before anything is pushed, and may
// run on several nodes at one time. Its error, if it is not one of the store, says that
// there are secrets and no key for them: [ErrNoKey], or what the [Sealer] says.
func (s *Service) Seal(ctx context.Context) (SealResult, error) {
	// Writers at one time, so that a store that syncs gathers their writes.
	const page, writers = 500, 32
	var total SealResult
	for _, ns := range s.namespaces {
		for after := ""; ; {
			docs, err := s.docs.List(ctx, ns, after, page)
			if err != nil {
				return total, err
			}
			results, errs := make([]SealResult, len(docs)), make([]error, len(docs))
			slots := make(chan struct{}, writers)
			var done sync.WaitGroup
			for i := range docs {
				slots <- struct{}{}
				done.Go(func() {
					results[i], errs[i] = s.sealOne(ctx, &docs[i])
					<-slots
				})
			}
			done.Wait()
			for i := range docs {
				if errs[i] != nil {
					return total, errs[i]
				}
				total.Sealed += results[i].Sealed
				total.Rewrapped += results[i].Rewrapped
			}
			if len(docs) < page {
				break
			}
			after = docs[len(docs)-1].Name
		}
	}
	return total, nil
}

// sealOne brings one document to the current key, again where somebody was quicker.
func (s *Service) sealOne(ctx context.Context, found *queue.Versioned[Document]) (SealResult, error) {
	d, revision := found.Value, found.Revision
	for range rounds {
		result, err := s.reseal(&d, revision)
		if err != nil || result == (SealResult{}) {
			return result, err
		}
		_, err = s.docs.Put(ctx, found.Namespace, found.Name, d, revision, never)
		if !overtaken(err) {
			return result, err
		}
		d, revision, err = s.docs.Get(ctx, found.Namespace, found.Name)
		if errors.Is(err, queue.ErrNotFound) {
			return SealResult{}, nil
		}
		if err != nil {
			return SealResult{}, err
		}
	}
	return SealResult{}, fmt.Errorf("subscription %s: %w", found.Name, queue.ErrRevision)
}

// reseal changes a document to what it should be, and says whether that was needed.
func (s *Service) reseal(d *Document, revision uint64) (SealResult, error) {
	sub, err := s.opened(d, revision) // also of the current key, whose id may name another now
	if err != nil {
		return SealResult{}, err
	}
	switch {
	case d.Secrets.Text == nil:
		pending := d.Pending
		if *d, err = s.sealed(&sub); err != nil {
			return SealResult{}, err
		}
		d.Pending = pending
		return SealResult{Sealed: 1}, nil
	case s.sealer.IsCurrent(d.Secrets.Text):
		return SealResult{}, nil
	}
	text, err := s.sealer.Rewrap(d.Secrets.Text)
	if err != nil {
		return SealResult{}, fmt.Errorf("secrets of subscription %s: %w", d.Name, err)
	}
	d.Secrets.Text = text
	return SealResult{Rewrapped: 1}, nil
}
