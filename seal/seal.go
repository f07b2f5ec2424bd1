package seal

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	format    = 1
	nonceSize = 12
	tagSize   = 16
	// wrappedSize is a data key with the nonce and the tag that wrap it.
	wrappedSize = nonceSize + keySize + tagSize
)

// Errors of [Keyring.Open] and [Keyring.Rewrap], beside [UnknownKeyError].
var (
	// ErrMalformed: this is not what Seal returns, or was cut short.
	ErrMalformed = errors.New("this is no sealed secret, or not the whole of one")
	// ErrRefused: it was changed since it was sealed, or belongs elsewhere, or the key of
	// that id is another one by now.
	ErrRefused = errors.New("the sealed secret does not open: it is damaged, belongs elsewhere, or its key's id names another key now")
)

// Seal encrypts plain, which may not be empty, under a data key of its own, wrapped by
// the current key, and binds it to the context. Without a key it answers [ErrNoKey].
func (k *Keyring) Seal(plain []byte, context ...string) ([]byte, error) {
	if len(plain) == 0 {
		return nil, errors.New("seal: there is nothing to seal")
	}
	dataKey := make([]byte, keySize)
	rand.Read(dataKey) // never returns an error
	sealed, err := k.wrap(dataKey)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	body, err := newAEAD(dataKey)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return encrypt(sealed, body, plain, bound(context)), nil
}

// Open returns what was sealed with the same context; it is never empty. Errors:
// [ErrMalformed], [UnknownKeyError], [ErrRefused].
func (k *Keyring) Open(sealed []byte, context ...string) ([]byte, error) {
	p, err := parse(sealed)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	dataKey, err := k.unwrap(p)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	body, err := newAEAD(dataKey)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	plain, err := decrypt(body, p.body, bound(context))
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return plain, nil
}

// IsCurrent says whether the current key wraps it. It does not open it.
func (k *Keyring) IsCurrent(sealed []byte) bool {
	p, err := parse(sealed)
	return err == nil && p.id == k.current
}

// Rewrap returns the same sealed secret with its data key under the current key. The
// secret itself is neither read nor written. Errors are those of Open and Seal.
func (k *Keyring) Rewrap(sealed []byte) ([]byte, error) {
	p, err := parse(sealed)
	if err != nil {
		return nil, fmt.Errorf("rewrap: %w", err)
	}
	dataKey, err := k.unwrap(p)
	if err != nil {
		return nil, fmt.Errorf("rewrap: %w", err)
	}
	out, err := k.wrap(dataKey)
	if err != nil {
		return nil, fmt.Errorf("rewrap: %w", err)
	}
	return append(out, p.body...), nil
}

// parts are those of a sealed secret.
type parts struct {
	id string
	// head is all before the wrapped key, which is bound to it.
	head    []byte
	wrapped []byte
	body    []byte
}

func parse(sealed []byte) (parts, error) {
	if len(sealed) < 2 || sealed[0] != format {
		return parts{}, ErrMalformed
	}
	n := int(sealed[1])
	head := 2 + n
	// A body is a nonce, a tag, and one byte at least.
	if n == 0 || len(sealed) <= head+wrappedSize+nonceSize+tagSize {
		return parts{}, ErrMalformed
	}
	p := parts{id: string(sealed[2:head]), head: sealed[:head], wrapped: sealed[head : head+wrappedSize], body: sealed[head+wrappedSize:]}
	if !isID(p.id) {
		return parts{}, ErrMalformed
	}
	return p, nil
}

// wrap returns the beginning of a sealed secret: all but the body.
func (k *Keyring) wrap(dataKey []byte) ([]byte, error) {
	if k.current == "" {
		return nil, ErrNoKey
	}
	head := append([]byte{format, byte(len(k.current))}, k.current...)
	return encrypt(head, k.keys[k.current], dataKey, head), nil
}

func (k *Keyring) unwrap(p parts) ([]byte, error) {
	key, ok := k.keys[p.id]
	if !ok {
		return nil, &UnknownKeyError{ID: p.id}
	}
	return decrypt(key, p.wrapped, p.head)
}

// encrypt appends a nonce and what plain becomes under it.
func encrypt(to []byte, key cipher.AEAD, plain, with []byte) []byte {
	nonce := make([]byte, nonceSize)
	rand.Read(nonce) // never returns an error
	return key.Seal(append(to, nonce...), nonce, plain, with)
}

// decrypt takes at least a nonce and a tag.
func decrypt(key cipher.AEAD, text, with []byte) ([]byte, error) {
	plain, err := key.Open(nil, text[:nonceSize], text[nonceSize:], with)
	if err != nil {
		return nil, ErrRefused
	}
	return plain, nil
}

// bound encodes a context so that no two have the same bytes: each string follows its
// length.
func bound(context []string) []byte {
	out := []byte{format}
	for _, each := range context {
		out = binary.AppendUvarint(out, uint64(len(each)))
		out = append(out, each...)
	}
	return out
}
