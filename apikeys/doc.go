// Package apikeys knows what a key is: its text, how one is made and read, and what a
// server keeps of it.
//
// A key reads
//
//	pdk_live_0a1B2c3D4e5F_MNnbO4y…43 characters…_2kXq9Z
//	│   │    │            │                       └ checksum of all before it: CRC-32 in base62
//	│   │    │            └ secret: 32 random bytes in base62
//	│   │    └ id: 12 characters of base62, for logs and lists
//	│   └ environment: a word for people, which no server judges
//	└ what tools that look for leaked keys search for
//
// The checksum lets a server refuse a key with a typing error without looking anything
// up; it protects nothing, since anybody can compute it. What protects is the secret: 256
// random bits, which nobody can guess, so that a plain SHA-256 of them is enough and no
// slow hash is needed. A server keeps a [Record], the id and that hash, which is of no use
// to whoever reads it.
//
// A [Key] does not show itself in logs, errors or JSON. Only [Key.Reveal] returns its text.
package apikeys
