package main

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/pb33f/go-yaml"
)

// curl writes the example of a request as a command.
func (p *page) curl(c call) error {
	p.printf("```sh\ncurl -sS ")
	if c.verb != "post" {
		p.printf("%s%s\n```\n\n", server, c.path)
		return nil
	}
	if media := inJSON(c.RequestBody.Content); media != nil {
		body, err := indented(media.Example)
		if err != nil {
			return err
		}
		p.printf("--json '%s' %s%s\n```\n\n", quoted(body), server, c.path)
		return nil
	}
	return p.curlRaw(c)
}

// curlRaw is for a call that takes any body, and has the rest in its path and headers.
func (p *page) curlRaw(c call) error {
	address := c.path
	p.printf("-H 'Content-Type: text/plain'")
	for _, in := range c.Parameters {
		switch {
		case in.Example == nil:
		case in.In == "path":
			address = strings.ReplaceAll(address, "{"+in.Name+"}", in.Example.Value)
		default:
			p.printf(" -H '%s: %s'", in.Name, in.Example.Value)
		}
	}
	body := c.RequestBody.Content.First().Value().Example
	if body == nil {
		return mistake("the body has no example")
	}
	p.printf(" \\\n  --data-binary '%s' %s%s\n```\n\n", quoted(body.Value), server, address)
	return nil
}

// quoted is a text within single quotes of a shell.
func quoted(text string) string { return strings.ReplaceAll(text, "'", `'\''`) }

// indented writes an example as JSON, its fields in the order of the document.
func indented(example *yaml.Node) (string, error) {
	if example == nil {
		return "", mistake("there is no example")
	}
	compact, err := appendJSON(nil, example)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = json.Indent(&b, compact, "", "  ")
	return b.String(), err
}

func appendJSON(to []byte, n *yaml.Node) ([]byte, error) {
	switch n.Kind {
	case yaml.MappingNode:
		return appendAll(append(to, '{'), n.Content, '}', 2)
	case yaml.SequenceNode:
		return appendAll(append(to, '['), n.Content, ']', 1)
	default:
		var value any
		if err := n.Decode(&value); err != nil {
			return nil, err
		}
		return appendScalar(to, value)
	}
}

// appendAll writes nodes with commas between them or, in a mapping, colons after the
// names.
func appendAll(to []byte, nodes []*yaml.Node, end byte, each int) (_ []byte, err error) {
	for i, n := range nodes {
		switch {
		case i > 0 && i%each == 0:
			to = append(to, ',')
		case i > 0:
			to = append(to, ':')
		}
		if to, err = appendJSON(to, n); err != nil {
			return nil, err
		}
	}
	return append(to, end), nil
}

func appendScalar(to []byte, value any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // it is read, not put into a page as it is
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return append(to, bytes.TrimSpace(b.Bytes())...), nil
}
