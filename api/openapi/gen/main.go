// Command gen writes docs/api.md from openapi.yaml, for people who read rather than
// generate.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/pb33f/libopenapi"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
)

// Where go generate runs is the folder of openapi.yaml.
const (
	source = "openapi.yaml"
	target = "../../docs/api.md"
)

func main() {
	document, err := os.ReadFile(source)
	if err != nil {
		log.Fatal(err)
	}
	page, err := generate(document)
	if err != nil {
		log.Fatalf("%s: %v", source, err)
	}
	if err := os.WriteFile(target, page, 0o644); err != nil {
		log.Fatal(err)
	}
}

// generate returns the page of a document.
func generate(document []byte) ([]byte, error) {
	parsed, err := libopenapi.NewDocument(document)
	if err != nil {
		return nil, err
	}
	model, err := parsed.BuildV3Model()
	if err != nil {
		return nil, err
	}
	p := &page{schemas: model.Model.Components.Schemas}
	p.calls = callsOf(&model.Model)
	p.countUses()
	p.findCommon()
	if err := p.write(&model.Model); err != nil {
		return nil, err
	}
	return p.out.Bytes(), nil
}

// call is an operation and where it is.
type call struct {
	verb, path string
	*v3.Operation
}

func callsOf(document *v3.Document) []call {
	var calls []call
	for path, item := range document.Paths.PathItems.FromOldest() {
		for verb, op := range item.GetOperations().FromOldest() {
			calls = append(calls, call{verb: verb, path: path, Operation: op})
		}
	}
	return calls
}

// mistake is something in the document that the page has no words for.
func mistake(format string, args ...any) error { return fmt.Errorf(format, args...) }
