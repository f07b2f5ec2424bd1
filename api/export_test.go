package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
)

// Routes calls f with each verb and path that the server answers.
func (s *Server) Routes(f func(verb, path string)) error {
	return chi.Walk(s.router, func(verb, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		f(verb, path)
		return nil
	})
}

// Calls returns what the server answers, as "POST /v1/queue.lease", but for methods
// that it refuses as those of a later release. HEAD, which is GET without the body, is
// left out.
func (s *Server) Calls() (calls []string, err error) {
	err = s.Routes(func(verb, path string) {
		if verb != http.MethodHead && !slices.Contains(laterMethods, strings.TrimPrefix(path, "/v1/")) {
			calls = append(calls, verb+" "+path)
		}
	})
	return calls, err
}

// Methods returns the names of the calls that take a message.
func (s *Server) Methods() (names []string, err error) {
	calls, err := s.Calls()
	for _, call := range calls {
		if name, ok := strings.CutPrefix(call, "POST /v1/"); ok && !strings.Contains(name, "{") {
			names = append(names, name)
		}
	}
	return names, err
}
