package openapi_test

import (
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"

	"github.com/posthaste-io/posthaste/api/openapi"
)

// parsed is the document as its readers see it, made once: it takes a while.
var parsed = sync.OnceValues(func() (*v3.Document, error) {
	document, err := libopenapi.NewDocument(openapi.Document)
	if err != nil {
		return nil, err
	}
	m, err := document.BuildV3Model()
	if err != nil {
		return nil, err
	}
	return &m.Model, nil
})

// model returns the document. It is shared: tests do not change it.
func model(t *testing.T) *v3.Document {
	t.Helper()
	m, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// judge returns what holds requests and answers against the document. It has read the
// document for itself: what reads one is not safe for concurrent use.
func judge(t *testing.T) validator.Validator {
	t.Helper()
	document, err := libopenapi.NewDocument(openapi.Document)
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(document, config.WithFormatAssertions(), config.WithContentAssertions())
	if errs != nil {
		t.Fatal(errs)
	}
	return v
}
