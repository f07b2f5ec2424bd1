// Package seal encrypts secrets for storage, so that whoever reads the store, or a copy
// of it, does not have them.
//
// Each secret is encrypted under a data key of its own, which is random and used once,
// and that key is encrypted ("wrapped") under a key of a [Keyring], whose id stands
// beside it:
//
//	byte  0         format, 1
//	byte  1         length n of the key's id
//	      2 … 2+n   id of the key that wraps
//	      12 + 48   nonce, and the data key under the wrapping key; bound to format and id
//	      12 + …    nonce, and the secret under the data key; bound to format and context
//
// Both layers are AES-256 in GCM with random nonces of 96 bits. So a keyring's key may
// wrap some 2³² data keys before two nonces are likely to meet (a chance of 2⁻³³), and
// putting another key in its place means wrapping the data keys anew, which touches no
// secret and needs no context.
//
// The context says what a secret is for: whose it is, which version, of what kind. It is
// not stored; who opens gives it again, so that a sealed secret that somebody moved to
// another place in the store does not open there.
//
// What is lost with a key is lost for good. What was sealed is not hidden from whoever
// has the store and the keys, and that a secret was put back to an older version is not
// seen here.
package seal
