package postgres

import "strings"

// statements are the texts, with the schema in place. {s} stands for it.
type statements struct {
	mark, marked string
}

func newStatements(schema string) statements {
	in := func(text string) string { return strings.ReplaceAll(text, "{s}", schema) }
	return statements{
		mark:   in(`insert into {s}.batches (id) values ($1) on conflict do nothing`),
		marked: in(`select answer from {s}.batches where id = $1`),
	}
}

// text puts the schema into a statement. The same text is made once.
func (s *Store) text(q string) string {
	if made, ok := s.texts.Load(q); ok {
		return made.(string)
	}
	made := strings.ReplaceAll(q, "{s}", s.schema)
	s.texts.Store(q, made)
	return made
}
