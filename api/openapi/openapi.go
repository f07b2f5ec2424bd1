// Package openapi holds the description of the HTTP interface, openapi.yaml, as an
// OpenAPI 3.1 document. It is written by hand. Tests hold it against the messages of
// api/v1, the routes and the errors of package api, and each request and answer of
// the end-to-end tests; docs/api.md is made from it.
package openapi

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
)

//go:generate go run ./gen

// Document is openapi.yaml. Nobody may change it.
//
//go:embed openapi.yaml
var Document []byte

// MediaType is the document's Content-Type.
const MediaType = "application/yaml"

// ETag names the document's version, as HTTP writes it: in quotes.
var ETag = etag(Document)

func etag(document []byte) string {
	sum := sha256.Sum256(document)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}
