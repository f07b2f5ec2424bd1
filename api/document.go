package api

import (
	"net/http"
	"strings"

	"github.com/posthaste-io/posthaste/api/openapi"
)

func (s *Server) documentRoutes() {
	h := s.exchange("openapi.yaml", (*exchange).document)
	s.router.Get("/openapi.yaml", h)
	s.router.Head("/openapi.yaml", h)
}

// document answers the description of this interface. It is the same for everybody,
// so nobody needs a key.
func (x *exchange) document() {
	h := x.w.Header()
	h.Set("ETag", openapi.ETag)
	// Kept by clients, and asked for again: another release has another one.
	h.Set("Cache-Control", "no-cache")
	if known := x.r.Header.Get("If-None-Match"); strings.Contains(known, openapi.ETag) || known == "*" {
		x.status, x.word = http.StatusNotModified, "not_modified"
		x.w.WriteHeader(x.status)
		return
	}
	// Whoever cannot be answered is gone.
	_ = x.write(http.StatusOK, "ok", openapi.MediaType, openapi.Document, false)
}
