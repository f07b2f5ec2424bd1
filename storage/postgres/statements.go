package postgres

import "strings"

// text puts the schema into a statement, in which {s} stands for it. The same text is
// made once.
func (s *Store) text(q string) string {
	if made, ok := s.texts.Load(q); ok {
		return made.(string)
	}
	made := strings.ReplaceAll(q, "{s}", s.schema)
	s.texts.Store(q, made)
	return made
}
