package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/pb33f/libopenapi/datamodel/high/base"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
	"github.com/pb33f/libopenapi/orderedmap"
)

// server is where the examples of README.md call.
const server = "http://127.0.0.1:2319"

// page is docs/api.md while it is written.
type page struct {
	out     bytes.Buffer
	schemas *orderedmap.Map[string, *base.SchemaProxy]
	calls   []call
	// uses counts the calls' requests and answers that are a message. One that is a
	// single call's is told there, the others behind the calls.
	uses map[string]int
	// common are the refusals of all calls.
	common []string
}

func (p *page) printf(format string, args ...any) { fmt.Fprintf(&p.out, format, args...) }

func (p *page) write(document *v3.Document) error {
	p.printf("<!-- Made from api/openapi/openapi.yaml by go generate ./api/openapi; change that one. -->\n\n")
	p.printf("# The HTTP interface, call by call\n\n")
	p.printf("A server has this as an OpenAPI document at `GET /openapi.yaml`. What an endpoint is sent is in [http.md](http.md).\n\n")
	p.printf("%s\n", document.Info.Description)
	p.contents(document.Tags)
	if err := p.errors(); err != nil {
		return err
	}
	for _, tag := range document.Tags {
		p.printf("## %s\n\n%s\n\n", title(tag.Name), tag.Description)
		for _, c := range p.calls {
			if slices.Contains(c.Tags, tag.Name) {
				if err := p.call(c); err != nil {
					return fmt.Errorf("%s: %w", c.path, err)
				}
			}
		}
	}
	return p.messages()
}

func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// name is how people call it: queue.lease, produce/{queue}, GET /livez.
func (c *call) name() string {
	if c.verb == "post" {
		return strings.TrimPrefix(c.path, "/v1/")
	}
	return strings.ToUpper(c.verb) + " " + c.path
}

// anchor is the address of a heading, as the usual renderers make it.
func anchor(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	return "#" + b.String()
}

func (p *page) contents(tags []*base.Tag) {
	p.printf("## Calls\n\n| call | does |\n|---|---|\n")
	for _, tag := range tags {
		for _, c := range p.calls {
			if slices.Contains(c.Tags, tag.Name) {
				p.printf("| [`%s`](%s) | %s |\n", c.name(), anchor(c.name()), cell(c.Summary))
			}
		}
	}
	p.printf("\n")
}

// errors lists the words of answers with their statuses.
func (p *page) errors() error {
	words := p.schemas.GetOrZero("CodeText").Schema()
	p.printf("## Answers and errors\n\nEvery answer that is not 2xx is a [Reply](%s). Programs look at its `code_text`:\n\n", anchor("Reply"))
	p.printf("| code_text | status | means |\n|---|---|---|\n")
	for _, row := range words.OneOf {
		status, meaning, ok := strings.Cut(row.Schema().Description, ": ")
		if !ok {
			return mistake("CodeText: %s has no status", row.Schema().Const.Value)
		}
		p.printf("| `%s` | %s | %s |\n", row.Schema().Const.Value, status, cell(meaning))
	}
	p.printf("\nAny call may be refused with %s. Every answer has the header `X-Request-Id`: the request's, or one that "+
		"was made for it.\n\n", strings.Join(p.common, "; "))
	return nil
}

func (p *page) call(c call) error {
	p.printf("### %s\n\n`%s %s`\n\n%s.\n\n", c.name(), strings.ToUpper(c.verb), c.path, c.Summary)
	if c.Description != "" {
		p.printf("%s\n\n", strings.TrimSpace(c.Description))
	}
	p.parameters(c.Parameters)
	if c.RequestBody != nil {
		if media := inJSON(c.RequestBody.Content); media != nil {
			p.message("Request", media.Schema)
		}
	}
	if err := p.curl(c); err != nil {
		return err
	}
	for code, response := range c.Responses.Codes.FromOldest() {
		if err := p.answer(code, response); err != nil {
			return fmt.Errorf("%s: %w", code, err)
		}
	}
	p.refusals(c)
	return nil
}

