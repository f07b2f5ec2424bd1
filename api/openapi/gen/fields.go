package main

import (
	"path"
	"slices"
	"strings"

	"github.com/pb33f/libopenapi/datamodel/high/base"
)

// fields writes the table of a message.
func (p *page) fields(name string) {
	s := p.schemas.GetOrZero(name).Schema()
	if s.Description != "" {
		p.printf("%s\n\n", strings.TrimSpace(s.Description))
	}
	p.printf("| field | type | meaning |\n|---|---|---|\n")
	// What an answer always has needs no mark.
	request := s.AdditionalProperties != nil && s.AdditionalProperties.IsB()
	for field, proxy := range s.Properties.FromOldest() {
		kind := p.typeOf(proxy)
		if request && slices.Contains(s.Required, field) {
			kind += ", required"
		}
		p.printf("| `%s` | %s | %s |\n", field, kind, cell(p.meaning(proxy)))
	}
	p.printf("\n")
}

// meaning is what is said of a field where it stands, with what it may be.
func (p *page) meaning(proxy *base.SchemaProxy) string {
	if proxy.GetReference() != "" && !proxy.IsTransformedRefWithSiblings() {
		return "" // nothing beside what its type says
	}
	s := proxy.Schema()
	text := s.Description
	if len(s.Enum) == 0 {
		return text
	}
	words := make([]string, 0, len(s.Enum))
	for _, word := range s.Enum {
		if word.Value != "" {
			words = append(words, "`"+word.Value+"`")
		}
	}
	return strings.TrimSpace(text + " One of " + strings.Join(words, ", ") + ".")
}

// typeOf is a type in the words of the page, with a link if it is a message.
func (p *page) typeOf(proxy *base.SchemaProxy) string {
	name := p.nameOf(proxy)
	s := proxy.Schema()
	if name != "" {
		s = p.schemas.GetOrZero(name).Schema()
	}
	kind := ""
	if len(s.Type) == 1 {
		kind = s.Type[0]
	}
	switch {
	case name != "" && s.Properties != nil:
		return "[" + name + "](" + p.place(name) + ")"
	case name == "CodeText":
		return "a word of [the table](" + anchor("Answers and errors") + ")"
	case name != "":
		return "[" + name + "](" + anchor("Values") + ")"
	case kind == "array":
		return "list of " + p.typeOf(s.Items.A)
	case kind == "object":
		return "texts by name"
	case s.Format == "date-time":
		return "instant"
	case s.ContentEncoding == "base64":
		return "bytes"
	case kind == "integer":
		return "whole number"
	case kind == "number":
		return "number"
	case kind == "boolean":
		return "true or false"
	default:
		return "text"
	}
}

// nameOf is the name of the schema that stands there, empty if it has none.
func (p *page) nameOf(proxy *base.SchemaProxy) string {
	if ref := proxy.GetReference(); ref != "" {
		return path.Base(ref)
	}
	if s := proxy.Schema(); len(s.AllOf) == 1 {
		return p.nameOf(s.AllOf[0]) // a message that is closed here
	}
	return ""
}

// place is where a message is told of.
func (p *page) place(name string) string {
	if p.uses[name] != 1 {
		return anchor(name)
	}
	for _, c := range p.calls {
		if slices.Contains(p.messagesOf(c), name) {
			return anchor(c.name())
		}
	}
	return anchor(name)
}