// parameters lists the headers and parts of the path that a call has of its own.
func (p *page) parameters(all []*v3.Parameter) {
	var rows []string
	for _, in := range all {
		if in.Name == "X-Request-Id" || in.Name == "traceparent" {
			continue // of every call
		}
		where := "header"
		if in.In == "path" {
			where = "path"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s, %s | %s |\n", in.Name, where, p.typeOf(in.Schema), cell(in.Description)))
	}
	if len(rows) > 0 {
		p.printf("| parameter | in, type | meaning |\n|---|---|---|\n%s\n", strings.Join(rows, ""))
	}
}

// message tells of a message where it stands, or where that is told.
func (p *page) message(what string, proxy *base.SchemaProxy) {
	name := p.nameOf(proxy)
	if p.uses[name] > 1 {
		p.printf("%s: [%s](%s)\n\n", what, name, anchor(name))
		return
	}
	p.printf("%s `%s`:\n\n", what, name)
	p.fields(name)
}

// answer tells of a success; refusals are all alike.
func (p *page) answer(code string, response *v3.Response) error {
	media := inJSON(response.Content)
	if media == nil || code[0] != '2' {
		return nil
	}
	p.message("Answer "+code, media.Schema)
	example, err := indented(media.Example)
	if err != nil {
		return err
	}
	p.printf("```json\n%s\n```\n\n", example)
	return nil
}

// refusals lists statuses and words, but for those that any call may get.
func (p *page) refusals(c call) {
	var own []string
	for _, r := range refusalsOf(c) {
		if !slices.Contains(p.common, r) {
			own = append(own, r)
		}
	}
	if len(own) > 0 {
		p.printf("Refusals of its own: %s.\n\n", strings.Join(own, "; "))
	}
}

// refusalsOf are statuses with their words, such as 404 `not_found`.
func refusalsOf(c call) []string {
	var all []string
	for code, response := range c.Responses.Codes.FromOldest() {
		media := inJSON(response.Content)
		if media == nil || code[0] < '4' {
			continue
		}
		words := media.Schema.Schema().Properties.GetOrZero("code_text")
		if words == nil {
			continue // of health, which has words of its own
		}
		text := code
		for i, word := range words.Schema().Enum {
			if i > 0 {
				text += ","
			}
			text += " `" + word.Value + "`"
		}
		all = append(all, text)
	}
	return all
}

// findCommon finds the refusals that all calls have.
func (p *page) findCommon() {
	for i, c := range p.calls {
		switch {
		case c.verb != "post":
		case i == 0:
			p.common = refusalsOf(c)
		default:
			own := refusalsOf(c)
			p.common = slices.DeleteFunc(p.common, func(r string) bool { return !slices.Contains(own, r) })
		}
	}
}

// countUses finds in how many places of calls a message is the request or the answer.
func (p *page) countUses() {
	p.uses = make(map[string]int)
	for _, c := range p.calls {
		for _, name := range p.messagesOf(c) {
			p.uses[name]++
		}
	}
	p.uses["Reply"]++ // of every refusal
}

// messagesOf are the names of a call's request and of its answers but for refusals.
func (p *page) messagesOf(c call) []string {
	var names []string
	if c.RequestBody != nil {
		if media := inJSON(c.RequestBody.Content); media != nil {
			names = append(names, p.nameOf(media.Schema))
		}
	}
	for code, response := range c.Responses.Codes.FromOldest() {
		if media := inJSON(response.Content); media != nil && code[0] == '2' {
			names = append(names, p.nameOf(media.Schema))
		}
	}
	return names
}

// inJSON returns what a body is in JSON, or nil.
func inJSON(content *orderedmap.Map[string, *v3.MediaType]) *v3.MediaType {
	if content == nil {
		return nil
	}
	return content.GetOrZero("application/json")
}

// messages tells of those that have no call to themselves.
func (p *page) messages() error {
	p.printf("## Messages\n\nThose of several calls, and those within others.\n\n")
	for name, proxy := range p.schemas.FromOldest() {
		if s := proxy.Schema(); s.Properties == nil || p.uses[name] == 1 {
			continue
		}
		p.printf("### %s\n\n", name)
		p.fields(name)
	}
	p.printf("## Values\n\n| type | meaning |\n|---|---|\n")
	for name, proxy := range p.schemas.FromOldest() {
		if s := proxy.Schema(); s.Properties == nil && s.OneOf == nil && s.ContentMediaType == "" {
			p.printf("| %s | %s |\n", name, cell(s.Description))
		}
	}
	return nil
}

// cell is a text as a table has it.
func cell(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.ReplaceAll(text, "|", `\|`)
}
